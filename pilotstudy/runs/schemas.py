"""The Parquet tables: their schemas, in one place, and how rows become them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pilotstudy.arms.arm import Mode
from pilotstudy.errors import DataError
from pilotstudy.metrics import registry
from pilotstudy.metrics.soft import SOFT_METRICS
from pilotstudy.runs.layout import RunFiles
from pilotstudy.runs.records import OWN_SPLITS, At
from pilotstudy.storage import check_format, readable, write

FORMAT = 2  # of every table; 1 had no further test sets


@dataclass(frozen=True)
class Predictions:
    """Logits [n, K] of one split, with the labels and the row numbers within the data set.

    `expected_entropy`: of sampled predictions the mean entropy of the draws [n], where it is kept. `surprise`: of the
    images to the arm's DGM [n], of point predictions at the last epoch, where it has one.
    """

    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    logits: NDArray[np.float32]
    expected_entropy: NDArray[np.float32] | None = None
    surprise: NDArray[np.float32] | None = None

    @property
    def is_labelled(self) -> bool:
        """Whether there are points, of the study's classes."""
        return len(self.labels) > 0 and bool(self.labels[0] >= 0)


class ModelPredictions(NamedTuple):
    """What one model predicts for each split. A search's trials have no test part, those from elsewhere may have no
    validation part: it is empty. `extra`: of the last epoch, by name, the study's further test sets.
    """

    validation: Predictions
    test: Predictions
    extra: Mapping[str, Predictions] = MappingProxyType({})

    @property
    def splits(self) -> dict[str, Predictions]:
        return {"validation": self.validation, "test": self.test, **self.extra}


TrialPredictions = Mapping[tuple[At, Mode], ModelPredictions]  # all that is kept of a trial


def epochs_schema() -> pa.Schema:
    """A trial's epochs; which metrics they report is not known before all that a study uses is loaded."""
    names = (
        "train_loss",
        *(f"validation_{metric}" for metric in registry.epoch_metrics()),
        "reconstruction",
        "kl",
        "hyperprior",
        "gradient_norm",
        "learning_rate",
    )
    return pa.schema(
        [
            pa.field("epoch", pa.int32()),
            *(pa.field(name, pa.float64()) for name in names),
            # Root mean square over the imputed units, in the units the DGM sees, by layer 0..L−1; null: never imputed.
            pa.field("imputation_error", pa.list_(pa.float64())),
            pa.field("seconds", pa.float64()),
            pa.field("images_per_second", pa.float64()),
        ]
    )


PREDICTIONS = pa.schema(
    [
        pa.field("at", pa.dictionary(pa.int8(), pa.string())),  # last, best
        pa.field("mode", pa.dictionary(pa.int8(), pa.string())),  # point, mc
        pa.field("split", pa.dictionary(pa.int8(), pa.string())),  # validation, test, further test sets
        pa.field("row", pa.int32()),  # within the training or the test images of the data set
        pa.field("label", pa.int32()),  # −1 where it is none of the study's classes
        pa.field("logits", pa.list_(pa.float32())),  # for mc: the logarithm of the averaged probabilities
        pa.field("expected_entropy", pa.float32()),  # for mc, where it tests: the mean entropy of the draws
        pa.field("surprise", pa.float32()),  # for point at last, where it tests: of the image to the arm's DGM, in nats
    ]
)
ADDED = ("expected_entropy", "surprise")  # files may lack them: those of format 1, and of versions before surprise


def epochs_table(history: Iterable[Mapping[str, float]]) -> pa.Table:
    """A trial's epochs, from the records that its trainer made."""
    schema = epochs_schema()
    rows = []
    for record in history:
        errors = {int(k.rsplit("_", 1)[1]): v for k, v in record.items() if k.startswith("imputation_error_")}
        by_layer = [errors.get(layer) for layer in range(max(errors) + 1)] if errors else None
        columns: dict[str, object] = {name: record.get(name) for name in schema.names}
        rows.append(columns | {"imputation_error": by_layer})
    return pa.Table.from_pylist(rows, schema=schema)


def predictions_table(predictions: TrialPredictions) -> pa.Table:
    """A trial's predictions, one model and split after another."""
    tables = []
    for (at, mode), pair in predictions.items():
        for split, part in pair.splits.items():
            n, classes = part.logits.shape
            offsets = np.arange(n + 1, dtype=np.int32) * classes
            columns = [
                *(np.full(n, mark) for mark in (at, mode, split)),
                part.rows,
                part.labels,
                pa.ListArray.from_arrays(offsets, np.ascontiguousarray(part.logits, np.float32).ravel()),
                *(pa.nulls(n, pa.float32()) if own is None else own for own in (part.expected_entropy, part.surprise)),
            ]
            arrays = [pa.array(column).cast(field.type) for column, field in zip(columns, PREDICTIONS, strict=True)]
            tables.append(pa.Table.from_arrays(arrays, schema=PREDICTIONS))
    return pa.concat_tables(tables).unify_dictionaries()


def save(path: Path, table: pa.Table) -> None:
    """Writes a table, with the number of its format."""
    table = table.replace_schema_metadata({"pilotstudy": json.dumps({"version": FORMAT})})
    write(path, lambda file: pq.write_table(table, file, compression="zstd"))


