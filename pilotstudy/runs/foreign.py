"""Predictions that were made elsewhere: NPZ, Parquet and CSV files of logits or probabilities, every figure checked."""

import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pilotstudy.arms.arm import Mode
from pilotstudy.errors import DataError, InputError, nearest
from pilotstudy.runs.foreign_checks import checked, checked_logits, mode_named, split_named, whole
from pilotstudy.runs.records import OWN_SPLITS, Split
from pilotstudy.runs.schemas import Predictions
from pilotstudy.study.spec import LARGEST_SEED

KINDS = ("logits", "probabilities")
NUMBERED = {"logits": r"logits?_?(\d+)", "probabilities": r"(?:p|probs?|probability|probabilities)_?(\d+)"}
OF_EACH_IMAGE = ("labels", "row", "rows", "split")
ARRAYS = (  # of an NPZ file
    *KINDS,
    *("labels", "arm", "seed", "mode", "split", "classes", "row", "rows"),
    *(f"validation_{name}" for name in (*KINDS, "labels", "row", "rows")),
)
NAMED = r"(?P<arm>.+?)(?:[-_]seed[-_]?|_)(?P<seed>\d{1,18})"  # a file: ARM-seed3, ARM_3


@dataclass(frozen=True)
class Part:
    """What one network predicts, in one mode, for one split; the images in the order of their row numbers."""

    arm: str
    seed: int
    mode: Mode
    split: Split
    predictions: Predictions
    classes: tuple[str, ...]
    file: Path

    @property
    def name(self) -> str:
        return f"{self.arm}, seed {self.seed}" + (", mc" if self.mode == "mc" else "")


def read_parts(path: Path) -> list[Part]:
    """All predictions of a file."""
    if path.suffix.lower() not in READERS:
        raise InputError(f"{path}: expected a file of predictions: {', '.join(READERS)}")
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    return list(READERS[path.suffix.lower()](path))


def arm_and_seed(path: Path, names_there: str) -> tuple[str, int]:
    """From a file's name, where its content does not tell."""
    match = re.fullmatch(NAMED, path.stem)
    if not match:
        raise InputError(
            f"{path} has no arm or no seed (found: {names_there}), and its name does not tell them: "
            f"add both, or call it ARM-seed0{path.suffix}"
        )
    return match["arm"], int(match["seed"])


# NPZ


def _read_npz(path: Path) -> Iterator[Part]:
    """`logits` or `probabilities` [n, K] and `labels` [n], of one network; the same for validation, if there is any.

    `split`, one for all images or [n], says of which split those without a prefix are.
    """
    arrays = _arrays(path)
    _check_names(path, arrays)
    names_there = ", ".join(arrays) or "nothing"
    told = {name: _scalar(path, arrays, name) for name in ("arm", "seed", "mode")}
    if told["arm"] is None or told["seed"] is None:
        arm, seed = arm_and_seed(path, names_there)
        told = {
            "arm": arm if told["arm"] is None else told["arm"],
            "seed": seed if told["seed"] is None else told["seed"],
            "mode": told["mode"],
        }
    seed_given = whole(np.atleast_1d(np.asarray(told["seed"])), "seed", str(path), LARGEST_SEED)
    for split in OWN_SPLITS:
        prefix = "" if split == "test" else f"{split}_"
        kinds = [kind for kind in KINDS if prefix + kind in arrays]
        if not kinds and split == "validation":
            continue
        if len(kinds) != 1 or f"{prefix}labels" not in arrays:
            expected = f"{prefix}labels and either {prefix}logits or {prefix}probabilities"
            raise InputError(f"{path}: expected {expected}; found {names_there}")
        where = str(path) if split == "test" else f"{path}, {split}"
        logits, labels = checked_logits(arrays[prefix + kinds[0]], kinds[0], where), arrays[f"{prefix}labels"]
        rows = arrays.get(f"{prefix}row", arrays.get(f"{prefix}rows"))
        by_split = {split: slice(None)} if prefix or "split" not in arrays else _by_split(path, arrays, len(logits))
        for own_split, own in by_split.items():
            yield Part(
                arm=str(told["arm"]),
                seed=int(seed_given[0]),
                mode=mode_named(str(told["mode"] or "point"), path),
                split=own_split,
                predictions=checked(logits[own], labels[own], None if rows is None else rows[own], where),
                classes=_classes(path, arrays, logits.shape[1]),
                file=path,
            )


