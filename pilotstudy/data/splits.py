"""Which images train, which validate: the same for every arm, and, unless a study wants it else, for every seed."""

import numpy as np
from numpy.typing import NDArray

from pilotstudy.errors import InputError


def split(
    labels: NDArray[np.int64], validation: int, train_size: int | None, seed: int = 0, *, subset: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers (train, validation) of the training labels.

    Validation is stratified: each class has its share of it, to within one image. `train_size` takes, of what is
    left, the same number of every class (to within one); a larger size contains the smaller ones. `subset`: a seed for
    which of them; None takes the same for all.
    """
    if not 0 < validation < len(labels):
        raise InputError(f"data.validation = {validation} must be between 1 and {len(labels) - 1} training images")
    random = np.random.default_rng([seed, 20])
    order = random.permutation(len(labels))
    by_class = [order[labels[order] == k] for k in np.unique(labels)]
    held = shares([len(rows) for rows in by_class], validation)
    rest = [rows[n:] for rows, n in zip(by_class, held, strict=True)]
    if subset is not None:
        draws = np.random.default_rng([subset, 21])
        rest = [draws.permutation(rows) for rows in rest]
    if train_size is not None:
        each = shares([1] * len(rest), train_size)
        most = min(len(rows) for rows in rest) * len(rest)
        if train_size < len(rest) or any(n > len(rows) for rows, n in zip(rest, each, strict=True)):
            raise InputError(
                f"train_size = {train_size} cannot be cut with every class alike: choose {len(rest)} to {most}"
            )
        rest = [rows[:n] for rows, n in zip(rest, each, strict=True)]
    held_out = np.concatenate([rows[:n] for rows, n in zip(by_class, held, strict=True)])
    return np.sort(np.concatenate(rest)), np.sort(held_out)


def shares(weights: list[int], total: int) -> list[int]:
    """`total` in proportion to the weights, in whole numbers (the largest remainders are rounded up)."""
    exact = np.array(weights) * total / sum(weights)
    floor = np.floor(exact).astype(int)
    largest = np.argsort(floor - exact, kind="stable")[: total - floor.sum()]
    floor[largest] += 1
    return [int(n) for n in floor]
