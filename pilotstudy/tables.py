"""The Parquet tables: their schemas, in one place, and how rows become them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pilotstudy.arms import Mode
from pilotstudy.errors import DataError
from pilotstudy.files import source, write

VERSION = 1

At = Literal["last", "best"]


@dataclass(frozen=True)
class Predictions:
    """Logits [n, K] of one mode on one split, with the labels and the row numbers within the data set."""

    at: At
    mode: Mode
    split: Literal["validation", "test"]
    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    logits: NDArray[np.float32]


EPOCHS = pa.schema(
    [
        pa.field("epoch", pa.int32()),
        *(
            pa.field(name, pa.float64())
            for name in (
                "train_loss",
                "validation_accuracy",
                "validation_nll",
                "validation_ece",
                "validation_brier",
                "validation_entropy",
                "reconstruction",
                "kl",
                "hyperprior",
                "gradient_norm",
            )
        ),
        # Root mean square over the imputed units, in the units the DGM sees, by layer 0..L−1; null where never imputed.
        pa.field("imputation_error", pa.list_(pa.float64())),
        pa.field("seconds", pa.float64()),
        pa.field("images_per_second", pa.float64()),
    ]
)

PREDICTIONS = pa.schema(
    [
        pa.field("at", pa.dictionary(pa.int8(), pa.string())),  # last, best
        pa.field("mode", pa.dictionary(pa.int8(), pa.string())),  # point, mc
        pa.field("split", pa.dictionary(pa.int8(), pa.string())),  # validation, test
        pa.field("row", pa.int32()),  # within the training or the test images of the data set
        pa.field("label", pa.int32()),
        pa.field("logits", pa.list_(pa.float32())),  # for mc: the logarithm of the averaged probabilities
    ]
)


def epochs(history: Iterable[dict[str, float]]) -> pa.Table:
    rows: list[dict[str, Any]] = []
    for record in history:
        errors = {int(k.rsplit("_", 1)[1]): v for k, v in record.items() if k.startswith("imputation_error_")}
        by_layer = [errors.get(layer) for layer in range(max(errors) + 1)] if errors else None
        known: dict[str, Any] = {name: record.get(name) for name in EPOCHS.names}
        rows.append(known | {"imputation_error": by_layer})
    return pa.Table.from_pylist(rows, schema=EPOCHS)


def predictions(found: Sequence[Predictions]) -> pa.Table:
    tables = []
    for some in found:
        n, classes = some.logits.shape
        offsets = np.arange(n + 1, dtype=np.int32) * classes
        columns = [
            *(np.full(n, getattr(some, name)) for name in ("at", "mode", "split")),
            some.rows,
            some.labels,
            pa.ListArray.from_arrays(offsets, np.ascontiguousarray(some.logits, np.float32).ravel()),
        ]
        arrays = [pa.array(column).cast(field.type) for column, field in zip(columns, PREDICTIONS, strict=True)]
        tables.append(pa.Table.from_arrays(arrays, schema=PREDICTIONS))
    return pa.concat_tables(tables).unify_dictionaries()


def save(path: Path, table: pa.Table) -> None:
    table = table.replace_schema_metadata({"pilotstudy": json.dumps({"version": VERSION})})
    write(path, lambda file: pq.write_table(table, file, compression="zstd"))


def read(path: Path, schema: pa.Schema | None = None) -> pa.Table:
    """A file's table; with a schema, just its columns: what an earlier version lacks is null."""
    try:
        with pq.ParquetFile(source(path)) as file:  # not `read_table`, which imports half of pyarrow, and pandas
            table = file.read()
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno:  # the system's: not there, not ours to read
            raise
        raise DataError(
            f"{path} is damaged: `pilotstudy resume` writes trials.parquet again; of another file, remove it and the "
            "result of the same name, and it is made again too"
        ) from error
    if schema is None:
        return table
    for field in schema:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(len(table), field.type))
    return table.select(schema.names).cast(schema)


def load_predictions(path: Path) -> list[Predictions]:
    """What `predictions` made a table of."""
    table = read(path)
    codes = [table[name].combine_chunks() for name in ("at", "mode", "split")]
    known = [column.dictionary.to_pylist() for column in codes]
    found = np.stack([column.indices.to_numpy() for column in codes], 1)
    logits = table["logits"].combine_chunks().flatten().to_numpy().reshape(len(table), -1)
    rows, labels = (table[name].to_numpy().astype(np.int64) for name in ("row", "label"))
    starts = np.flatnonzero(np.r_[True, (found[1:] != found[:-1]).any(1)])  # written one after another
    result = []
    for start, end in zip(starts, [*starts[1:], len(table)], strict=True):
        at, mode, split = (names[code] for names, code in zip(known, found[start], strict=True))
        result.append(Predictions(at, mode, split, rows[start:end], labels[start:end], logits[start:end]))
    return result
