"""Differences: between the rows of one run, and between the same rows of several runs."""

from collections.abc import Sequence
from typing import Any

from pilotstudy import statistics
from pilotstudy.errors import InputError, nearest
from pilotstudy.evidence import Evidence, load
from pilotstudy.runs import Run
from pilotstudy.statements import Row
from pilotstudy.statistics import Estimate


def within(
    run: Run, against: Row, names: Sequence[str], *, at: str = "last", scaled: bool = False
) -> list[dict[str, Any]]:
    """Every row against one, for each metric; p-values corrected (Holm) within the metric."""
    evidence = Evidence(load(run, at, scaled=scaled, deep=against.mode == "seeds"), names)
    if against not in evidence.rows:
        known = [str(row) for row in evidence.rows]
        raise InputError(f"run {run.name!r} has no row {str(against)!r}: {nearest(str(against), known)}")
    found: list[dict[str, Any]] = []
    for metric in names:
        rows = [row for row in evidence.rows if row != against]
        differences = [(row, evidence.difference(metric, row, against)) for row in rows]
        family = [(row, difference) for row, difference in differences if difference is not None]
        adjusted = statistics.holm([difference.p for _, difference in family])
        for (row, difference), p in zip(family, adjusted, strict=True):
            samples = evidence.samples[metric]
            chance = improvement(metric, samples[row], samples[against])
            told = describe(metric, difference, p, evidence.points, chance)
            found.append({"metric": metric, "row": str(row), "against": str(against), **told})
    return found


def between(
    runs: Sequence[Run], names: Sequence[str], *, at: str = "last", scaled: bool = False
) -> list[dict[str, Any]]:
    """The rows that all runs have, each run against the first. Test points are paired where they are the same, seeds
    where everything but the code is.
    """
    loaded = [load(run, at, scaled=scaled) for run in runs]
    evidence = [Evidence(one, names) for one in loaded]
    common = [row for row in evidence[0].rows if all(row in e.rows for e in evidence[1:])]
    if not common:
        raise InputError(f"{', '.join(run.name for run in runs)} have no row in common")
    found: list[dict[str, Any]] = []
    for metric in names:
        family: list[tuple[int, Row, Estimate]] = []
        for row in common:
            for number in range(1, len(runs)):
                groups = [row.phase, row.phase if same_trials(runs[0], runs[number], row) else "another run"]
                samples = [(1.0, evidence[number].samples[metric][row]), (-1.0, evidence[0].samples[metric][row])]
                difference = statistics.contrast(samples, groups)
                if difference is not None:
                    family.append((number, row, difference))
        adjusted = statistics.holm([difference.p for *_, difference in family])
        for (number, row, difference), p in zip(family, adjusted, strict=True):
            ours, theirs = evidence[number].samples[metric][row], evidence[0].samples[metric][row]
            found.append(
                {
                    "metric": metric,
                    "row": str(row),
                    runs_column(runs, 0): float(theirs.values.mean()),
                    "run": runs[number].name,
                    "its figure": float(ours.values.mean()),
                    "points": "paired" if loaded[number].fingerprint == loaded[0].fingerprint else "other",
                    **describe(metric, difference, p, evidence[number].points, improvement(metric, ours, theirs)),
                }
            )
    return found


def runs_column(runs: Sequence[Run], number: int) -> str:
    return f"in {runs[number].name}"


def same_trials(one: Run, other: Run, row: Row) -> bool:
    """Whether a seed means the same in both: data, network, training and the arm's settings."""
    first, second = one.study(), other.study()
    if row.phase == "confirm":
        return False
    same = (first.data, first.network, first.training) == (second.data, second.network, second.training)
    if row.arm == "ensemble":  # of all arms
        return same and first.arms == second.arms
    return same and first.arms.get(row.arm) == second.arms.get(row.arm)


def improvement(metric: str, ours: statistics.Sample, theirs: statistics.Sample) -> float | None:
    better = statistics.METRICS[metric].better
    return statistics.probability_of_improvement(ours.values, theirs.values, better) if better else None


def describe(metric: str, difference: Estimate, p: float, points: int, chance: float | None) -> dict[str, Any]:
    return {
        "difference": difference.value,
        "low": difference.low,
        "high": difference.high,
        "p": difference.p,
        "p_holm": p,
        "improvement": chance,
        "seeds": difference.seeds,
        "seeds_needed": statistics.seeds_needed(difference) if difference.sign == 0 else None,
        "says": say(metric, difference, p, points),
    }


def say(metric: str, difference: Estimate, p: float, points: int) -> str:
    """In words."""
    if difference.sign == 0:
        seeds = f"{difference.seeds} seed{'s' * (difference.seeds != 1)}"
        text = f"no difference can be seen at this size ({seeds}, {points:,} test images)"
        if difference.seeds == 1:
            return f"{text}; one seed tells nothing of others"
        needed = statistics.seeds_needed(difference)
        more = f"about {needed} seeds would show one this large" if needed else "more seeds alone would not show one"
        return f"{text}; {more}"
    word = "higher" if difference.value > 0 else "lower"
    judged = {1: " (better)", 0: "", -1: " (worse)"}[difference.sign * statistics.METRICS[metric].better]
    if difference.seeds == 1:
        return f"{word}{judged} for this one seed"
    return word + judged + ("" if p < 0.05 else ", but not after correction for the number of comparisons")
