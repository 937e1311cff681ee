"""From a study to a run folder full of results: what `pilotstudy run` and `resume` do around an engine."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pilotstudy.console import message
from pilotstudy.data.dataset import DataSet
from pilotstudy.errors import AllDivergedError, InterruptedRunError, NotDoneError, PilotstudyError
from pilotstudy.runs.filling import fill_in
from pilotstudy.runs.folder import Run
from pilotstudy.runs.frozen import tests_of
from pilotstudy.runs.records import Status
from pilotstudy.runs.results import Results, gather_epochs
from pilotstudy.runs.status import mixtures
from pilotstudy.runs.trust import check_trusted, trust
from pilotstudy.schedule.beforehand import check_models, check_same_recipe, check_trained_here, looks_of
from pilotstudy.schedule.director import Director
from pilotstudy.schedule.item import Item
from pilotstudy.study.looks import Looks, Wanted
from pilotstudy.study.reading import load_uses
from pilotstudy.study.resources import Limits, Location
from pilotstudy.study.spec import Study
from pilotstudy.study.testsets import load_study_data

WHY = {"stopped": "stopped", "time": "the time budget is used up", "cost": "the money is used up"}


@dataclass(frozen=True)
class Ended:
    """How an engine ended. `stopping`: why before all was done, else empty. `devices`: what the trials ran on."""

    stopping: str = ""
    error: PilotstudyError | None = None
    devices: Mapping[str, str] = field(default_factory=dict)  # each with the first host that had it
    spent: float = 0.0  # dollars
    afterwards: str = ""  # what to say of the machine that it ran on


class Engine(Protocol):
    """Trains what a director plans until all is done, or something stops it, and saves."""

    def __call__(self, director: Director, data: DataSet, limits: Limits, *, quiet: bool) -> Ended: ...


class Judge(Protocol):
    """Says which arms the open claims of a run, and its best row, still need seeds of; nothing where all is decided."""

    def __call__(self, run: Run) -> Wanted: ...


def start(
    study: Study,
    run: Run,
    location: Location,
    engine: Engine,
    judge: Judge,
    *,
    looks: Looks | None = None,
    quiet: bool = False,
    limits: Limits | None = None,
) -> None:
    """Runs what the run folder does not hold yet. With `looks`, seeds are added until the judge wants no more."""
    check_trained_here(run, study)
    with run.locked():
        for path in run.files.stop, run.files.running:  # left by an earlier driver
            path.unlink(missing_ok=True)
        study, looks = looks_of(run, study, looks)
        folder = Path(location.data_dir) if location.data_dir else None
        data = load_study_data(study, folder)
        load_uses(study)
        check_same_recipe(run, study)
        check_models(study, data)
        trust(study.uses)
        fingerprints = {test.name: test.fingerprint for test in data.tests}
        director = Director(study, run, data.fingerprint, looks, fingerprints)
        if again := director.number_without_tests():
            message(f"{again} finished trials lack a test set of the study: they are trained again")
        run.freeze(study, location, data.fingerprint, looks, tests_of(data))
        run.keep_soft_labels(data.tests)
        left = _complete(director, data, engine, quiet, limits or Limits())
        reused = director.number_from_earlier()
        if reused:
            message(f"{reused} of {director.total} trials were there already and were not repeated")
        while looks and not _failed(director) and (looks := _further(run, looks, judge)):
            director = Director(study, run, data.fingerprint, looks, fingerprints)
            left = _complete(director, data, engine, quiet, left)
        for said in mixtures(Results(run.files).rows()):
            message(said)
        moves = sum(item.moves for item in director.items)
        if moves:
            message(f"trials went on elsewhere {moves} time{'s' * (moves != 1)} after their node was lost")
        _check(director, run)


def resume(run: Run, engine: Engine, judge: Judge, *, quiet: bool = False, limits: Limits | None = None) -> None:
    check_trusted(run)
    frozen = run.frozen()
    start(frozen.parsed(), run, frozen.location, engine, judge, looks=frozen.looks, quiet=quiet, limits=limits)


def _further(run: Run, looks: Looks, judge: Judge) -> Looks | None:
    """The next look, kept with the run before its trials start; None where none is left or wanted."""
    if looks.last or not any((wanted := judge(run)).values()):
        return None
    further = looks.further(wanted)
    run.keep_looks(further)
    return further


def _complete(director: Director, data: DataSet, engine: Engine, quiet: bool, limits: Limits) -> Limits:
    """Trains all that the director plans; what is left of the limits."""
    run, left = director.run, limits
    if director.looks:
        message(director.looks.words)
    if director.all_done():
        director.save()
    else:
        left = _run_all(director, data, engine, quiet, limits)
    fill_in(run.files)
    gather_epochs(run.files, {item.key for item in director.items if item.status.final})
    return left


def _run_all(director: Director, data: DataSet, engine: Engine, quiet: bool, limits: Limits) -> Limits:
    run = director.run
    since = time.monotonic()
    ended = engine(director, data, limits, quiet=quiet)
    if ended.stopping != "lost":
        run.add_devices(ended.devices)
    if limits.price:
        message(f"spent about {ended.spent:.2f} $ at {limits.price:g} $ an hour for each machine that takes trials")
    if ended.afterwards:
        message(ended.afterwards)
    if isinstance(ended.error, NotDoneError):
        raise NotDoneError(f"{ended.error}; {run.files.hint('resume')} goes on from here")
    if ended.error:
        raise ended.error
    if ended.stopping == "interrupted":
        raise InterruptedRunError(f"interrupted, nothing is lost; {run.files.hint('resume')} goes on from here")
    if ended.stopping:
        raise NotDoneError(f"{WHY[ended.stopping]}; {run.files.hint('resume')} goes on from here")
    seconds = time.monotonic() - since
    message(f"done in {seconds:.0f} s")
    return limits.less(seconds, ended.spent)


def _failed(director: Director) -> list[Item]:
    return [item for item in director.items if item.status is Status.FAILED]


def _check(director: Director, run: Run) -> None:
    failed = _failed(director)
    if failed:
        first = failed[0]
        raise NotDoneError(
            f"{len(failed)} of {director.total} trials failed, the first ({first.name}) with: {first.error}; "
            f"{run.files.hint('status', '--errors')} shows all, {run.files.hint('resume')} tries them again"
        )
    diverged = sum(item.status is Status.DIVERGED for item in director.items)
    if diverged:
        told = f"{diverged} of {len(director.items)} trials diverged: their losses were not finite"
        if diverged == len(director.items):
            raise AllDivergedError(f"{told}; lower the learning rate")
        message(told)
