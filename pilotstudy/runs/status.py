"""How far a run is, and what it trains now: the one account of it that commands and pages give."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict

from pilotstudy.errors import NewerFormatError, PilotstudyError
from pilotstudy.runs.folder import Run
from pilotstudy.runs.records import Status, TrialRow
from pilotstudy.runs.results import Results
from pilotstudy.runs.under_way import RunningTrial, UnderWay
from pilotstudy.study.budget import Phase, counts

SHOWN = (Status.FINISHED, Status.RUNNING, Status.DIVERGED, Status.STOPPED, Status.FAILED)


class Overview(TypedDict):
    """One line about a run. `running`: trials under way; `ends`: when all will be done, if it goes on like this."""

    run: str
    state: str
    done: int
    trials: int
    failed: int
    running: int
    ends: str | None
    data: str
    network: str
    since: str  # its first start
    started: str  # its last one


def overview(run: Run) -> Overview:
    """One line about a run."""
    frozen = run.frozen()
    study = frozen.parsed()
    statuses = [Status(text) for text in Results(run.files).trials["status"].to_pylist()]
    done = sum(status.ended for status in statuses)
    total = sum(counts(study, frozen.looks).values())
    failed = statuses.count(Status.FAILED)
    at_work = run.at_work()
    told = UnderWay.of(run.files) if at_work else None
    return {
        "run": run.name,
        "state": "running" if at_work else "done" if done == total and not failed else "stopped",
        "done": done,
        "trials": total,
        "failed": failed,
        "running": len(told.trials) if told else statuses.count(Status.RUNNING) if at_work else 0,
        "ends": told.ends if told else None,
        "data": study.data.name,
        "network": study.network.name,
        "since": frozen.history[0].at,
        "started": frozen.history[-1].at,
    }


class RunStatus(Overview):
    """How far a run is, in full. `driver`: the process at work on it. `under_way`: what it trains; where none is at
    work, what one trained that was killed, and what goes on from checkpoints. `heard`: when that was last told.
    """

    driver: str | None
    heard: str | None
    under_way: tuple[RunningTrial, ...]
    phases: list[dict[str, str | int]]
    looks: str | None


def status_of(run: Run) -> RunStatus:
    """How far a run is, in full."""
    told, looks, line = UnderWay.of(run.files), run.frozen().looks, overview(run)
    return {
        **line,
        "driver": run.holder() if line["state"] == "running" else None,
        "heard": told.at if told else None,
        "under_way": told.trials if told else (),
        "phases": progress_of(run),
        "looks": looks.words if looks else None,
    }


def listed(run: Run) -> dict[str, str | int | None]:
    """One line about a run, whatever has become of its files; `problem` says what is wrong with them."""
    try:
        return {**overview(run), "problem": ""}  # type: ignore[dict-item]
    except NewerFormatError as error:
        state, problem = "of a newer pilotstudy", str(error)
    except (PilotstudyError, OSError, ValueError, LookupError) as error:
        file = _damaged_file(run)
        reason = " ".join(str(error).split()) or type(error).__name__
        state, problem = f"damaged: {file.name}", reason if file.name in reason else f"{file}: {reason}"
    unknown = [name for name in Overview.__annotations__ if name not in ("run", "state")]
    return {"run": run.name, "state": state, **dict.fromkeys(unknown), "problem": problem}


def _damaged_file(run: Run) -> Path:
    try:
        run.study()
    except (PilotstudyError, ValueError, LookupError):
        return run.files.study
    return run.files.trials


def mixtures(trials: Iterable[TrialRow]) -> list[str]:
    """What is to be said where trials ran with several versions of torch, or on several kinds of device."""
    ended = [trial for trial in trials if trial.status.ended]
    sentences = []
    for what, kinds in ("versions of torch", [t.torch for t in ended]), ("kinds of device", [t.device for t in ended]):
        counted = Counter(kind for kind in kinds if kind)
        if len(counted) > 1:
            listed = ", ".join(f"{kind} ({number} trials)" for kind, number in sorted(counted.items()))
            sentences.append(f"Trials ran with different {what}, so a seed need not mean the same numbers: {listed}.")
    return sentences


def total_of(run: Run) -> int:
    """How many trials the study of a run has in all."""
    return sum(planned_counts(run).values())


def planned_counts(run: Run) -> dict[Phase, int]:
    """How many trials each phase of a run has, as far as it is planned."""
    frozen = run.frozen()
    return counts(frozen.parsed(), frozen.looks)


def progress_of(run: Run) -> list[dict[str, str | int]]:
    """For each phase: how many trials are finished, running, diverged, stopped, failed."""
    at_work = run.at_work()
    told = UnderWay.of(run.files) if at_work else None
    trials = Results(run.files).trials.select(["phase", "status", "moves"]).to_pylist()
    phases: list[dict[str, str | int]] = []
    for phase, planned in planned_counts(run).items():
        own = [row for row in trials if row["phase"] == phase]
        line: dict[str, str | int] = {"phase": phase, "trials": planned}
        line |= {str(status): sum(row["status"] == status for row in own) for status in SHOWN}
        if told or not at_work:  # else it is new, or a driver's that tells nothing
            line["running"] = sum(trial.phase == phase for trial in told.trials) if told else 0
        phases.append(line | {"moved": sum(row["moves"] or 0 for row in own)})
    return phases
