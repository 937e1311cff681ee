"""What would settle what a run leaves open: the command, and what it costs in minutes."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from pathlib import Path

from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics import intervals
from pilotstudy.metrics.intervals import Estimate
from pilotstudy.study.budget import confirm_seeds, with_budget
from pilotstudy.study.reading import builtin_studies
from pilotstudy.study.spec import Study

FIRST = 5  # seeds, where there is one
REACH = 30  # seeds that somebody might train
# Of an earlier command: with a value, or without. They say how many seeds, how long, in what form, or where.
VALUED = ("--seeds", "--max-seeds", "--time-budget", "--max-cost", "--price", "--set", "--runs-dir")
FLAGS = ("--until-decided", "--json", "--quiet", "-q", "--wide")


@dataclass(frozen=True)
class Settling:
    """`says`: all of it in a sentence, which ends with the command, if there is one. `seeds`: how many each arm would
    have. `minutes`: about, by what the run's own trials took; None: not known.
    """

    says: str
    command: str = ""
    seeds: int | None = None
    minutes: float | None = None


def more_seeds(evidence: RunEvidence, difference: Estimate, what: str, *, tuned: bool) -> Settling | None:
    """The seeds that would show a difference as large as this one. `what`: what is told from what."""
    if difference.is_barred:
        return None
    needed = intervals.seeds_needed(difference)
    if needed is None:
        return Settling(f"More seeds would hardly tell {what}: they are as good as the same here.")
    would = f"To tell {what} would take about {needed}; there are {difference.seeds} now"
    if needed.low > REACH:
        return Settling(f"{would}, so that is out of reach: take them as equally good.", seeds=needed.low)
    high = needed.high or 4 * needed.low
    number = min(REACH, max(needed.low, round(sqrt(needed.low * high))))
    more = f"{number - difference.seeds} more, {number} for every arm{' (others are out of reach)' * (high > REACH)}"
    if evidence.study.imported:
        return Settling(f"{would}. Import predictions of {more}.", seeds=number)
    return with_seeds(evidence, number, f"{would}. Train {more}", tuned=tuned)


def first_seeds(evidence: RunEvidence) -> Settling:
    """Where there is one seed."""
    if evidence.study.imported:
        return Settling(f"Import predictions of {FIRST} seeds of every row.")
    return with_seeds(evidence, FIRST, f"Run with {FIRST} seeds", tuned=bool(evidence.budget.search_total))


def completing(evidence: RunEvidence) -> Settling | None:
    """Of a run that is not done."""
    if evidence.study.imported or evidence.run.at_work():
        return None
    hint = evidence.run.files.hint("resume")
    return Settling(f"The run is not done; this goes on: {hint}", hint.strip("`"))


def with_seeds(evidence: RunEvidence, number: int, says: str, *, tuned: bool) -> Settling:
    """What gives every arm so many seeds (`tuned`: the confirmation, too): its minutes, and the command if one can."""
    study = evidence.study
    more = with_budget(study, seeds=max(number, len(study.seeds)))
    options = ["--seeds", str(len(more.seeds))]
    if tuned and more.search and more.search.confirm_seeds < number:
        more = more.model_copy(update={"search": more.search.model_copy(update={"confirm_seeds": number})})
        options += ["--set", f"search.confirm_seeds={number}"]
    minutes = minutes_of(evidence, more)
    says += minutes_in_words(minutes)
    earlier = earlier_command(evidence)
    if not earlier:
        return Settling(f"{says}.", "", number, minutes)
    command = shlex.join([*earlier, *options])
    return Settling(f"{says}: `{command}`", command, number, minutes)


def earlier_command(evidence: RunEvidence) -> list[str]:
    """What started the run, without what says how many seeds; where that is not known, what would have.

    Nothing for a study that was made in Python, which no command finds by its name.
    """
    for start in reversed(evidence.run.frozen().history):
        program, *words = start.command or ("",)
        is_ours = Path(program).name == "pilotstudy" or Path(program).parts[-2:] == ("pilotstudy", "__main__.py")
        if is_ours and "run" in words:
            return ["pilotstudy", *without_seeds(words), *evidence.run.files.runs_dir_option()]
    if evidence.study.name not in builtin_studies():
        return []
    name = evidence.run.name
    named = [] if name == evidence.study.name else ["--name", name]
    return ["pilotstudy", "run", evidence.study.name, *named, *evidence.run.files.runs_dir_option()]


def without_seeds(words: Sequence[str]) -> list[str]:
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if option in VALUED:
            value = value if equals else next(rest, "")
            if option == "--set" and not value.startswith(("seeds", "search.confirm_seeds")):
                kept += [option, value]
        elif word not in FLAGS:
            kept.append(word)
    return kept


def minutes_of(evidence: RunEvidence, more: Study) -> float | None:
    """What the trials that are lacking would take, by the mean of the arm's others, as many at once as before.

    None where it is not known how many that were: on clusters and GPUs.
    """
    study, at_once = evidence.study, trials_at_once(evidence)
    lacking = {"arms": len(set(more.seeds) - set(study.seeds))}
    lacking["confirm"] = len(set(confirm_seeds(more)) - set(confirm_seeds(study)))
    seconds = 0.0
    for phase, number in lacking.items():
        for arm in study.arms if phase == "arms" else evidence.budget.search_trials:
            own = [row for row in evidence.trial_rows if (row.phase, row.arm) == (phase, arm)]
            known = [row.training_seconds for row in own if row.training_seconds is not None]
            seconds += number * sum(known) / len(known) if known else 0.0
    return seconds / at_once / 60 if at_once else None


def trials_at_once(evidence: RunEvidence) -> int | None:
    resources, frozen = evidence.study.resources, evidence.run.frozen()
    if "--inline" in frozen.history[-1].command:
        return 1
    if resources.concurrency:
        return resources.concurrency
    cores = frozen.provenance.machine.get("cores")
    if frozen.location.address or resources.gpus_per_trial or not isinstance(cores, int):
        return None
    return max(1, cores // resources.cpus_per_trial)


def minutes_in_words(minutes: float | None) -> str:
    if minutes is None:
        return ""
    if minutes < 90:
        return f", about {max(1, ceil(minutes))} min of training"
    return f", about {minutes / 60:.1f} h of training"
