"""A run as Optuna's SQLite storage, which `optuna-dashboard` and `optuna.load_study` open.

One study for each searched arm, on validation, as the search saw it; one for the fixed arms and one for the
confirmation, on test figures, with arm and seed as parameters.

Optuna adds trials one by one, with a query for every value: minutes for thousands of them. So rows go into its tables
at once, in its own models' form.
"""

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, distribution_to_json
from optuna.storages._rdb import models
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy import URL, Connection, insert

from pilotstudy.arms.arm import Setting, Space, widened
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics.registry import METRICS, headline_metrics
from pilotstudy.report.doors.told import Told, told_trials
from pilotstudy.runs.records import Status
from pilotstudy.schedule.search import distributions
from pilotstudy.storage import new_file
from pilotstudy.study.budget import PHASES

STATES = {
    Status.FINISHED: TrialState.COMPLETE,
    Status.STOPPED: TrialState.PRUNED,
    Status.DIVERGED: TrialState.FAIL,
    Status.FAILED: TrialState.FAIL,
    Status.RUNNING: TrialState.RUNNING,
}


@dataclass(frozen=True)
class OptunaStudy:
    """What one of its studies holds. `objectives`: metrics, of `split`."""

    name: str
    split: str
    objectives: Sequence[str]
    distributions: Mapping[str, BaseDistribution]
    trials: Sequence[Told]
    accuracy_floor: float = 0.0

    @property
    def metric_names(self) -> list[str]:
        return [f"{self.split}_{name}" for name in self.objectives]

    @property
    def directions(self) -> list[StudyDirection]:
        higher = (METRICS[name].better == "higher" for name in self.objectives)
        return [StudyDirection.MAXIMIZE if up else StudyDirection.MINIMIZE for up in higher]

    def frozen(self, told: Told) -> FrozenTrial:
        """A trial in Optuna's form; one without all objectives has failed, for Optuna."""
        state = STATES[told.row.status]
        values = [told.figures[name] for name in self.metric_names if name in told.figures]
        if state == TrialState.COMPLETE and len(values) < len(self.objectives):
            state = TrialState.FAIL
        params = {name: value for name, value in told.settings.items() if name in self.distributions}
        others = {name: value for name, value in told.settings.items() if name not in params}
        accuracy = told.figures.get(f"{self.split}_accuracy")
        under = None if accuracy is None or not self.accuracy_floor else self.accuracy_floor - accuracy
        trial = create_trial(
            state=state,
            values=values if state == TrialState.COMPLETE else None,
            params=params,
            distributions={name: self.distributions[name] for name in params},
            user_attrs={**others, **told.marks(), **told.headline},
            intermediate_values=self.intermediate_values(told),
            constraints=None if under is None else {"accuracy_floor": under},
        )
        trial.datetime_start = datetime.fromtimestamp(told.started)
        trial.datetime_complete = datetime.fromtimestamp(told.ended) if state.is_finished() else None
        return trial

    def intermediate_values(self, told: Told) -> dict[int, float]:
        """The first objective on validation, by epoch."""
        name = f"validation_{self.objectives[0]}"
        return {epoch: scalars[name] for epoch, scalars in told.epochs.items() if name in scalars}


def optuna_studies(evidence: RunEvidence) -> list[OptunaStudy]:
    """In the order of the plan; of a phase of which nothing has started, none."""
    trials = told_trials(evidence)
    found = []
    for phase in PHASES:
        of_phase = [told for told in trials if told.row.phase == phase]
        if of_phase:
            found += searched_arms(evidence, of_phase) if phase == "search" else [fixed_arms(evidence, of_phase)]
    return found


def fixed_arms(evidence: RunEvidence, trials: Sequence[Told]) -> OptunaStudy:
    """Trials whose settings nobody searched: those of the fixed arms, or of the confirmation."""
    places = {name: choices(told.settings[name] for told in trials) for name in ("arm", "seed")}
    name = f"{evidence.run.name}/{trials[0].row.phase}"
    return OptunaStudy(name, "test", tuple(headline_metrics()), places, trials)


