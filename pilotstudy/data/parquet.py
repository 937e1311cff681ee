"""Parquet files in the layout of Hugging Face: a column of encoded images, and one of labels."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pilotstudy.data.labels import HOW, Given, is_text
from pilotstudy.data.raw import reason
from pilotstudy.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa


def parquet_files(folder: Path) -> dict[str, list[Path]]:
    """Files by split: train-00000-of-00001.parquet and so on, here or in `data/`."""
    splits: dict[str, list[Path]] = {}
    for path in sorted([*folder.glob("*.parquet"), *folder.glob("data/*.parquet")]):
        splits.setdefault(path.stem.split("-")[0], []).append(path)
    return splits


def parquet_classes(path: Path) -> list[str]:
    """The class names in the Hugging Face metadata, or none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(path).metadata or {}
        label = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]["label"]
        return list(map(str, label["names"]))
    except (KeyError, TypeError):  # it does not say
        return []
    except (pa.ArrowException, OSError, ValueError) as error:
        raise not_whole(path, error) from error


def read_parquet(files: Sequence[Path]) -> tuple[list[bytes | None], Given]:
    """Encoded images and labels. `image` and `img` are both in use, plain or as a struct with `bytes`."""
    encoded: list[bytes | None] = []
    labels: list[Given] = []
    for path in files:
        images, column = read_columns(path)
        if not len(column):
            continue  # its columns may have no kind
        for chunk in images.chunks:
            encoded += chunk.to_pylist()
        labels.append(read_labels(path, column))
        if is_text(labels[-1]) != is_text(labels[0]):
            raise DataError(f"{path}: labels are text in one file of its split, numbers in another; write all alike")
    return encoded, np.concatenate(labels) if labels else np.empty(0, np.int64)


def read_columns(path: Path) -> "tuple[pa.ChunkedArray, pa.ChunkedArray]":
    """The columns of encoded images and of labels."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        columns = pq.read_schema(path).names
        image = next((c for c in ("image", "img") if c in columns), None)
        if image is None or "label" not in columns:
            raise DataError(f"{path} needs the columns image (or img) and label; it has {', '.join(columns)}")
        twice = next((c for c in (image, "label") if columns.count(c) > 1), None)
        if twice:
            raise DataError(f"{path} has the column {twice} more than once: keep one of them")
        table = pq.read_table(path, columns=[image, "label"])
    except (pa.ArrowException, OSError) as error:
        raise not_whole(path, error) from error
    images = table[image]
    if pa.types.is_struct(images.type):
        if images.type.get_field_index("bytes") < 0:
            raise DataError(f"{path}: the column {image} holds no bytes; it needs encoded images")
        images = pa.chunked_array([chunk.field("bytes") for chunk in images.chunks], pa.binary())
    return images, table["label"]


def read_labels(path: Path, column: "pa.ChunkedArray") -> Given:
    """One file's labels, of which none may be missing."""
    import pyarrow as pa

    if column.null_count:
        row = column.is_null().to_pylist().index(True)
        raise DataError(f"{path}: row {row} has no label; fill it in or remove it")
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_decimal(kind):
        column, kind = column.cast(pa.float64()), pa.float64()
    known = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string)
    if not any(check(kind) for check in (*known, pa.types.is_large_string)):
        raise DataError(f"{path}: the labels are of the kind {kind}; {HOW}")
    return np.asarray(column.to_numpy())


def not_whole(path: Path, error: BaseException) -> DataError:
    return DataError(f"{path} is not a whole Parquet file ({reason(error)}): fetch it again")
