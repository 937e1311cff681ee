"""Statistics of a study: intervals and p-values over seeds and test points together, in numpy and scipy.

A figure is the mean over seeds of a metric on the test points. Two things vary: another seed gives another network, and
another test set gives other points. All rows of a study share both, so differences are taken in pairs of both.

- Points: the metric on resamples of the test points (bootstrap), the same resamples for every row and seed.
- Seeds: the sample variance of the figure over seeds, with Student's t, because there are few.

With d_s the contrast of seed s, V_seeds = var(d_s) / S holds what seeds do and what they do to single points; the
bootstrap variance of the mean over seeds, V_points, holds the points' own part and the latter again, which is taken
off.
The interval is d ± √(z² V_points + t²_{S−1} V_seeds): exact where one of the two dominates, on the safe side between.
With one seed it holds for that network only.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pilotstudy import metrics
from pilotstudy.metrics import Array, Labels

RESAMPLES = 2000
LEVEL = 0.95
CHUNK = 250  # resamples at a time: 10 MB of weights for 10,000 points


class Points:
    """One network's predictions of the test points: log-probabilities [n, K] and what the metrics need of them."""

    def __init__(self, log_p: Array, labels: Labels):
        self.log_p, self.labels = log_p, labels
        self.p = np.exp(log_p)
        self.confidence, self.correct = metrics.confidences(self.p, labels)


@dataclass(frozen=True)
class Metric:
    """`columns(points)` gives [n, C]; `figure` makes the metric of their weighted means [..., C]."""

    columns: Callable[[Points], Array]
    figure: Callable[[Array], Array]
    better: int = -1  # 1: higher is better; 0: neither


def _mean(columns: Array) -> Array:
    return np.asarray(columns[..., 0])


def _sum_of_gaps(columns: Array) -> Array:
    return np.asarray(np.abs(columns).sum(-1))


def _largest_gap(columns: Array) -> Array:
    gaps, counts = columns[..., : metrics.BINS], columns[..., metrics.BINS :]
    return np.asarray((np.abs(gaps) / np.where(counts > 0, counts, 1.0)).max(-1))


def _nll(points: Points) -> Array:
    return np.asarray(-points.log_p[np.arange(len(points.labels)), points.labels])


def _brier(points: Points) -> Array:
    return np.asarray(np.square(points.p).sum(1) - 2 * np.exp(-_nll(points)) + 1)


def _in_bins(values: Array, index: NDArray[np.int64]) -> Array:
    """Each point's value in the column of its bin."""
    columns = np.zeros((len(values), metrics.BINS))
    columns[np.arange(len(values)), index] = values
    return columns


def _ece(points: Points) -> Array:
    return _in_bins(points.correct - points.confidence, metrics.equal_width_index(points.confidence))


def _adaptive_ece(points: Points) -> Array:
    """In the bins of the whole test set: resampling does not move their edges."""
    index = np.searchsorted(metrics.equal_mass_edges(points.confidence), points.confidence, side="left")
    return _in_bins(points.correct - points.confidence, index.astype(np.int64))


def _classwise_ece(points: Points) -> Array:
    by_class = [
        _in_bins((points.labels == k) - points.p[:, k], metrics.equal_width_index(points.p[:, k]))
        for k in range(points.p.shape[1])
    ]
    return np.asarray(np.concatenate(by_class, 1) / points.p.shape[1])


def _mce(points: Points) -> Array:
    ones = np.ones(len(points.labels))
    return np.concatenate([_ece(points), _in_bins(ones, metrics.equal_width_index(points.confidence))], 1)


def _aurc(points: Points) -> Array:
    """AURC plus each point's influence on it, so that the mean over a resample is its AURC to first order."""
    risk = metrics.selective_risk(points.confidence, points.correct)  # among the k most confident
    ranks = np.arange(1, len(risk) + 1)
    order = np.argsort(-points.confidence, kind="stable")
    later = np.cumsum((1 / ranks)[::-1])[::-1]
    later_risk = np.cumsum((risk / ranks)[::-1])[::-1]
    influence = np.empty(len(risk))
    influence[order] = risk + (1 - points.correct[order]) * later - later_risk
    return np.asarray(risk.mean() + influence - influence.mean())


