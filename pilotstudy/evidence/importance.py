"""Which of a search's parameters matter for reaching its best trials: PED-ANOVA (Watanabe, Bansal, Hutter, 2023).

The values of the best tenth are spread over a parameter's range otherwise than those of all trials if it matters; how
much so is the Pearson divergence between the two densities. Optuna has it too, but needs seconds to load and copies
every trial several times; a test holds ours to Optuna's.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from pilotstudy.arms.arm import Choice, Range, Setting, Space
from pilotstudy.metrics.scores import Array

Counts = NDArray[np.intp]

BEST = 0.1
STEPS = 50  # of the grid that a parameter's range is laid on


def importance(space: Space, settings: Sequence[Mapping[str, Setting]], losses: Array) -> dict[str, float]:
    """Shares that add up to 1, the largest first. Lower losses are better."""
    best = losses <= np.sort(losses)[math.ceil(BEST * len(losses)) - 1]
    divergences = {}
    for name, choice in space.items():
        places, size = on_grid(choice, [of_trial[name] for of_trial in settings])
        spread = categories if isinstance(choice, Choice) else smooth
        all_trials = spread(np.bincount(places, minlength=size)) + 1e-12
        best_trials = spread(np.bincount(places[best], minlength=size)) + 1e-12
        divergences[name] = float(all_trials @ (best_trials / all_trials - 1) ** 2)
    total = sum(divergences.values())
    shares = {name: value / total if total else 1 / len(divergences) for name, value in divergences.items()}
    return dict(sorted(shares.items(), key=lambda entry: -entry[1]))


def on_grid(choice: Range | Choice, values: Sequence[Setting]) -> tuple[Counts, int]:
    """Each value's place on a grid, and the size of the grid."""
    if isinstance(choice, Choice):
        return np.array([choice.options.index(value) for value in values], np.intp), len(choice.options)
    size = STEPS
    if choice.whole:
        width = choice.high - choice.low + 1
        size = min(STEPS, math.ceil(math.log2(width)) + 1 if choice.log else round(width))
    measure = np.log if choice.log else np.asarray
    low, high = measure(choice.low), measure(choice.high)
    steps = (measure(np.asarray(values, float)) - low) / ((high - low) / max(size - 1, 1) or 1)
    return np.clip(np.ceil(steps - 0.5), 0, size - 1).astype(np.intp), size


def categories(counts: Counts) -> Array:
    """The density of values that have no order; a value more, spread evenly, keeps it off zero."""
    kernels = np.count_nonzero(counts) + 1
    blurred = 1 / kernels / (1 + len(counts) / kernels)  # what each kernel gives to the other categories
    own = counts * (1 - len(counts) * blurred) + counts.sum() * blurred
    return np.asarray((own + 1 / len(counts)) / (counts.sum() + 1))


def smooth(counts: Counts) -> Array:
    """The density along the grid: normal kernels as wide as Scott's rule says, and one as wide as the grid."""
    at = np.flatnonzero(counts)
    weights, last = counts[at], len(counts) - 1
    total, cumulated = weights.sum(), np.cumsum(weights)
    deviation = math.sqrt((at - at @ weights / total) ** 2 @ weights / max(1, total - 1))
    first, third = np.searchsorted(cumulated, total // 4), np.searchsorted(cumulated, total * 3 // 4, side="right")
    quartiles = at[min(third, len(at) - 1)] - at[first]
    width = max(1.059 * min(quartiles / 1.34, deviation) * total**-0.2, 0.5 / 1.64)
    middles, widths = np.append(at, last / 2), np.append(np.full(len(at), width), last + 1)
    edges = ndtr((np.arange(-0.5, last + 1)[:, None] - middles) / widths)
    kernels = np.diff(edges, axis=0) / (edges[-1] - edges[0])
    return np.asarray(kernels @ np.append(weights, 1) / (total + 1))
