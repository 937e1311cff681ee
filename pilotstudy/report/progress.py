"""How far runs are, in words."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from pilotstudy.report import plain
from pilotstudy.report.layout import filled
from pilotstudy.runs.folder import Run
from pilotstudy.runs.status import RunStatus


def clock(stamp: str | None) -> str:
    """A time of a file, as a clock here shows it; with the day, if that is not today."""
    if not stamp:
        return ""
    when = datetime.fromisoformat(stamp).astimezone()
    return f"{when:%H:%M}" if when.date() == datetime.now().astimezone().date() else f"{when:%Y-%m-%d %H:%M}"


def status_text(run: Run, status: RunStatus, width: int | None) -> str:
    """How far a run is: a sentence, a line for each phase, and one for each trial that is under way."""
    planned = [phase for phase in status["phases"] if phase["trials"]]
    parts = [filled(headline(status), width), plain.table(planned or status["phases"], width)]
    parts += [filled(status["looks"], width)] if status["looks"] else []
    heading = "under way" if status["driver"] else "was under way"
    trials = [
        {
            heading: f"{trial.phase} {trial.arm} {trial.number}",
            "seed": trial.seed,
            "epoch": f"{trial.epoch} of {trial.epochs}",
            "since": clock(trial.since),
        }
        for trial in status["under_way"]
    ]
    if trials:
        parts += ["", plain.table(trials, width)]
    if status["state"] == "stopped" and not run.study().imported:
        lost = f"the driver was lost, last heard of at {clock(status['heard'])}; " if trials else ""
        parts += ["", filled(f"{lost}{run.files.hint('resume')} goes on", width)]
    return "\n".join(parts)


def headline(status: RunStatus) -> str:
    told = f"{status['run']}: {status['state']}"
    if status["driver"]:
        told += f" since {clock(status['started'])} ({status['driver']})"
    told += f", {status['done']} of {status['trials']} trials done"
    if status["failed"]:
        told += f" ({status['failed']} failed)"
    return told + (f", ends about {clock(status['ends'])}" if status["ends"] else "")


LISTED = ("run", "state", "done", "trials", "failed", "running", "ends", "data", "network", "started")


def list_text(rows: Sequence[Mapping[str, str | int | None]], width: int | None) -> str:
    """A line for each run."""
    times = ("ends", "started")
    lines = [{name: clock(str(row[name] or "")) if name in times else row[name] for name in LISTED} for row in rows]
    return plain.table(lines, width, extras=("started", "network", "data"))
