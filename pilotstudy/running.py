"""`pilotstudy run` and `resume`: from a study to a run folder full of results."""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pilotstudy.data.prepared import load
from pilotstudy.director import FINAL, Director
from pilotstudy.errors import InputError, InterruptedRunError, NotDoneError
from pilotstudy.progress import message
from pilotstudy.results import gather_epochs
from pilotstudy.runs import Run
from pilotstudy.spec import Study, trial


@dataclass(frozen=True)
class Options:
    """How a study is run; what it computes is in the study."""

    data_dir: str | None = None
    cpus_per_trial: int = 1
    gpus_per_trial: float | Literal["auto"] = 0.0
    concurrency: int | None = None
    address: str | None = None
    mps: bool = False


@dataclass(frozen=True)
class Limits:
    """When a run ends before it is done. `max_cost` in dollars, at `price` dollars an hour for each machine.

    `wait`: minutes to wait for a cluster's first node before giving up.
    """

    time_budget: float | None = None
    max_cost: float | None = None
    price: float | None = None
    wait: float = 30.0


STILL_COSTS = (
    "the cluster at {address} still runs, and costs what it costs: `ray down FILE` (ray up), `kubectl delete "
    "raycluster NAME` (Kubernetes), `sky down NAME` (SkyPilot) or `scancel JOB` (Slurm) ends it"
)


def start(study: Study, run: Run, options: Options, *, quiet: bool = False, limits: Limits | None = None) -> None:
    """Runs what the run folder does not hold yet."""
    with run.locked():
        run.files.stop.unlink(missing_ok=True)
        data = load(study.data.name, Path(options.data_dir) if options.data_dir else None, study.data.image_size)
        director = Director(study, run, data.fingerprint)
        run.freeze(study, asdict(options), data.fingerprint)
        if director.all_done():
            director.save()
        else:
            run_all(director, data, options, quiet, limits or Limits())
        gather_epochs(run.files, {item.key for item in director.items if item.status in FINAL})
        reused = sum(item.reused for item in director.items)
        if reused:
            message(f"{reused} of {director.total} trials were there already and were not repeated")
        moves = sum(item.result.get("moves", 0) for item in director.items)
        if moves:
            message(f"trials went on elsewhere {moves} time{'s' * (moves != 1)} after their node was lost")
        check(director, run)


def run_all(director: Director, data: Any, options: Options, quiet: bool, limits: Limits) -> None:
    from pilotstudy.cluster import engine
    from pilotstudy.screen import Screen

    run = director.run
    since = time.monotonic()
    with engine.connected(options.address, run.files.log), engine.terminal() as out:
        try:
            engine.shared(run.files.folder)
            if options.gpus_per_trial == "auto":
                of_each = [trial(director.study, arm, 0) for arm in director.study.arms]
                gpus = engine.measured_share(of_each, data, limits.wait, message)
            else:
                gpus = options.gpus_per_trial
            left = director.total - director.done
            resources = engine.fitting(options.cpus_per_trial, gpus, options.concurrency, left, mps=options.mps)
            if resources.gpus != options.gpus_per_trial:
                message(f"each trial gets {resources.gpus:g} of a GPU")
            most = "up to " if resources.autoscaled else ""
            message(f"run {run.name}: {director.total} trials, {most}{resources.concurrency} at a time")
            with Screen(director, out, quiet) as screen:
                ended = engine.execute(director, data, resources, screen, limits)
        finally:
            if options.address:
                message(STILL_COSTS.format(address=options.address))
    if ended.stopping != "lost":
        run.add_devices(ended.devices)
    if limits.price:
        message(f"spent about {ended.spent:.2f} $ at {limits.price:g} $ an hour for each machine that takes trials")
        if not options.address:
            message(f"this machine goes on costing {limits.price:g} $ an hour until you end it at your provider")
    if isinstance(ended.error, NotDoneError):
        raise NotDoneError(f"{ended.error}; `pilotstudy resume {run.name}` goes on from here")
    if ended.error:
        raise ended.error
    if ended.stopping == "interrupted":
        raise InterruptedRunError(f"interrupted, nothing is lost; `pilotstudy resume {run.name}` goes on from here")
    if ended.stopping:
        why = {"stopped": "stopped", "time": "the time budget is used up", "cost": "the money is used up"}[
            ended.stopping
        ]
        raise NotDoneError(f"{why}; `pilotstudy resume {run.name}` goes on from here")
    message(f"done in {time.monotonic() - since:.0f} s")


def check(director: Director, run: Run) -> None:
    failed = [item for item in director.items if item.status == "failed"]
    if failed:
        first = failed[0]
        raise NotDoneError(
            f"{len(failed)} of {director.total} trials failed, the first ({first.name}) with: {first.result['error']}; "
            f"`pilotstudy status {run.name} --errors` shows all, `pilotstudy resume {run.name}` tries them again"
        )


def resume(run: Run, *, quiet: bool = False, limits: Limits | None = None) -> None:
    frozen = run.frozen()
    try:
        options = Options(**frozen["options"])
    except (KeyError, TypeError) as error:
        raise InputError(f"{run.files.study} is of another version: run the study anew") from error
    start(run.study(), run, options, quiet=quiet, limits=limits)