def searched_arms(evidence: RunEvidence, trials: Sequence[Told]) -> list[OptunaStudy]:
    search = evidence.study.search
    assert search is not None
    found = []
    for arm, space in evidence.spaces.items():
        own = [told for told in trials if told.row.arm == arm]
        ranges = ranges_of(space, [told.row.settings for told in own])
        name = f"{evidence.run.name}/search/{arm}"
        found.append(OptunaStudy(name, "validation", search.objectives, ranges, own, search.accuracy_floor))
    return found


def choices(values: Iterable[Setting]) -> CategoricalDistribution:
    return CategoricalDistribution(tuple(dict.fromkeys(values)))


def ranges_of(space: Space, proposed: Sequence[Mapping[str, Setting]]) -> dict[str, BaseDistribution]:
    """Wide enough for all that was proposed, also under an earlier space."""
    for settings in proposed:
        known = {name: choice for name, choice in space.items() if name in settings}
        space = {**space, **widened(known, settings)}
    searched = {name: choice for name, choice in space.items() if any(name in settings for settings in proposed)}
    first = {name: value for settings in reversed(proposed) for name, value in settings.items()}
    return distributions(searched, first)


def write_optuna(evidence: RunEvidence, path: Path) -> int:
    """How many trials were written."""
    studies = optuna_studies(evidence)
    about = {"run": evidence.run.name, "title": evidence.study.title}
    written = 0
    with new_file(path) as beside:
        storage = optuna.storages.RDBStorage(URL.create("sqlite", database=str(beside)).render_as_string())
        for study in studies:
            made = optuna.create_study(storage=storage, study_name=study.name, directions=study.directions)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                made.set_metric_names(study.metric_names)
            for key, value in about.items():
                made.set_user_attr(key, value)
            with storage.engine.begin() as connection:
                trials = [study.frozen(told) for told in study.trials]
                insert_trials(connection, made._study_id, trials, written + 1)
            written += len(trials)
        storage.remove_session()
        storage.engine.dispose()
    return written


def insert_trials(connection: Connection, study: int, trials: Sequence[FrozenTrial], first: int) -> None:
    """All rows of each of Optuna's tables at once; `first`: the number of the first trial in the whole file."""
    rows: dict[type[models.BaseModel], list[Mapping[str, object]]] = {}
    for number, trial in enumerate(trials):
        for model, columns in trial_rows(trial):
            rows.setdefault(model, []).append({"trial_id": first + number, **columns})
        times = {"datetime_start": utc(trial.datetime_start), "datetime_complete": utc(trial.datetime_complete)}
        own = {"trial_id": first + number, "number": number, "study_id": study, "state": trial.state, **times}
        rows.setdefault(models.TrialModel, []).append(own)
    for model, columns_of_all in rows.items():
        connection.execute(insert(model.__table__), columns_of_all)


def trial_rows(trial: FrozenTrial) -> Iterator[tuple[type[models.BaseModel], dict[str, object]]]:
    """What the tables beside that of trials hold of one."""
    for objective, value in enumerate(trial.values or ()):
        stored, kind = models.TrialValueModel.value_to_stored_repr(value)
        yield models.TrialValueModel, {"objective": objective, "value": stored, "value_type": kind}
    for name, distribution in trial.distributions.items():
        number = distribution.to_internal_repr(trial.params[name])
        form = {"param_value": number, "distribution_json": distribution_to_json(distribution)}
        yield models.TrialParamModel, {"param_name": name, **form}
    for key, value in trial.user_attrs.items():
        yield models.TrialUserAttributeModel, {"key": key, "value_json": json.dumps(value)}
    for key, value in trial.system_attrs.items():
        yield models.TrialSystemAttributeModel, {"key": key, "value_json": json.dumps(value)}
    for step, value in trial.intermediate_values.items():
        stored, sort = models.TrialIntermediateValueModel.intermediate_value_to_stored_repr(value)
        form = {"intermediate_value": stored, "intermediate_value_type": sort}
        yield models.TrialIntermediateValueModel, {"step": step, **form}


def utc(time: datetime | None) -> datetime | None:
    """As the tables keep it: Optuna's trials have local times."""
    return time.astimezone(UTC).replace(tzinfo=None) if time else None