def _check_names(path: Path, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Refuses arrays that nothing reads: one that is misspelt would be left out without a word."""
    for name in arrays:
        if name not in ARRAYS:
            raise InputError(f"{path}: unknown array {name!r}: {nearest(name, ARRAYS)}")
        if name.endswith("rows") and name.removesuffix("s") in arrays:
            raise InputError(f"{path} has both {name.removesuffix('s')} and {name}, which are the same: leave one out")


def _by_split(
    path: Path, arrays: Mapping[str, NDArray[np.generic]], images: int
) -> dict[Split, slice | NDArray[np.int64]]:
    """Which of the images are of which split, as the array `split` says."""
    splits = [split_named(str(text), path) for text in arrays["split"].ravel().tolist()]
    if len(splits) == 1:
        return {splits[0]: slice(None)}
    for name in OF_EACH_IMAGE:
        if name in arrays and arrays[name].shape != (images,):
            raise DataError(f"{path}: {name} has {arrays[name].size:,} values for {images:,} images")
    codes = np.array(splits)
    return {split: np.flatnonzero(codes == split) for split in dict.fromkeys(splits)}


def _arrays(path: Path) -> dict[str, NDArray[np.generic]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            if isinstance(file, np.ndarray):
                raise ValueError("one array without a name")
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        if "allow_pickle" in str(error) or "pickled" in str(error):
            raise DataError(f"{path} holds pickled objects, which are not read: save plain arrays") from error
        reason = " ".join(str(error).split())[:150]
        raise DataError(f"{path} is not a whole NPZ file of numpy's ({reason})") from error


def _scalar(path: Path, arrays: Mapping[str, NDArray[np.generic]], name: str) -> str | int | float | None:
    if name not in arrays:
        return None
    if arrays[name].size != 1:
        raise InputError(f"{path}: {name} has {arrays[name].size} values: a file has the predictions of one network")
    value: str | int | float = arrays[name].reshape(-1)[0].item()
    return value


def _classes(path: Path, arrays: Mapping[str, NDArray[np.generic]], number: int) -> tuple[str, ...]:
    names = tuple(map(str, arrays["classes"].ravel().tolist())) if "classes" in arrays else ()
    if names and (len(names) != number or len(set(names)) != number):
        raise DataError(f"{path}: classes has {len(set(names))} names, and predictions have {number} columns")
    return names


# Parquet and CSV: a row for each image


def _read_parquet(path: Path) -> Iterator[Part]:
    try:
        with pq.ParquetFile(path) as file:
            table = file.read()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a whole Parquet file") from error
    return _of_table(path, table)


def _read_csv(path: Path) -> Iterator[Part]:
    try:
        table = pa_csv.read_csv(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is not a CSV file: {' '.join(str(error).split())[:150]}") from error
    return _of_table(path, table)


def _of_table(path: Path, table: pa.Table) -> Iterator[Part]:
    """The rows of each arm, seed, mode and split, in the order in which these appear."""
    try:
        names = table.column_names
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: the names of its columns are not text in UTF-8") from error
    names_there = ", ".join(names[:20]) + (", .." if len(names) > 20 else "")
    if len(set(names)) < len(names):
        raise InputError(f"{path} has two columns of the same name; found {names_there}")
    kind, columns = _prediction_columns(path, names, names_there)
    if "label" not in names:
        raise InputError(f"{path} has no column label; found {names_there}")
    if not len(table):
        raise DataError(f"{path} has no rows")
    logits = checked_logits(_matrix(path, table, columns), kind, str(path))
    arm, seed = ("", 0) if {"arm", "seed"} <= set(names) else arm_and_seed(path, names_there)
    arms, modes, splits = (
        _texts(path, table, name, default) for name, default in (("arm", arm), ("mode", "point"), ("split", "test"))
    )
    seeds = np.full(len(table), seed)
    if "seed" in names:
        seeds = whole(_numbers(path, table, "seed"), "seed", str(path), LARGEST_SEED)
    labels, rows = _numbers(path, table, "label"), _numbers(path, table, "row") if "row" in names else None
    keys = np.stack([_codes(arms), _codes(modes), _codes(splits), seeds], 1)
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    for place in np.argsort(first):
        own = np.flatnonzero(group.reshape(-1) == place)
        start = int(own[0])
        where = f"{path}: {arms[start]}, seed {seeds[start]}"
        yield Part(
            arm=arms[start],
            seed=int(seeds[start]),
            mode=mode_named(modes[start], path),
            split=split_named(splits[start], path),
            predictions=checked(logits[own], labels[own], None if rows is None else rows[own], where),
            classes=(),
            file=path,
        )


def _prediction_columns(path: Path, names: list[str], names_there: str) -> tuple[str, list[str]]:
    """Logits or probabilities, and the columns that they are in: one of lists, or one for each class."""
    kinds: dict[str, list[str]] = {kind: [kind] for kind in KINDS if kind in names}
    for kind, pattern in NUMBERED.items():
        numbered = {int(match[1]): name for name in names if (match := re.fullmatch(pattern, name))}
        if numbered and kind not in kinds:
            if sorted(numbered) != list(range(len(numbered))):
                raise InputError(f"{path}: the columns of {kind} are numbered {sorted(numbered)[:9]}, not from 0 on")
            kinds[kind] = [numbered[k] for k in range(len(numbered))]
    if len(kinds) != 1:
        some = "both logits and probabilities: leave one out" if kinds else f"no predictions; found {names_there}"
        raise InputError(f"{path} has {some}; expected columns logit_0, logit_1, .. or prob_0, prob_1, ..")
    return next(iter(kinds.items()))


def _matrix(path: Path, table: pa.Table, columns: list[str]) -> NDArray[np.generic]:
    """[n, K] from a column of lists, or from several columns."""
    first = table[columns[0]].combine_chunks()
    if len(columns) > 1 or not pa.types.is_nested(first.type):
        return np.stack([_numbers(path, table, name) for name in columns], 1)
    if not hasattr(first, "flatten") or pa.types.is_struct(first.type):
        raise InputError(f"{path}: {columns[0]} is a column of {first.type}, not of lists of numbers")
    lengths = set(pc.list_value_length(first).to_pylist())
    values = first.flatten()
    if len(lengths) != 1 or None in lengths or values.null_count:
        raise DataError(f"{path}: the lists in {columns[0]} are not all of the same length, or not all there")
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        raise InputError(f"{path}: {columns[0]} is a column of {first.type}, not of lists of numbers")
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(table), -1)


def _numbers(path: Path, table: pa.Table, name: str) -> NDArray[np.generic]:
    column = table[name]
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise DataError(f"{path}: the column {name} holds {column.type}, not numbers")
    if column.null_count:
        raise DataError(f"{path}: the column {name} has {column.null_count:,} empty cells")
    return np.asarray(column.to_numpy())


def _texts(path: Path, table: pa.Table, name: str, default: str) -> list[str]:
    if name not in table.column_names:
        return [default] * len(table)
    try:
        texts: list[str | None] = table[name].cast(pa.string()).to_pylist()
    except pa.ArrowException as error:
        raise DataError(f"{path}: the column {name} holds {table[name].type}, not text") from error
    if None in texts:
        raise DataError(f"{path}: the column {name} has empty cells")
    return [text or "" for text in texts]


def _codes(texts: list[str]) -> NDArray[np.int64]:
    known = {text: code for code, text in enumerate(dict.fromkeys(texts))}
    return np.array([known[text] for text in texts], np.int64)


READERS = {".npz": _read_npz, ".parquet": _read_parquet, ".csv": _read_csv}
