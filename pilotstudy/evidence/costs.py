"""What each row costs: parameters, training, passes at test."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from pilotstudy.arms.sampling import MC_SAMPLES
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.runs.records import TrialRow
from pilotstudy.study.statements import ENSEMBLE, Row


@dataclass(frozen=True)
class Cost:
    """What predicting with a row needs; of an ensemble, sums over its members. None: not known."""

    parameters: int | None = None  # of the networks that predict
    own_parameters: int | None = None  # of what the arm trains beside them
    training_seconds: float | None = None  # of one network, mean over trials
    passes: int | None = None  # through a network, for one prediction

    def record(self) -> dict[str, int | float | None]:
        return asdict(self)


HEADINGS = {
    "parameters": "parameters",
    "own_parameters": "arm's own",
    "training_seconds": "training s",
    "passes": "passes",
}
NOTE = (
    "Cost: parameters of the networks that predict and of what the arm trains beside them, training seconds of a trial "
    "(mean over seeds), passes through a network for a prediction; of an ensemble, sums over its members."
)


def costs(evidence: RunEvidence) -> dict[Row, Cost]:
    """Of every row with finished trials, ensembles included."""
    by_arm: dict[tuple[str, str], list[TrialRow]] = {}
    for trial in evidence.finished:
        by_arm.setdefault((trial.phase, trial.arm), []).append(trial)
    rows: dict[Row, Cost] = {}
    for (phase, arm), trials in by_arm.items():
        first = evidence.first_results[phase, arm]
        point = network_cost(evidence, first.parameters if first else {}, trials)
        by_mode = {"point": point, "mc": sampled_cost(point, first.sampling if first else {})}
        declared = evidence.arms.get(arm)
        for mode in dict.fromkeys(each.mode for trial in trials for each in trial.evaluations):
            rows[Row(arm, mode, phase, declared)] = by_mode[mode]
        rows[Row(arm, "seeds", phase, declared)] = total([point] * len(trials))
    members = [cost for row, cost in rows.items() if row.in_ensemble]
    return rows | {Row(ENSEMBLE, ENSEMBLE): total(members)}


def network_cost(evidence: RunEvidence, parameters: Mapping[str, int], trials: Sequence[TrialRow]) -> Cost:
    """Of one network of an arm that predicts as it is; nothing is known of predictions from elsewhere."""
    seconds = [trial.training_seconds for trial in trials if trial.training_seconds is not None]
    return Cost(
        parameters=parameters.get("network"),
        own_parameters=sum(parameters.values()) - parameters["network"] if "network" in parameters else None,
        training_seconds=sum(seconds) / len(seconds) if seconds else None,
        passes=None if evidence.study.imported else 1,
    )


def sampled_cost(point: Cost, sampling: Mapping[str, int]) -> Cost:
    """Of the same network with sampled predictions; earlier versions did not say what these take."""
    parameters = point.parameters and point.parameters * sampling.get("weights", 1)
    return replace(point, passes=point.passes and sampling.get("passes", MC_SAMPLES), parameters=parameters)


def total(members: Sequence[Cost]) -> Cost:
    """Of an ensemble; what is not known of one of its members is not known of it."""
    columns = {name: [getattr(member, name) for member in members] for name in HEADINGS}
    return Cost(**{name: None if None in values else sum(values) for name, values in columns.items()})
