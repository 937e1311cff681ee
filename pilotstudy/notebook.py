"""Studies and runs in Python: what the commands do, as objects that a notebook shows."""

import html
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from pilotstudy import console, extensions
from pilotstudy.arms.catalogue import arm_named
from pilotstudy.errors import InputError, WrongStudyError, nearest
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics.recalibration import Recalibration
from pilotstudy.metrics.registry import METRICS, headline_metrics, resampled_metrics
from pilotstudy.networks.catalogue import LIBRARIES, declared_in
from pilotstudy.report import shown
from pilotstudy.report.shown import Shown, ShownTable
from pilotstudy.runs import folder
from pilotstudy.runs.records import At
from pilotstudy.runs.results import Results
from pilotstudy.runs.status import overview
from pilotstudy.runs.trust import load_trusted
from pilotstudy.storage import absolute, place
from pilotstudy.study import reading, spec
from pilotstudy.study.budget import counts, with_budget
from pilotstudy.study.faults import Places
from pilotstudy.study.looks import asked_looks
from pilotstudy.study.naming import check_run_name
from pilotstudy.study.resources import Limits, Location
from pilotstudy.study.statements import Row, Statement
from pilotstudy.study.toml import toml_text

if TYPE_CHECKING:
    from pilotstudy.schedule.conduct import Engine

Backend = Literal["inline", "ray"]
BACKENDS: tuple[Backend, ...] = ("inline", "ray")


class Study:
    """What is to be trained on what, as study files say it, every key checked. `run` trains it.

    `load`: a file, or a built-in study by its name. `from_dict`: the same content as a dict.
    """

    def __init__(self, content: spec.Study):
        self.content = content

    @classmethod
    def load(cls, study: "str | Path", changes: Mapping[str, object] | None = None) -> "Study":
        """`changes`: dotted keys and their values, such as {"training.epochs": 2}."""
        with _wrong_values():
            said = {key: f"changes {key}" for key in changes or ()}
            return cls(reading.read_study(str(study), changes, said))

    @classmethod
    def from_dict(cls, content: Mapping[str, object], name: str = "study") -> "Study":
        """Paths in `uses` and `claims` are relative to the working folder."""
        with _wrong_values():
            if not isinstance(content, Mapping):
                raise InputError(f"a study is a dict, not a {type(content).__name__}")
            path = Path(f"{check_run_name(name, 'name')}.toml")
            return cls(reading.complete_study(dict(content), path, Places("study")))

    @property
    def name(self) -> str:
        return self.content.name

    def to_dict(self) -> dict[str, object]:
        """With every default filled in."""
        untrained = {"network", "training", "search", "resources"} if self.content.imported else None
        return self.content.model_dump(exclude=untrained)

    def to_toml(self) -> str:
        """As a study file would have it, with every default filled in."""
        return toml_text(self.to_dict())

    def run(
        self,
        backend: Backend = "inline",
        *,
        name: str | None = None,
        runs_dir: "str | Path" = "runs",
        data_dir: "str | Path | None" = None,
        seeds: int | None = None,
        trials: int | None = None,
        until_decided: bool = False,
        max_seeds: int | None = None,
        address: str | None = None,
        time_budget: float | None = None,
        quiet: bool = False,
    ) -> "Run":
        """Trains what the run's folder does not hold yet.

        `backend`: inline, in this process, one trial after another; or ray, on an embedded Ray, or a cluster with
        `address`. `data_dir`: by default what PILOTSTUDY_DATA says. `seeds`, `trials`: how many, in place of the
        study's. `until_decided`: seeds are added in planned looks until the claims are decided, `max_seeds` (20) at
        most. `time_budget`: seconds.
        """
        from pilotstudy.evidence.looking import still_wanted
        from pilotstudy.schedule.conduct import start

        if time_budget is not None and not (isinstance(time_budget, int | float) and time_budget >= 0):
            raise InputError(f"time_budget = {time_budget!r}: expected seconds, 0 or more")
        if max_seeds is not None and max_seeds < 2:
            raise InputError(f"max_seeds = {max_seeds}: give 2 or more")
        study = with_budget(self.content, seeds, trials)
        study, looks = asked_looks(study, until_decided=until_decided, max_seeds=max_seeds, seeds=seeds)
        engine = _engine(study, backend, address)
        run = folder.Run.named(check_run_name(study.name if name is None else name, "name"), place(runs_dir))
        data_dir = data_dir or os.environ.get("PILOTSTUDY_DATA")
        location = Location(absolute(Path(data_dir)) if data_dir else None, address)
        with _silence(quiet):
            limits = Limits(time_budget=time_budget)
            start(study, run, location, engine, still_wanted, looks=looks, quiet=quiet, limits=limits)
        return Run(run.files)

    def __repr__(self) -> str:
        study = self.content
        trials = sum(counts(study).values())
        return (
            f"Study {study.name!r}: {', '.join(study.arms)}; {study.network.name} on {study.data.name}, "
            f"{len(study.seeds)} seeds, {trials} trials"
        )

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p><pre>{html.escape(self.to_toml())}</pre>"


