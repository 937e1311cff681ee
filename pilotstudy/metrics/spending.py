"""How the error rate of a study is divided among planned looks at its results.

Whoever looks several times, and stops when something shows, is wrong more often than each look alone says. So each look
may spend a share of the error rate, and its p-values count as p / share. The shares add up to 1, so the rate holds over
all looks, however they depend on each other.

Levels that are exact for Gaussian statistics would be larger. With Student's t of 3, 5, 8, 12 and 20 seeds they exceed
the rate by an eighth (`tests/bench/until_decided.py`), so they are not used.
"""

import math
from collections.abc import Sequence


def spent(fraction: float) -> float:
    """The share of the error rate that is spent when this fraction of all seeds is there: Lan and DeMets, as Pocock."""
    return math.log1p((math.e - 1) * fraction)


def shares(seeds: Sequence[int]) -> list[float]:
    """What each of the looks spends, which come when so many seeds are there."""
    totals = [spent(number / seeds[-1]) for number in seeds]
    return [total - before for total, before in zip(totals, [0.0, *totals], strict=False)]
