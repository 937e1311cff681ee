"""A run's results: the table of its trials, and what it says of each arm."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter, ValidationError

from pilotstudy.errors import DataError
from pilotstudy.metrics import registry
from pilotstudy.runs import schemas
from pilotstudy.runs.filling import filled
from pilotstudy.runs.layout import RunFiles
from pilotstudy.runs.records import TrialRow, first_problem
from pilotstudy.runs.schemas import KEY, all_epochs_schema, evaluation_fields, trials_schema
from pilotstudy.storage import AT_ONCE

_ROWS = TypeAdapter(list[TrialRow])


def figures_of(trials: pa.Table) -> list[dict[str, float] | None]:
    """`validation_figures` of each row."""
    lists = trials["evaluations"].combine_chunks()
    rows, places = lists.flatten(), pc.list_parent_indices(lists)
    wanted = pc.invert(rows.field("scaled"))
    for name, value in ("at", "last"), ("mode", "point"), ("split", "validation"):
        wanted = pc.and_(wanted, pc.equal(rows.field(name), value))
    objectives = registry.objectives()
    figures = zip(*(rows.field(name).filter(wanted).to_pylist() for name in objectives), strict=True)
    of_rows: list[dict[str, float] | None] = [None] * len(trials)
    for place, values in zip(places.filter(wanted).to_pylist(), figures, strict=True):
        of_rows[place] = of_rows[place] or dict(zip(objectives, values, strict=True))
    return of_rows


def tested_of(trials: pa.Table) -> list[bool]:
    """Whether each row has figures of the test images."""
    lists = trials["evaluations"].combine_chunks()
    of_test = pc.list_parent_indices(lists).filter(pc.equal(lists.flatten().field("split"), "test"))
    tested = set(of_test.unique().to_pylist())
    return [place in tested for place in range(len(trials))]


def gather_epochs(files: RunFiles, keys: Iterable[str]) -> None:
    """The epochs of trials that will never run again, in one file: thousands of small ones take seconds to read."""
    epochs = Results(files).epochs
    schemas.save(files.all_epochs, epochs.filter(pc.is_in(epochs["key"], pa.array(sorted(keys), KEY.type))))


@dataclass(frozen=True)
class Results:
    """A run's tables. `.to_pandas()` on any of them gives a data frame."""

    files: RunFiles

    @property
    def trials(self) -> pa.Table:
        """A row for each place in the plan; two places with the same key are the same trial."""
        if not self.files.trials.exists():
            return trials_schema().empty_table()
        return filled(schemas.read(self.files.trials, trials_schema()), self.files)

    def rows(self) -> list[TrialRow]:
        """The same, each row as a record."""
        try:
            return _ROWS.validate_python(self.trials.to_pylist())
        except ValidationError as error:
            raise DataError(f"{self.files.trials} is damaged: {first_problem(error)}") from error

    @property
    def evaluations(self) -> pa.Table:
        """A row for each trial, epoch (last, best), mode, split, with and without temperature scaling."""
        rows = []
        for row in self.trials.to_pylist():
            own = {name: row[name] for name in ("phase", "arm", "number", "seed", "key")}
            rows += [own | evaluation for evaluation in row["evaluations"]]
        of_trials = trials_schema()
        own_fields = [of_trials.field(name) for name in ("phase", "arm", "number", "seed", "key")]
        schema = pa.schema([*own_fields, *evaluation_fields()])
        return pa.Table.from_pylist(rows, schema=schema)

    @property
    def epochs(self) -> pa.Table:
        """A row for each trial (`key`) and epoch."""
        try:
            gathered = schemas.read(self.files.all_epochs, all_epochs_schema())
        except (FileNotFoundError, DataError):  # all of it is in the trials' own files
            gathered = all_epochs_schema().empty_table()
        keys = set(gathered["key"].unique().to_pylist())
        rest = self._parts(self.files.epochs, schemas.epochs_schema(), lambda key: key not in keys)
        return pa.concat_tables([gathered, rest]).sort_by([("key", "ascending"), ("epoch", "ascending")])

    @property
    def predictions(self) -> pa.Table:
        """A row for each trial (`key`), epoch, mode, split and image, with its logits. Large."""
        return self._parts(self.files.predictions, schemas.PREDICTIONS)

    @staticmethod
    def _parts(folder: Path, schema: pa.Schema, wanted: Callable[[str], bool] = lambda key: True) -> pa.Table:
        """The small files of a folder, each with its key; several at a time, since a store may be far away."""

        def part(path: Path) -> pa.Table:
            table = schemas.read(path, schema)
            return table.append_column(KEY, pa.array([path.stem] * len(table), KEY.type))

        with ThreadPoolExecutor(AT_ONCE) as pool:
            parts = list(pool.map(part, sorted(path for path in folder.glob("*.parquet") if wanted(path.stem))))
        return pa.concat_tables([schema.append(KEY).empty_table(), *parts])