@dataclass(frozen=True, repr=False)
class Run(Results):
    """A run: its tables (`trials`, `evaluations`, `epochs`, `predictions`; Arrow, each with `.to_pandas()`), and what
    the commands say of it. Predictions are read once: `pilotstudy.load` it again for what has come since.
    """

    @property
    def name(self) -> str:
        return self.files.folder.name

    @property
    def study(self) -> Study:
        """As it was last run."""
        return Study(self._evidence.study)

    @property
    def results(self) -> Shown:
        """A row for each arm, mode and phase: test figures, mean and sample deviation over seeds."""
        from pilotstudy.evidence.summary import optimism, summary

        return shown.shown_results(summary(self._evidence), optimism(self._evidence))

    def table(
        self,
        metrics: Sequence[str] | None = None,
        at: At = "last",
        *,
        recalibration: Recalibration = "none",
        cost: bool = False,
        like_paper: bool = False,
    ) -> ShownTable:
        """Every row with its spread and interval, the best marked only where it is really the best."""
        from pilotstudy.report.table import build_table

        _check_at(at)
        _check_recalibration(recalibration)
        table = build_table(
            self._evidence,
            like_paper=like_paper,
            metrics=_metrics(metrics),
            at=at,
            recalibration=recalibration,
            with_cost=cost,
        )
        return ShownTable(table)

    def answer(self) -> str:
        """Which row to take, at what gain and price, how sure that is, and what would settle the rest."""
        from pilotstudy.evidence.recommendation import answer

        return answer(self._evidence).text

    def claims(self, *more: str) -> Shown:
        """Which claims of the study hold; `more`: others, such as "nll: dropout < vanilla", as afterthoughts."""
        from pilotstudy.evidence.claims import judge_all
        from pilotstudy.evidence.reservations import reservations

        for text in more:
            Statement.parse(text, self._evidence.known, self._evidence.kinds)
        extra = [spec.Claim(says=text, holds=text, only=()) for text in more]
        return shown.shown_claims(judge_all(self._evidence, extra), reservations(self._evidence.run))

    def compare(
        self,
        against: str | None = None,
        metrics: Sequence[str] | None = None,
        at: At = "last",
        *,
        recalibration: Recalibration = "none",
    ) -> Shown:
        """Every row against one, by default the reference: differences, intervals and corrected p-values."""
        from pilotstudy.evidence.compare import compare_rows, reference_row

        _check_at(at)
        _check_recalibration(recalibration)
        evidence = self._evidence
        row = Row.parse(against, evidence.known) if against else reference_row(evidence)
        comparisons = compare_rows(evidence, row, _metrics(metrics), at=at, recalibration=recalibration)
        return shown.shown_records([comparison.record() for comparison in comparisons])

    def tests(self) -> Shown:
        """The study's further test sets: figures of each row, with the difference to its own test images."""
        from pilotstudy.evidence.shift import all_test_figures

        return shown.shown_records([figure.record() for figure in all_test_figures(self._evidence)])

    def ensembles(self, at: At = "last", *, recalibration: Recalibration = "temperature") -> Shown:
        """The paper's ensemble, of all baselines, and one of the seeds of every arm, as it is and recalibrated."""
        from pilotstudy.evidence.ensembles import ensemble_figures

        _check_at(at)
        _check_recalibration(recalibration)
        return shown.shown_ensembles(ensemble_figures(self._evidence, at, recalibration))

    def dashboard(self, output: "str | Path | None" = None) -> "Page":
        """Writes the page of the run: one HTML file, by default in its folder."""
        from pilotstudy.page import render

        return Page(render.save(folder.Run(self.files.folder), Path(output) if output else None))

    def export(
        self,
        output: "str | Path | None" = None,
        *,
        predictions: bool = True,
        optuna: "str | Path | None" = None,
        tensorboard: "str | Path | None" = None,
        mlflow: "str | Path | None" = None,
    ) -> None:
        """Writes the files of an appendix into the folder `output`, and the trials for optuna-dashboard (a file),
        TensorBoard or MLflow (folders). Nothing that exists is replaced. `predictions`: whether `output` has every
        image's logits, which are most of its size.
        """
        from pilotstudy.report.doors.writing import export_to

        doors = {"optuna": optuna, "tensorboard": tensorboard, "mlflow": mlflow}
        places = {name: Path(path) if path else None for name, path in doors.items()}
        run, target = folder.Run(self.files.folder), Path(output) if output else None
        for said in export_to(run, target, places, predictions=predictions):
            console.message(said)

    @cached_property
    def _evidence(self) -> RunEvidence:
        return RunEvidence(folder.Run(self.files.folder))

    def __repr__(self) -> str:
        state = overview(folder.Run(self.files.folder))
        trials = f"{state['done']} of {state['trials']} trials"
        return f"Run {self.name!r}: {state['state']}, {trials}; {state['network']} on {state['data']}"

    def _repr_html_(self) -> str:
        table = self.table()._repr_html_() if self._evidence.finished else "<p>No trial has finished yet.</p>"
        return f"<p>{html.escape(repr(self))}</p>\n{table}"


