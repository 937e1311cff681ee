"""Adding seeds until it is decided: error rate, power and saving, by simulation with invented seeds and images."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from pilotstudy.metrics.scores import Array
from pilotstudy.metrics.spending import shares


def gaussian_levels(seeds: Sequence[int], rate: float, points: int = 801) -> Array:
    """Two-sided levels of looks that spend the same and would be exact for Gaussian statistics: the usual recursion."""
    fractions = np.array(seeds) / seeds[-1]
    levels, before = [], 0.0
    at, weight = np.zeros(1), np.ones(1)  # where the sum may stand after the looks so far, and how likely
    for fraction, share in zip(fractions, shares(seeds), strict=True):
        step = np.sqrt(fraction - before)

        def crossing(bound: float, at: Array = at, weight: Array = weight, step: float = step) -> float:
            return float(weight @ (ndtr((-bound - at) / step) + ndtr((at - bound) / step)))

        bound = brentq(lambda bound, share=share, crossing=crossing: crossing(bound) - rate * share, 0, 9)
        levels.append(2 * ndtr(-bound / np.sqrt(fraction)))
        within = np.linspace(-bound, bound, points)
        density = np.exp(-(((within[:, None] - at) / step) ** 2) / 2) @ weight / (step * np.sqrt(2 * np.pi))
        spacing = np.full(points, within[1] - within[0])
        spacing[[0, -1]] /= 2
        at, weight, before = within, density * spacing, fraction
    return np.array(levels)
