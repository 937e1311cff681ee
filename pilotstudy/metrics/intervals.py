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

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from pilotstudy.metrics.resampling import Sample
from pilotstudy.metrics.scores import Array

LEVEL = 0.95


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
        if not np.isfinite([size, self.points_variance, self.seeds_variance]).all():
            return 1.0  # a metric of a user's own that is no number here: nothing is known
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


def contrast(
    terms: Sequence[tuple[float, Sample]], groups: Sequence[Hashable], constant: float = 0.0
) -> Estimate | None:
    """Σ coefficient · figure + constant. Rows with the same entry in `groups` are paired by seed.

    None where paired rows have no seed in common.
    """
    paired: dict[Hashable, list[tuple[float, Sample]]] = {}
    for term, group in zip(terms, groups, strict=True):
        paired.setdefault(group, []).append(term)
    sums: list[tuple[Array, Array]] = []
    for members in paired.values():
        common = sorted(set.intersection(*(set(sample.seeds) for _, sample in members)))
        if not common:
            return None
        at = [[sample.seeds.index(seed) for seed in common] for _, sample in members]
        values = sum(c * sample.values[i] for (c, sample), i in zip(members, at, strict=True))
        resampled = sum(c * sample.resampled[:, i] for (c, sample), i in zip(members, at, strict=True))
        sums.append((np.asarray(values), np.asarray(resampled)))
    return estimate(sums, constant)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: the chance of any false finding in the family is at most the level."""
    adjusted, largest = [0.0] * len(p), 0.0
    for rank, at in enumerate(np.argsort(p, kind="stable")):
        largest = max(largest, min(1.0, p[at] * (len(p) - rank)))
        adjusted[at] = largest
    return adjusted


def probability_of_improvement(ours: Array, theirs: Array, sign: int = -1) -> float:
    """How likely a run of the one is better than a run of the other: over all pairs of seeds, ties count half."""
    difference = sign * (np.asarray(ours)[:, None] - np.asarray(theirs)[None, :])
    return float((difference > 0).mean() + (difference == 0).mean() / 2)


def seeds_needed(difference: Estimate, power: float = 0.8, most: int = 1000) -> int | None:
    """Seeds with which a difference as large as this would show with that power; None if seeds alone cannot do it."""
    if difference.deviation is None or not difference.value:
        return None
    tail = (1 - LEVEL) / 2
    for n in range(2, most):
        half = half_width(difference.points_variance, [(difference.seeds_variance / n, n - 1)], tail)
        spread = np.sqrt(difference.points_variance + difference.seeds_variance / n)
        if abs(difference.value) >= half + special.ndtri(power) * spread:
            return n
    return None
