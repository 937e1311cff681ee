"""Labels as users write them, whole numbers from 0 or text, and the classes that they stand for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilotstudy.console import message
from pilotstudy.errors import DataError

Given = NDArray[Any]  # whole numbers, floats or booleans; text as an array of objects or of numpy's own kind
MOST = 100_000  # classes; a larger number is an identifier, not a class
HOW = "labels are whole numbers from 0, or text"


@dataclass(frozen=True)
class Classified:
    """Both splits' labels as numbers of classes, and the names of these."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]
    classes: tuple[str, ...]


def classify(where: object, train: Given, test: Given, names: Sequence[str] = ()) -> Classified:
    """Numbers stay as they are. Text is sorted, and its order numbers the classes, unless `names` gives another."""
    for split, given in ("train", train), ("test", test):
        if not len(given):
            raise DataError(f"{where}: {split} holds no images")
    if is_text(train) != is_text(test):
        kinds = ("text", "numbers") if is_text(train) else ("numbers", "text")
        raise DataError(f"{where}: train labels are {kinds[0]}, test labels {kinds[1]}; write both alike")
    made = _named(where, train, test, names) if is_text(train) else _numbered(where, train, test, names)
    if len(np.unique(made.train)) < 2:
        only = made.classes[made.train[0]]
        raise DataError(f"{where}: all training images are of the class {only!r}; a study needs at least two classes")
    _tell_of_gaps(where, made)
    return made


def is_text(given: Given) -> bool:
    return given.dtype.kind in "OU"


def quoted(names: Iterable[object], most: int = 3) -> str:
    """The first of these, for a message."""
    names = list(names)
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


def _named(where: object, train: Given, test: Given, names: Sequence[str]) -> Classified:
    for split, given in ("train", train), ("test", test):
        if (given == "").any():
            raise DataError(f"{where}: row {np.argmax(given == '')} of {split} has no label; fill it in or remove it")
    classes = [str(name) for name in names] or sorted(set(train.tolist()))
    numbers = {name: number for number, name in enumerate(classes)}
    known = "the given classes do not have" if names else "the training images do not have"
    for split, given in ("train", train), ("test", test):
        unknown = sorted(set(given.tolist()) - set(numbers))
        if unknown:
            raise DataError(
                f"{where}: {split} has the class{'es' * (len(unknown) > 1)} {quoted(unknown)}, which {known}; "
                "remove or rename these images"
            )
    first, second = (np.array([numbers[name] for name in given.tolist()], np.int64) for given in (train, test))
    return Classified(first, second, tuple(classes))


def _numbered(where: object, train: Given, test: Given, names: Sequence[str]) -> Classified:
    for split, given in ("train", train), ("test", test):
        check_whole(where, split, given, len(names))
    count = len(names) or int(train.max()) + 1
    if test.max() >= count:
        raise DataError(
            f"{where}: test has the class {int(test.max())}, which the training images do not have; "
            "remove these images, or number the classes alike"
        )
    return Classified(train.astype(np.int64), test.astype(np.int64), tuple(names) or tuple(map(str, range(count))))


def check_whole(where: object, split: str, given: Given, named: int) -> None:
    """Refuses the first label that is no number of a class, of which so many are named, or none."""
    if given.dtype.kind not in "biuf":
        raise DataError(f"{where}: {split} labels are of the kind {given.dtype}; {HOW}")
    above = f"is larger than {named - 1}, the last that has a name" if named else f"is larger than {MOST - 1:,}"
    faults = {"is negative": given < 0, above: given >= (named or MOST)}
    if given.dtype.kind == "f":
        faults = {"is missing": np.isnan(given), "is not a whole number": given != np.floor(given)} | faults
    for fault, rows in faults.items():
        if rows.any():
            row = int(np.argmax(rows))
            raise DataError(f"{where}: the {split} label {given[row]} in row {row} {fault}; {HOW}")


def _tell_of_gaps(where: object, made: Classified) -> None:
    """Says which classes cannot be learnt. They are kept: a list of names may be of a larger data set."""
    counts = [np.bincount(labels, minlength=len(made.classes)) for labels in (made.train, made.test)]
    absent = np.flatnonzero(counts[0] == 0)
    if len(absent):
        tested = int(counts[1][absent].sum())
        message(
            f"{where}: no training image has the class{'es' * (len(absent) > 1)} "
            f"{quoted(made.classes[k] for k in absent)}"
            + (f", but {tested:,} of the test images do" if tested else "")
            + "; networks keep an output for each. Labels written as text leave no gaps."
        )