def read(path: Path, schema: pa.Schema | None = None, required: Sequence[str] = ()) -> pa.Table:
    """A file's table; with a schema, just its columns: what an earlier version lacks is null, but for `required`."""
    try:
        with pq.ParquetFile(readable(path)) as file:  # not `read_table`, which imports half of pyarrow, and pandas
            check_format(path, own_metadata(file.schema_arrow), FORMAT, "version")
            table = file.read()
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno:  # the system's: not there, not ours to read
            raise
        raise DataError(f"{path} is damaged: {how_to_mend(path)}") from error
    if schema is None:
        return table
    if missing := set(required) - set(table.column_names):
        raise KeyError(f"{path} has no column {', '.join(sorted(missing))}")
    for field in schema:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(len(table), field.type))
    return table.select(schema.names).cast(schema)


def how_to_mend(path: Path) -> str:
    """What to do about a file of a run that is damaged or missing."""
    files = RunFiles(path.parent)
    if path == files.trials:
        return f"{files.hint('resume')} writes it again"
    files = RunFiles(path.parent.parent)
    result = files.trial(path.stem).result
    too = "it and " if path.exists() else ""
    return f"remove {too}its trial's {result.parent.name}/{result.name}, and {files.hint('resume')} makes both again"


def own_metadata(schema: pa.Schema) -> object:
    """What `save` wrote beside the columns; None in a file of another kind."""
    try:
        return json.loads((schema.metadata or {})[b"pilotstudy"])
    except (KeyError, ValueError):
        return None


def load_predictions(path: Path, *, has_validation: bool = True, has_test: bool = True) -> TrialPredictions:
    """What `predictions_table` made a table of. A part that it is known not to have is empty."""
    try:
        table = read(path, PREDICTIONS, required=[name for name in PREDICTIONS.names if name not in ADDED])
    except (FileNotFoundError, KeyError, pa.ArrowException) as error:
        what = "is missing" if isinstance(error, FileNotFoundError) else "is damaged"
        raise DataError(f"{path} {what}: {how_to_mend(path)}") from error
    columns = [table[name].combine_chunks() for name in ("at", "mode", "split")]
    words = [column.dictionary.to_pylist() for column in columns]
    codes = np.stack([column.indices.to_numpy() for column in columns], 1)
    logits = table["logits"].combine_chunks().flatten().to_numpy().reshape(len(table), -1)
    rows, labels = (table[name].to_numpy().astype(np.int64) for name in ("row", "label"))
    added = [table[name].to_numpy() for name in ADDED]
    starts = np.flatnonzero(np.r_[True, (codes[1:] != codes[:-1]).any(1)])  # written one after another
    parts: dict[tuple[At, Mode], dict[str, Predictions]] = {}
    for start, end in zip(starts, [*starts[1:], len(table)], strict=True):
        at, mode, split = (names[code] for names, code in zip(words, codes[start], strict=True))
        known = [None if np.isnan(column[start]) else column[start:end] for column in added]
        part = Predictions(rows[start:end], labels[start:end], logits[start:end], *known)
        parts.setdefault((at, mode), {})[split] = part
    nothing = Predictions(rows[:0], labels[:0], logits[:0])
    empty = {split: nothing for split, there in (("validation", has_validation), ("test", has_test)) if not there}
    try:
        return {model: _of_model(empty | splits) for model, splits in parts.items()}
    except KeyError as error:
        raise DataError(f"{path} lacks the predictions of a split: remove it and the result of its name") from error


def _of_model(splits: Mapping[str, Predictions]) -> ModelPredictions:
    extra = {name: part for name, part in splits.items() if name not in OWN_SPLITS}
    return ModelPredictions(splits["validation"], splits["test"], extra)


def evaluation_fields() -> list[pa.Field]:
    """The columns of an evaluation: what it is of, and every metric that is known now."""
    return [
        pa.field("at", pa.string()),  # last, best (the epoch with the lowest validation NLL)
        pa.field("mode", pa.string()),  # point, mc
        pa.field("split", pa.string()),  # validation, test, further test sets of the study's classes
        pa.field("scaled", pa.bool_()),  # after temperature scaling
        pa.field("temperature", pa.float64()),
        pa.field("n", pa.int64()),
        *(pa.field(name, pa.float64()) for name in (*registry.METRICS, *SOFT_METRICS)),
    ]


RELIABILITY = [
    pa.field("count", pa.int32()),
    pa.field("confidence", pa.float32()),  # null where a bin is empty
    pa.field("accuracy", pa.float32()),
]


def trials_schema() -> pa.Schema:
    """The table of all trials."""
    return pa.schema(
        [
            pa.field("phase", pa.string()),  # arms, search, confirm
            pa.field("arm", pa.string()),
            pa.field("number", pa.int32()),  # within the phase and the arm
            pa.field("seed", pa.int64()),
            pa.field("key", pa.string()),  # the trial: its files are named after it
            pa.field("status", pa.string()),  # waiting, running, finished, diverged, stopped (early), failed
            pa.field("reused", pa.bool_()),
            pa.field("retries", pa.int32()),  # after its actor died, or with a larger share of a GPU
            pa.field("moves", pa.int32()),  # to another node, after its own was lost
            pa.field("error", pa.string()),
            pa.field("settings", pa.string()),  # JSON
            pa.field("epochs", pa.int32()),
            pa.field("best_epoch", pa.int32()),
            pa.field("training_seconds", pa.float64()),
            pa.field("torch", pa.string()),  # its version
            pa.field("device", pa.string()),  # the kind: a card's name, or the CPU's model
            pa.field("tests", pa.string()),  # JSON: further test sets that it predicted, with their fingerprints
            pa.field("evaluations", pa.list_(pa.struct(evaluation_fields()))),
            pa.field("reliability", pa.list_(pa.struct(RELIABILITY))),  # of validation, point prediction, last epoch
        ]
    )


KEY = pa.field("key", pa.string())


def all_epochs_schema() -> pa.Schema:
    return epochs_schema().append(KEY)
