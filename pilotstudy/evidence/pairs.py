"""Who beats whom: every pair of rows of a run, in each metric."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics import intervals
from pilotstudy.metrics.ood import metric_named
from pilotstudy.study.statements import Row


@dataclass(frozen=True)
class Pair:
    """One row less another, with the p-value corrected (Holm) for all pairs of the run in this metric.

    `winner`: 1, the first is better; −1, the second; 0, neither can be told to be. `alone`: the same if this pair had
    been the only one.
    """

    metric: str
    first: Row
    second: Row
    difference: float
    low: float
    high: float
    p_holm: float
    seeds: int
    winner: int
    alone: int


def pairs(evidence: RunEvidence, metrics: Sequence[str]) -> list[Pair]:
    """Of the study's own test images at the last epoch. One seed tells nothing of others, so it beats nobody."""
    figures = evidence.figures(metrics)
    found = []
    for metric in metrics:
        better = metric_named(metric).sign
        estimates = [
            (first, second, estimate)
            for first, second in combinations(figures.rows, 2)
            if (estimate := figures.difference(metric, first, second)) is not None
        ]
        told = [estimate.p if estimate.seeds > 1 else 1.0 for *_, estimate in estimates]
        for (first, second, estimate), p_holm in zip(estimates, intervals.holm(told), strict=True):
            is_told = p_holm < 1 - intervals.LEVEL
            found.append(
                Pair(
                    metric,
                    first,
                    second,
                    estimate.value,
                    estimate.low,
                    estimate.high,
                    p_holm,
                    estimate.seeds,
                    better * estimate.direction if is_told else 0,
                    better * estimate.sign if estimate.seeds > 1 else 0,
                )
            )
    return found
