"""How far a run is."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from pilotstudy.errors import NewerFormatError, PilotstudyError
from pilotstudy.runs.folder import Run
from pilotstudy.runs.records import Status, TrialRow
from pilotstudy.runs.results import Results
from pilotstudy.study.budget import Phase, counts

SHOWN = (Status.FINISHED, Status.RUNNING, Status.DIVERGED, Status.STOPPED, Status.FAILED)


def overview(run: Run) -> dict[str, str | int]:
    """One line about a run."""
    frozen = run.frozen()
    study = frozen.parsed()
    statuses = [Status(text) for text in Results(run.files).trials["status"].to_pylist()]
    done = sum(status.ended for status in statuses)
    total = sum(counts(study, frozen.looks).values())
    failed = statuses.count(Status.FAILED)
    state = "running" if run.at_work() else "done" if done == total and not failed else "stopped"
    return {
        "run": run.name,
        "state": state,
        "done": done,
        "trials": total,
        "failed": failed,
        "data": study.data.name,
        "network": study.network.name,
        "since": frozen.history[0].at,
    }


def listed(run: Run) -> dict[str, str | int | None]:
    """One line about a run, whatever has become of its files."""
    try:
        return {**overview(run)}
    except NewerFormatError:
        state = "of a newer pilotstudy"
    except (PilotstudyError, OSError, ValueError, LookupError):
        state = f"damaged: {_damaged_file(run).name}"
    unknown = ("done", "trials", "failed", "data", "network", "since")
    return {"run": run.name, "state": state, **dict.fromkeys(unknown)}


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
    trials = Results(run.files).trials.select(["phase", "status", "moves"]).to_pylist()
    phases: list[dict[str, str | int]] = []
    for phase, planned in planned_counts(run).items():
        own = [row for row in trials if row["phase"] == phase]
        line: dict[str, str | int] = {"phase": phase, "trials": planned}
        line |= {str(status): sum(row["status"] == status for row in own) for status in SHOWN}
        phases.append(line | {"moved": sum(row["moves"] or 0 for row in own)})
    return phases
