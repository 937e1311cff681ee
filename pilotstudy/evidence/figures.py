"""Figures with intervals, and differences of them, from predictions."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pilotstudy.evidence.predictions import TestPredictions
from pilotstudy.metrics import intervals, resampling
from pilotstudy.metrics.intervals import Estimate
from pilotstudy.metrics.ood import metric_named
from pilotstudy.metrics.registry import METRICS
from pilotstudy.metrics.resampling import Sample
from pilotstudy.study.statements import Row

# best: really, beyond doubt. leading: it has the best mean, no more. near: it cannot be told from what leads.
Mark = Literal["best", "leading", "near", ""]


@dataclass(frozen=True)
class Best:
    """The row with the best mean, whether it is really the best, and, if not, all others that may be."""

    leader: Row | None = None  # None: no row can lead
    is_real: bool = False
    near: tuple[Row, ...] = ()

    def mark(self, row: Row) -> Mark:
        if row == self.leader:
            return "best" if self.is_real else "leading"
        return "near" if row in self.near else ""


def diverged_in_words(diverged: int, finished: int) -> str:
    """How many of a row's seeds diverged; empty if none."""
    return f"{diverged} of {diverged + finished} diverged" if diverged else ""


class Figures:
    """Some metrics of every row, and of any contrast between rows, with intervals."""

    def __init__(
        self,
        predictions: TestPredictions,
        metrics: Sequence[str],
        resamples: int = resampling.RESAMPLES,
        *,
        looks: float = 1,
    ):
        self.metrics = tuple(metrics)
        self.points = len(predictions.labels)
        self.rows: list[Row] = list(predictions.rows)
        self.diverged = predictions.diverged
        self.looks = looks
        self.samples: dict[str, dict[Row, Sample]] = {name: {} for name in metrics}  # empty where it cannot be told
        self._seeds = {row: len(by_seed) for row, by_seed in predictions.rows.items()}
        fits = predictions.fits if any(METRICS[name].needs_validation for name in metrics) else {}
        told = [name for name in metrics if fits or not METRICS[name].needs_validation]
        networks = [log_p for by_seed in predictions.rows.values() for log_p in by_seed.values()]
        # The seed comes from the data, so runs on the same test points are resampled alike, and others apart.
        seed = int(predictions.fingerprint[:8] or "0", 16)
        of_networks = [fits[row][seed] for row, by_seed in predictions.rows.items() for seed in by_seed] if fits else []
        values, resampled = resampling.resample(networks, predictions.labels, told, resamples, seed, of_networks)
        start = 0
        for row, by_seed in predictions.rows.items():
            span = slice(start, start + len(by_seed))
            for name in told:
                stored = predictions.floors.get(name, {}).get(row)
                floors = np.array([stored[seed] for seed in by_seed]) if stored else None
                self.samples[name][row] = Sample(tuple(by_seed), values[name][span], resampled[name][:, span], floors)
            start = span.stop

    def seeds(self, row: Row) -> int:
        """How many seeds its figures rest on."""
        return self._seeds[row]

    def has(self, metric: str, row: Row) -> bool:
        """Whether the row is there, and all that the metric needs of it."""
        return row in self.samples[metric]

    def figure(self, metric: str, row: Row) -> Estimate:
        estimate = intervals.contrast([(1.0, self.samples[metric][row])], [row.phase])
        assert estimate
        lowest, highest = metric_named(metric).bounds
        return replace(estimate, low=max(estimate.low, lowest), high=min(estimate.high, highest))

    def contrast(self, metric: str, terms: Sequence[tuple[float, Row]], constant: float = 0.0) -> Estimate | None:
        """Σ coefficient · figure + constant; rows of the same phase are paired by seed."""
        # An ensemble of seeds is a single network: nothing to pair it with.
        groups = [(row.phase, str(row) if row.mode == "seeds" else "") for _, row in terms]
        return contrast(metric, [(coefficient, self, row) for coefficient, row in terms], groups, constant)

    def difference(self, metric: str, ours: Row, theirs: Row) -> Estimate | None:
        return self.contrast(metric, [(1.0, ours), (-1.0, theirs)])

    def best(self, metric: str, rows: Sequence[Row]) -> Best:
        """Which of these rows is the best; rows of one seed take no part, which tells nothing of others.

        The row with the best mean needs no correction for having been chosen by looking: it must beat each of the
        others. Those that may be the best differ from it at the level over their number. A row with diverged seeds
        leads only where all have such.
        """
        sign = metric_named(metric).sign
        several = [row for row in rows if self.has(metric, row) and self.seeds(row) > 1]
        if not sign or not several:
            return Best()
        sound = [row for row in several if row not in self.diverged] or several
        leader = max(sound, key=lambda row: sign * self.figure(metric, row).value)
        others = [row for row in several if row != leader]
        differences = {row: self.difference(metric, leader, row) for row in others}

        def near(level: float) -> tuple[Row, ...]:
            return tuple(row for row, d in differences.items() if d is None or d.seeds < 2 or d.p > level)

        if others and not near(1 - intervals.LEVEL):
            return Best(leader, is_real=True)
        return Best(leader, near=near((1 - intervals.LEVEL) / max(1, len(others))))


def contrast(
    metric: str, terms: Sequence[tuple[float, Figures, Row]], groups: Sequence[Hashable], constant: float = 0.0
) -> Estimate | None:
    """Σ coefficient · figure + constant, also of several runs, with what bears on a verdict: every one rests on this.

    A diverged seed counts as arbitrarily bad, so no sign is found that its row's figure, without it, may have made.
    """
    if not all(figures.has(metric, row) for _, figures, row in terms):
        return None
    estimate = intervals.contrast([(c, figures.samples[metric][row]) for c, figures, row in terms], groups, constant)
    if estimate is None:
        return None
    better = metric_named(metric).sign
    good = {int(np.sign(c)) * better for c, figures, row in terms if row in figures.diverged}
    runs = {id(figures): figures.looks for _, figures, _ in terms}
    return replace(
        estimate,
        barred=(-1, 1) if 0 in good else tuple(sorted(good)),
        looks=1 + sum(looks - 1 for looks in runs.values()),
    )