class Page:
    """A page, where it was written; a notebook shows it whole and keeps it, figures and all."""

    def __init__(self, path: Path):
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        content = html.escape(self.path.read_text("utf-8"))
        return f'<iframe srcdoc="{content}" title="{html.escape(str(self.path))}" width="100%" height="800"></iframe>'


def load(run: "str | Path") -> Run:
    """A run, by the path of its folder or its name in ./runs."""
    opened = folder.Run.find(str(run), Path("runs"))
    load_trusted(opened)
    return Run(opened.files)


def dashboard(*runs: "Run | str | Path", output: "str | Path | None" = None) -> Page:
    """Writes a page that compares several runs: one HTML file, by default comparison.html in the working folder.

    Runs as `load` gives them, or what it takes. Of a single one, the page that `Run.dashboard` writes.
    """
    from pilotstudy.page import render

    if not runs:
        raise InputError("give a run, or several to compare")
    given = [run if isinstance(run, Run) else load(run) for run in runs]
    if len(given) == 1:
        return given[0].dashboard(output)
    opened = [folder.Run(run.files.folder) for run in given]
    return Page(render.save_comparison(opened, Path(output) if output else None))


@contextmanager
def _wrong_values() -> Iterator[None]:
    """What is wrong with a study is a ValueError in Python."""
    try:
        yield
    except InputError as error:
        raise WrongStudyError(str(error)) from error


@contextmanager
def _silence(quiet: bool) -> Iterator[None]:
    before, console.quiet = console.quiet, quiet
    try:
        yield
    finally:
        console.quiet = before


def _check_at(at: str) -> None:
    if at not in get_args(At):
        raise InputError(f"at = {at!r}: it is one of {', '.join(get_args(At))}")


def _metrics(given: Sequence[str] | None) -> list[str]:
    if isinstance(given, str):
        raise InputError(f"metrics = {given!r}: give a list, [{given!r}]")
    for name in given or ():
        if name not in resampled_metrics():
            raise InputError(f"metric {name!r}: {nearest(name, resampled_metrics())}")
    return list(given or headline_metrics())


def _check_recalibration(recalibration: str) -> None:
    if recalibration not in get_args(Recalibration):
        raise InputError(f"recalibration = {recalibration!r}: it is one of {', '.join(get_args(Recalibration))}")


def _engine(study: spec.Study, backend: str, address: str | None) -> "Engine":
    if backend == "inline":
        from pilotstudy.schedule.inline import inline_engine

        if address:
            raise InputError("backend 'inline' trains in this process, and `address` is a cluster's: give one of them")
        return inline_engine
    if backend != "ray":
        raise InputError(f"backend {backend!r}: {nearest(str(backend), list(BACKENDS))}")
    here = _declared_here(study)
    if here:
        raise InputError(
            f"{', '.join(here)}: declared in this process, where Ray's workers cannot see it: put it into a file and "
            "name that in `uses` of the study, or run with backend='inline'"
        )
    from pilotstudy.cluster.engine import RayEngine

    return RayEngine(address)


def _declared_here(study: spec.Study) -> list[str]:
    """The arms, the network and the objectives that only this process knows. Other metrics are computed here anyway."""
    rows = [*study.arms, *(study.search.arms if study.search else ())]
    methods = dict.fromkeys(method for row in rows for method in study.method(row).split("+"))
    sources = {f"arm {method!r}": arm_named(method).source for method in methods}
    module, colon, _ = study.network.name.partition(":")
    named = f"network {study.network.name!r}"
    if not colon:
        sources[named] = declared_in(study.network.name)
    elif module == "__main__":
        sources[named] = module
    for name in study.search.objectives if study.search else ():
        sources[f"metric {name!r}"] = METRICS[name].source
    return [what for what, source in sources.items() if source and not _is_everywhere(source)]


def _is_everywhere(source: str) -> bool:
    ours = source.startswith("pilotstudy.") or source in LIBRARIES
    return ours or extensions.is_from_file(source) or extensions.is_installed(source)
