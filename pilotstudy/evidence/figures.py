"""Figures with intervals, and differences of them, from predictions."""

from collections.abc import Sequence
from dataclasses import replace

from pilotstudy.evidence.predictions import TestPredictions
from pilotstudy.metrics import intervals, resampling
from pilotstudy.metrics.intervals import Estimate
from pilotstudy.metrics.registry import METRICS
from pilotstudy.metrics.resampling import Sample
from pilotstudy.study.statements import Row


class Figures:
    """Some metrics of every row, and of any contrast between rows, with intervals."""

    def __init__(self, predictions: TestPredictions, metrics: Sequence[str], resamples: int = resampling.RESAMPLES):
        self.metrics = tuple(metrics)
        self.points = len(predictions.labels)
        self.rows: list[Row] = list(predictions.rows)
        self.samples: dict[str, dict[Row, Sample]] = {name: {} for name in metrics}
        networks = [log_p for by_seed in predictions.rows.values() for log_p in by_seed.values()]
        # The seed comes from the data, so runs on the same test points are resampled alike, and others apart.
        seed = int(predictions.fingerprint[:8] or "0", 16)
        values, resampled = resampling.resample(networks, predictions.labels, metrics, resamples, seed)
        start = 0
        for row, by_seed in predictions.rows.items():
            span = slice(start, start + len(by_seed))
            for name in metrics:
                self.samples[name][row] = Sample(tuple(by_seed), values[name][span], resampled[name][:, span])
            start = span.stop

    def seeds(self, row: Row) -> int:
        """How many seeds its figures rest on."""
        return len(self.samples[self.metrics[0]][row].seeds)

    def figure(self, metric: str, row: Row) -> Estimate:
        estimate = intervals.contrast([(1.0, self.samples[metric][row])], [row.phase])
        assert estimate
        lowest, highest = METRICS[metric].bounds
        return replace(estimate, low=max(estimate.low, lowest), high=min(estimate.high, highest))

    def contrast(self, metric: str, terms: Sequence[tuple[float, Row]], constant: float = 0.0) -> Estimate | None:
        """Σ coefficient · figure + constant; rows of the same phase are paired by seed."""
        samples = [(coefficient, self.samples[metric][row]) for coefficient, row in terms]
        # An ensemble of seeds is a single network: nothing to pair it with.
        groups = [(row.phase, str(row) if row.mode == "seeds" else "") for _, row in terms]
        return intervals.contrast(samples, groups, constant)

    def difference(self, metric: str, ours: Row, theirs: Row) -> Estimate | None:
        return self.contrast(metric, [(1.0, ours), (-1.0, theirs)])

    def best(self, metric: str, rows: Sequence[Row]) -> tuple[Row | None, list[Row]]:
        """The row that is really the best (None if that cannot be said), and all that may be.

        It must differ from each of the others at the level over their number, since it was chosen by looking.
        """
        sign = METRICS[metric].sign
        if not sign:
            return None, []
        leader = max(rows, key=lambda row: sign * self.figure(metric, row).value)
        others = [row for row in rows if row != leader]
        level = (1 - intervals.LEVEL) / max(1, len(others))
        differences = {row: self.difference(metric, leader, row) for row in others}
        near = [row for row, d in differences.items() if d is None or d.seeds < 2 or d.p > level]
        return (None if near or not others else leader), [leader, *near]