METRICS: dict[str, Metric] = {
    "accuracy": Metric(lambda points: points.correct, _mean, 1),
    "nll": Metric(_nll, _mean),
    "ece": Metric(_ece, _sum_of_gaps),
    "brier": Metric(_brier, _mean),
    "adaptive_ece": Metric(_adaptive_ece, _sum_of_gaps),
    "classwise_ece": Metric(_classwise_ece, _sum_of_gaps),
    "mce": Metric(_mce, _largest_gap),
    "aurc": Metric(_aurc, _mean),
    "entropy": Metric(lambda points: metrics.entropies(points.p), _mean, 0),
    "confidence": Metric(lambda points: points.confidence, _mean, 0),
}


def resampled_weights(points: int, resamples: int, seed: int) -> Iterator[NDArray[np.float32]]:
    """How often each point is in each resample, divided by their number, a chunk [≤ CHUNK, points] at a time."""
    random = np.random.default_rng(seed)
    for start in range(0, resamples, CHUNK):
        rows = min(CHUNK, resamples - start)
        drawn = random.integers(0, points, (rows, points), dtype=np.int32) + points * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * points).reshape(rows, points)
        yield (counts / points).astype(np.float32)


@dataclass(frozen=True)
class Sample:
    """A metric of one row: by seed on the test points [S], and on resamples of them [B, S]."""

    seeds: tuple[int, ...]
    values: Array
    resampled: Array


def resample(
    log_probabilities: Sequence[Array], labels: Labels, names: Sequence[str], resamples: int = RESAMPLES, seed: int = 0
) -> tuple[dict[str, Array], dict[str, Array]]:
    """For each metric: its values for each of the predictions [R], and on resamples of the points [B, R]."""
    values: dict[str, list[float]] = {name: [] for name in names}
    resampled: dict[str, list[Array]] = {name: [] for name in names}
    weights = np.concatenate(list(resampled_weights(len(labels), resamples, seed)))
    for log_p in log_probabilities:  # one at a time: the columns of all would take gigabytes
        points = Points(log_p, labels)
        blocks = [METRICS[name].columns(points).reshape(len(labels), -1).astype(np.float32) for name in names]
        columns = np.concatenate(blocks, 1)
        ends = np.cumsum([block.shape[1] for block in blocks])[:-1]
        whole, means = columns.mean(0, dtype=np.float64), weights @ columns
        for name, of_all, of_resamples in zip(names, np.split(whole, ends), np.split(means, ends, axis=1), strict=True):
            values[name].append(float(METRICS[name].figure(of_all)))
            resampled[name].append(METRICS[name].figure(of_resamples.astype(np.float64)))
    return (
        {name: np.array(found) for name, found in values.items()},
        {name: np.stack(found, 1) for name, found in resampled.items()},
    )


@dataclass(frozen=True)
class Estimate:
    """A figure or a contrast of figures, with its 95 % interval and two-sided p-value against 0."""

    value: float
    low: float
    high: float
    seeds: int  # the fewest of the rows in it
    points_variance: float  # of the test points, not of what seeds do to them
    of_seeds: tuple[tuple[float, int], ...]  # (variance of the mean over seeds, degrees of freedom) of each group

    @property
    def sign(self) -> int:
        """1 or −1 where the interval lies on one side of 0, else 0."""
        return int(self.low > 0) - int(self.high < 0)

    @property
    def seeds_variance(self) -> float:
        """Of one seed."""
        return sum(variance * (df + 1) for variance, df in self.of_seeds)

    @property
    def deviation(self) -> float | None:
        """The sample deviation over seeds; None with one seed."""
        return float(np.sqrt(self.seeds_variance)) if self.seeds > 1 else None

    @cached_property
    def p(self) -> float:
        """The level at which the interval just touches 0."""
        from scipy.optimize import brentq  # slow to import

        size, smallest = abs(self.value), 1e-12
        if size == 0 or (self.points_variance == 0 and not any(variance > 0 for variance, _ in self.of_seeds)):
            return float(size == 0)

        def beyond(log_tail: float) -> float:
            return half_width(self.points_variance, self.of_seeds, np.exp(log_tail)) - size

        if beyond(np.log(smallest)) <= 0:
            return 2 * smallest
        return float(2 * np.exp(brentq(beyond, np.log(smallest), np.log(0.5))))


