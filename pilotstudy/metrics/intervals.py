"""Statistics of a study: intervals and p-values over seeds and test points together, in numpy and scipy.

A figure is the mean over seeds of a metric on the test points. Two things vary: another seed gives another network, and
another test set gives other points. All rows of a study share both, so differences are taken in pairs of both.

- Points: the metric on resamples of the test points (bootstrap), the same resamples for every row and seed.
- Seeds: the sample variance of the figure over seeds, with Student's t, because there are few.

With d_s the contrast of seed s, V_seeds = var(d_s) / S holds what seeds do and what they do to single points; the
bootstrap variance of the mean over seeds, V_networks, holds the points' own part, V_points, and the latter again, which
is taken off.
The interval is d ± √(z² V_points + t²_df V_seeds): exact where one of the two dominates, on the safe side between. Few
seeds may agree by chance, so it is never narrower than z √V_networks, which holds for these very networks. Where groups
of rows are not paired by seed, V_seeds is the sum of theirs, with Welch's and Satterthwaite's degrees of freedom.
With one seed it holds for that network only.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import special

from pilotstudy.metrics.resampling import Sample
from pilotstudy.metrics.scores import Array

LEVEL = 0.95


Variances = Sequence[tuple[float, int]]  # (of the mean over seeds, degrees of freedom) of each group of paired seeds


@dataclass(frozen=True)
class Estimate:
    """A figure or a contrast of figures, with its 95 % interval and the p-value of a verdict on its sign.

    The interval is of the contrast as it is. A verdict must also hold with each network's noise floor taken off, may
    not rest on a row that looks good because its bad seeds diverged, and pays for having looked more than once.
    """

    value: float
    low: float
    high: float
    seeds: int  # the fewest of the rows in it
    points_variance: float  # of the test points, not of what seeds do to them
    of_seeds: tuple[tuple[float, int], ...]
    networks_variance: float = 0.0  # of the test points, for these very networks
    less_floors: "Estimate | None" = None  # of a metric that has a noise floor
    barred: tuple[int, ...] = ()  # the signs that would rest on a row with diverged seeds
    looks: float = 1  # what p is multiplied by: how often results were looked at, or 1 over a planned look's share

    @property
    def direction(self) -> int:
        """The sign of its value, whether or not it can be told from 0."""
        return int(self.value > 0) - int(self.value < 0)

    @property
    def sign(self) -> int:
        """1 or −1 where a verdict can be given, else 0."""
        return self.direction if self.p < 1 - LEVEL else 0

    @property
    def is_barred(self) -> bool:
        """Whether it points where diverged seeds allow no verdict."""
        return self.direction in self.barred

    @property
    def is_within_floors(self) -> bool:
        """Whether it can be told from 0 as it is, but not with the noise floors taken off."""
        return self.sign == 0 and self.less_floors is not None and replace(self, less_floors=None).sign != 0

    @property
    def seeds_variance(self) -> float:
        """Of one seed."""
        return sum(variance * (df + 1) for variance, df in self.of_seeds)

    @property
    def deviation(self) -> float | None:
        """The sample deviation over seeds; None with one seed."""
        return float(np.sqrt(self.seeds_variance)) if self.seeds > 1 else None

    @property
    def p(self) -> float:
        """The least level at which a verdict could be given, two-sided; 1 where none could."""
        return min(1.0, self.p_of_one_look * self.looks)

    @cached_property
    def p_of_one_look(self) -> float:
        """The same if nobody had looked before."""
        if self.is_barred:
            return 1.0
        p = self._touching
        if self.less_floors:
            p = max(p, self.less_floors.p_of_one_look) if self.less_floors.direction == self.direction else 1.0
        return p

    @property
    def _touching(self) -> float:
        """The level at which the interval just touches 0."""
        from scipy.optimize import brentq  # slow to import

        size, smallest = abs(self.value), 1e-12
        variances = self.points_variance, self.networks_variance, self.seeds_variance
        if not np.isfinite([size, *variances]).all():
            return 1.0  # a metric of a user's own that is no number here: nothing is known
        if size == 0 or not any(variance > 0 for variance in variances):
            return float(size == 0)

        def beyond(log_tail: float) -> float:
            return half_width(self.points_variance, self.of_seeds, self.networks_variance, np.exp(log_tail)) - size

        if beyond(np.log(smallest)) <= 0:
            return 2 * smallest
        return float(2 * np.exp(brentq(beyond, np.log(smallest), np.log(0.5))))


def half_width(points: float, seeds: Variances, networks: float, tail: float) -> float:
    """Half the interval that leaves `tail` on each side: over points and seeds, or over points for these networks,
    whichever is wider.
    """
    square = special.ndtri(tail) ** 2 * points
    variance = sum(of_group for of_group, _ in seeds)
    if variance > 0:
        square += special.stdtrit(degrees_of_freedom(seeds), tail) ** 2 * variance
    return float(np.sqrt(max(square, special.ndtri(tail) ** 2 * networks)))


def degrees_of_freedom(seeds: Variances) -> float:
    """Satterthwaite's, of the sum of the groups' variances."""
    total = sum(variance for variance, _ in seeds)
    return float(1 / sum((variance / total) ** 2 / df for variance, df in seeds))


def estimate(groups: Sequence[tuple[Array, Array]], constant: float = 0.0) -> Estimate:
    """A contrast from its groups of paired seeds: (by seed [S], on resamples by seed [B, S]) of each."""
    value = constant + sum(float(values.mean()) for values, _ in groups)
    networks = points = float(np.var(sum(resampled.mean(1) for _, resampled in groups), ddof=1))
    seeds = []
    for values, resampled in groups:
        n = len(values)
        if n > 1:
            variance = float(np.var(values, ddof=1))
            of_points = float(np.var(resampled, axis=1, ddof=1).mean()) - variance
            points -= max(of_points, 0.0) / n
            seeds.append((variance / n, n - 1))
    points = max(points, 0.0)
    half = half_width(points, seeds, networks, (1 - LEVEL) / 2)
    fewest = min(len(values) for values, _ in groups)
    return Estimate(value, value - half, value + half, fewest, points, tuple(seeds), networks)


def contrast(
    terms: Sequence[tuple[float, Sample]], groups: Sequence[Hashable], constant: float = 0.0
) -> Estimate | None:
    """Σ coefficient · figure + constant. Rows with the same entry in `groups` are paired by seed.

    None where paired rows have no seed in common.
    """
    raw = _contrast(terms, groups, constant)
    if raw is None or all(sample.floors is None for _, sample in terms):
        return raw
    less_floors = [(coefficient, sample.less_floors()) for coefficient, sample in terms]
    return replace(raw, less_floors=_contrast(less_floors, groups, constant))


def _contrast(terms: Sequence[tuple[float, Sample]], groups: Sequence[Hashable], constant: float) -> Estimate | None:
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


@dataclass(frozen=True)
class SeedsNeeded:
    """How many seeds would show a difference: from 10 to 90 % of what the deviation over so few seeds leaves open."""

    low: int
    high: int | None  # None: more than can be named

    def __str__(self) -> str:
        if self.high is None:
            return f"{self.low} seeds or many more"
        return f"{self.low} seeds" if self.low == self.high else f"{self.low} to {self.high} seeds"


def seeds_needed(difference: Estimate, power: float = 0.8, most: int = 1000) -> SeedsNeeded | None:
    """Seeds with which a difference as large as this would show with that power; None if seeds alone cannot do it."""
    if difference.deviation is None or not difference.value:
        return None
    df = degrees_of_freedom(difference.of_seeds) if difference.seeds_variance > 0 else 1.0
    low, high = (_seeds_needed(difference, df / special.chdtri(df, above), power, most) for above in (0.1, 0.9))
    if low is None:
        return None
    low = max(low, difference.seeds + 1)  # so many did not show it
    return SeedsNeeded(low, high if high is None else max(low, high))


def _seeds_needed(difference: Estimate, inflation: float, power: float, most: int) -> int | None:
    """The same where the variance over seeds is truly this many times what was seen."""
    interaction = (difference.networks_variance - difference.points_variance) * difference.seeds  # seeds with points
    for n in range(2, most):
        seeds = [(inflation * variance * (df + 1) / n, n - 1) for variance, df in difference.of_seeds]
        networks = difference.points_variance + interaction / n
        half = half_width(difference.points_variance, seeds, networks, (1 - LEVEL) / 2)
        of_seeds = max(inflation * difference.seeds_variance, interaction) / n
        spread = np.sqrt(difference.points_variance + of_seeds)
        if abs(difference.value) >= half + special.ndtri(power) * spread:
            return n
    return None
