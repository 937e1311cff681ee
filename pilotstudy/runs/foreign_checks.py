"""What predictions from elsewhere must be: finite, of two or more classes and images, each image once."""

from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from pilotstudy.arms.arm import Mode
from pilotstudy.errors import DataError, InputError, nearest
from pilotstudy.runs.records import OWN_SPLITS, Split
from pilotstudy.runs.schemas import Predictions

SUM_TOLERANCE = 1e-3  # of probabilities: files have rounded ones
TINY = float(np.finfo(np.float32).tiny)  # in place of a probability of 0
LARGEST_ROW = 2**31 - 1
LARGEST = float(np.finfo(np.float32).max)

Values = NDArray[np.float64]


def mode_named(text: str, path: Path) -> Mode:
    for mode in get_args(Mode):
        if text == mode:
            return mode  # type: ignore[no-any-return]
    raise InputError(f"{path}: mode {text!r}: {nearest(text, list(get_args(Mode)))}")


def split_named(text: str, path: Path) -> Split:
    for split in OWN_SPLITS:
        if text == split:
            return split  # type: ignore[no-any-return]
    raise InputError(f"{path}: split {text!r}: {nearest(text, OWN_SPLITS)}")


def checked_logits(values: NDArray[np.generic], kind: str, where: str) -> NDArray[np.float32]:
    """[n, K], finite; of probabilities their logarithms."""
    if values.ndim != 2 or values.shape[1] < 2 or values.dtype.kind not in "fiu":
        raise DataError(f"{where}: {kind} are {values.dtype} {list(values.shape)}, not numbers [images, classes]")
    numbers = values.astype(np.float64)
    odd = np.flatnonzero(~(np.abs(numbers) <= LARGEST).all(1))
    if len(odd):
        raise DataError(f"{where}: {kind} of {len(odd):,} images, the first in row {odd[0]}, are NaN or infinite")
    looks = _looks_like_probabilities(numbers)
    if kind == "logits":
        if looks is None:
            raise DataError(f"{where}: these logits lie in [0, 1] and sum to 1: call them probabilities")
        return numbers.astype(np.float32)
    if looks is not None:
        raise DataError(f"{where}: row {looks[0]}: {looks[1]}: are these logits?")
    return np.log(np.maximum(numbers, TINY)).astype(np.float32)


def _looks_like_probabilities(numbers: Values) -> tuple[int, str] | None:
    """None where all do; else the first row that does not, and why."""
    outside = np.flatnonzero(((numbers < 0) | (numbers > 1 + SUM_TOLERANCE)).any(1))
    if len(outside):
        return int(outside[0]), "a probability lies outside [0, 1]"
    sums = numbers.sum(1)
    wrong = np.flatnonzero(np.abs(sums - 1) > SUM_TOLERANCE)
    return (int(wrong[0]), f"probabilities sum to {sums[wrong[0]]:.4g}, not 1") if len(wrong) else None


def checked(
    logits: NDArray[np.float32], labels: NDArray[np.generic], rows: NDArray[np.generic] | None, where: str
) -> Predictions:
    """With labels that are classes, and each image once."""
    n, classes = logits.shape
    if n < 2:
        raise DataError(f"{where} has {n} image: figures need two or more")
    own_labels = whole(labels, "label", where, classes - 1)
    own_rows = np.arange(n) if rows is None else whole(rows, "row", where, LARGEST_ROW)
    if own_labels.shape != (n,) or own_rows.shape != (n,):
        raise DataError(f"{where} has {n:,} predictions, {own_labels.size:,} labels and {own_rows.size:,} rows")
    order = np.argsort(own_rows, kind="stable")
    if (np.diff(own_rows[order]) == 0).any():
        raise DataError(f"{where} has an image twice: rows must be different numbers")
    return Predictions(own_rows[order].astype(np.int64), own_labels[order], logits[order])


def whole(values: NDArray[np.generic], what: str, where: str, most: int) -> NDArray[np.int64]:
    """Whole numbers from 0 to `most`, whatever type they are stored as."""
    if values.dtype.kind not in "fiu":
        raise DataError(f"{where}: {what}s are {values.dtype}, not whole numbers from 0 to {most}")
    numbers = values.astype(np.float64)
    if not (np.isfinite(numbers).all() and (numbers == np.round(numbers)).all()):
        raise DataError(f"{where}: a {what} is not a whole number")
    if values.size and (numbers.min() < 0 or numbers.max() > most):
        odd = numbers.min() if numbers.min() < 0 else numbers.max()
        raise DataError(f"{where}: {what} {odd:g} is not among 0 to {most}")
    return values.astype(np.int64)