def half_width(points: float, seeds: Sequence[tuple[float, int]], tail: float) -> float:
    """Half the interval that leaves `tail` on each side. `seeds`: (variance, degrees of freedom) of each group."""
    square = special.ndtri(tail) ** 2 * points
    square += sum(special.stdtrit(df, tail) ** 2 * variance for variance, df in seeds if variance > 0)
    return float(np.sqrt(square))


def estimate(groups: Sequence[tuple[Array, Array]], constant: float = 0.0) -> Estimate:
    """A contrast from its groups of paired seeds: (by seed [S], on resamples by seed [B, S]) of each."""
    value = constant + sum(float(values.mean()) for values, _ in groups)
    points = float(np.var(sum(resampled.mean(1) for _, resampled in groups), ddof=1))
    seeds = []
    for values, resampled in groups:
        n = len(values)
        if n > 1:
            variance = float(np.var(values, ddof=1))
            of_points = float(np.var(resampled, axis=1, ddof=1).mean()) - variance
            points -= max(of_points, 0.0) / n
            seeds.append((variance / n, n - 1))
    points = max(points, 0.0)
    half = half_width(points, seeds, (1 - LEVEL) / 2)
    fewest = min(len(values) for values, _ in groups)
    return Estimate(value, value - half, value + half, fewest, points, tuple(seeds))


def contrast(terms: Sequence[tuple[float, Sample]], groups: Sequence[Any], constant: float = 0.0) -> Estimate | None:
    """Σ coefficient · figure + constant. Rows with the same entry in `groups` are paired by seed.

    None where paired rows have no seed in common.
    """
    paired: dict[Any, list[tuple[float, Sample]]] = {}
    for term, group in zip(terms, groups, strict=True):
        paired.setdefault(group, []).append(term)
    found = []
    for members in paired.values():
        common = sorted(set.intersection(*(set(sample.seeds) for _, sample in members)))
        if not common:
            return None
        at = [[sample.seeds.index(seed) for seed in common] for _, sample in members]
        values = sum(c * sample.values[i] for (c, sample), i in zip(members, at, strict=True))
        resampled = sum(c * sample.resampled[:, i] for (c, sample), i in zip(members, at, strict=True))
        found.append((np.asarray(values), np.asarray(resampled)))
    return estimate(found, constant)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: the chance of any false finding in the family is at most the level."""
    adjusted, largest = [0.0] * len(p), 0.0
    for rank, at in enumerate(np.argsort(p, kind="stable")):
        largest = max(largest, min(1.0, p[at] * (len(p) - rank)))
        adjusted[at] = largest
    return adjusted


def probability_of_improvement(ours: Array, theirs: Array, better: int = -1) -> float:
    """How likely a run of the one is better than a run of the other: over all pairs of seeds, ties count half."""
    difference = better * (np.asarray(ours)[:, None] - np.asarray(theirs)[None, :])
    return float((difference > 0).mean() + (difference == 0).mean() / 2)


def seeds_needed(found: Estimate, power: float = 0.8, most: int = 1000) -> int | None:
    """Seeds with which a difference as large as this would show with that power; None if seeds alone cannot do it."""
    if found.deviation is None:
        return None
    tail = (1 - LEVEL) / 2
    for n in range(2, most):
        half = half_width(found.points_variance, [(found.seeds_variance / n, n - 1)], tail)
        spread = np.sqrt(found.points_variance + found.seeds_variance / n)
        if abs(found.value) >= half + special.ndtri(power) * spread:
            return n
    return None
