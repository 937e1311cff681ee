"""Predictions from elsewhere, put together: of each network once, all of the same images and classes."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pilotstudy.arms.arm import Mode
from pilotstudy.errors import DataError, InputError
from pilotstudy.runs.foreign import Part
from pilotstudy.runs.records import At
from pilotstudy.runs.schemas import ModelPredictions, Predictions, TrialPredictions


@dataclass(frozen=True)
class ForeignTrial:
    """The predictions of one network."""

    arm: str
    seed: int
    predictions: TrialPredictions
    classes: tuple[str, ...]
    file: Path  # that its first part is from

    @property
    def modes(self) -> tuple[Mode, ...]:
        return tuple(mode for _, mode in self.predictions)

    @property
    def key(self) -> str:
        """The same predictions have the same key."""
        digest = hashlib.sha256(f"imported {self.arm} {self.seed}".encode())
        for (_, mode), pair in sorted(self.predictions.items()):
            for part in (pair.validation, pair.test):
                digest.update(f"{mode} {part.logits.shape}".encode())
                for values in part.rows, part.labels, part.logits:
                    digest.update(np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()[:20]


def fingerprint(trial: ForeignTrial) -> str:
    """Of the test images, as far as they are known: their row numbers and labels."""
    test = next(iter(trial.predictions.values())).test
    digest = hashlib.sha256(f"imported {test.logits.shape[1]}".encode())
    digest.update(test.rows.astype("<i8").tobytes())
    digest.update(test.labels.astype("<i8").tobytes())
    return digest.hexdigest()


def trials_of(parts: Sequence[Part]) -> list[ForeignTrial]:
    """The parts put together: each network once, all of the same images and classes."""
    by_trial: dict[tuple[str, int], dict[Mode, dict[str, Part]]] = {}
    first: dict[str, Part] = {}  # by split
    for part in parts:
        splits = by_trial.setdefault((part.arm, part.seed), {}).setdefault(part.mode, {})
        if part.split in splits:
            both = " and ".join(dict.fromkeys(str(each.file) for each in (splits[part.split], part)))
            raise InputError(f"{part.name} is there twice: {both}")
        splits[part.split] = part
        _check_same(first.setdefault(part.split, part), part)
        if part.predictions.logits.shape[1] != parts[0].predictions.logits.shape[1]:
            raise DataError(f"{part.file}: {part.name} has another number of classes for {part.split} than for test")
    classes = next((part.classes for part in parts if part.classes), ())
    return [_put_together(arm, seed, modes, classes) for (arm, seed), modes in by_trial.items()]


def _check_same(first: Part, other: Part) -> None:
    ours, theirs = first.predictions, other.predictions
    if ours.logits.shape[1] != theirs.logits.shape[1] or (first.classes and other.classes not in ((), first.classes)):
        numbers = f"{theirs.logits.shape[1]} classes, and {first.name} has {ours.logits.shape[1]}"
        raise DataError(f"{other.file}: {other.name} has {numbers}: all must have the same")
    if not np.array_equal(ours.rows, theirs.rows):
        counts = f"{len(theirs.rows):,} images, {first.name} {len(ours.rows):,}"
        raise DataError(f"{other.file}: {other.name} predicts other {other.split} images than {first.name} ({counts})")
    odd = np.flatnonzero(ours.labels != theirs.labels)
    if len(odd):
        raise DataError(
            f"{other.file}: {other.name} has other labels than {first.name} for {len(odd):,} {other.split} images, the "
            f"first in row {ours.rows[odd[0]]}: all must be of the same images in the same order"
        )


def _put_together(
    arm: str, seed: int, modes: Mapping[Mode, Mapping[str, Part]], classes: tuple[str, ...]
) -> ForeignTrial:
    pairs: dict[tuple[At, Mode], ModelPredictions] = {}
    for mode in sorted(modes, key=("point", "mc").index):
        splits = modes[mode]
        if "test" not in splits:
            raise DataError(f"{splits['validation'].file}: {splits['validation'].name} has no test predictions")
        test = splits["test"].predictions
        nothing = Predictions(test.rows[:0], test.labels[:0], test.logits[:0])
        validation = splits["validation"].predictions if "validation" in splits else nothing
        pairs["last", mode] = ModelPredictions(validation, test)
    if len({len(pair.validation.labels) for pair in pairs.values()}) > 1:
        raise DataError(f"{arm}, seed {seed} has validation predictions in one mode and not in the other")
    number = test.logits.shape[1]
    file = next(iter(next(iter(modes.values())).values())).file
    return ForeignTrial(arm, seed, pairs, classes or tuple(map(str, range(number))), file)
