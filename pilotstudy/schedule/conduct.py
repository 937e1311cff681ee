"""From a study to a run folder full of results: what `pilotstudy run` and `resume` do around an engine."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pilotstudy.console import message
from pilotstudy.data.dataset import DataSet
from pilotstudy.errors import InterruptedRunError, NotDoneError, PilotstudyError
from pilotstudy.runs.filling import fill_in
from pilotstudy.runs.folder import Run
from pilotstudy.runs.frozen import tests_of
from pilotstudy.runs.records import Status
from pilotstudy.runs.results import Results, gather_epochs
from pilotstudy.runs.status import mixtures
from pilotstudy.runs.trust import check_trusted, trust
from pilotstudy.schedule.beforehand import check_models, check_same_recipe, check_trained_here
from pilotstudy.schedule.director import Director
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


def start(
    study: Study, run: Run, location: Location, engine: Engine, *, quiet: bool = False, limits: Limits | None = None
) -> None:
    """Runs what the run folder does not hold yet."""
    check_trained_here(run, study)
    with run.locked():
        run.files.stop.unlink(missing_ok=True)
        folder = Path(location.data_dir) if location.data_dir else None
        data = load_study_data(study, folder)
        load_uses(study)
        check_same_recipe(run, study)
        check_models(study, data)
        trust(study.uses)
        director = Director(study, run, data.fingerprint, {test.name: test.fingerprint for test in data.tests})
        if again := director.without_tests():
            message(f"{again} finished trials lack a test set of the study: they are trained again")
        run.freeze(study, location, data.fingerprint, tests_of(data))
        if director.all_done():
            director.save()
        else:
            _run_all(director, data, engine, quiet, limits or Limits())
        fill_in(run.files)
        gather_epochs(run.files, {item.key for item in director.items if item.status.final})
        reused = sum(item.reused for item in director.items)
        if reused:
            message(f"{reused} of {director.total} trials were there already and were not repeated")
        for said in mixtures(Results(run.files).rows()):
            message(said)
        moves = sum(item.moves for item in director.items)
        if moves:
            message(f"trials went on elsewhere {moves} time{'s' * (moves != 1)} after their node was lost")
        _check(director, run)


def resume(run: Run, engine: Engine, *, quiet: bool = False, limits: Limits | None = None) -> None:
    check_trusted(run)
    start(run.study(), run, run.frozen().location, engine, quiet=quiet, limits=limits)


def _run_all(director: Director, data: DataSet, engine: Engine, quiet: bool, limits: Limits) -> None:
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
        raise NotDoneError(f"{ended.error}; `pilotstudy resume {run.name}` goes on from here")
    if ended.error:
        raise ended.error
    if ended.stopping == "interrupted":
        raise InterruptedRunError(f"interrupted, nothing is lost; `pilotstudy resume {run.name}` goes on from here")
    if ended.stopping:
        raise NotDoneError(f"{WHY[ended.stopping]}; `pilotstudy resume {run.name}` goes on from here")
    message(f"done in {time.monotonic() - since:.0f} s")


def _check(director: Director, run: Run) -> None:
    failed = [item for item in director.items if item.status is Status.FAILED]
    if failed:
        first = failed[0]
        raise NotDoneError(
            f"{len(failed)} of {director.total} trials failed, the first ({first.name}) with: {first.error}; "
            f"`pilotstudy status {run.name} --errors` shows all, `pilotstudy resume {run.name}` tries them again"
        )
