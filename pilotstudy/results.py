"""A run's results: the table of its trials, what it says of each arm, and the way in for Python."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, get_args

import pyarrow as pa
import pyarrow.compute as pc

from pilotstudy import tables
from pilotstudy.errors import DataError
from pilotstudy.files import AT_ONCE, Background, RunFiles
from pilotstudy.spec import Objective

if TYPE_CHECKING:
    from pilotstudy.director import Item

METRICS = (
    "accuracy",
    "nll",
    "brier",
    "brier_miscalibration",
    "brier_discrimination",
    "brier_uncertainty",
    "ece",
    "ece_noise_floor",
    "ece_noise_floor_95",
    "adaptive_ece",
    "classwise_ece",
    "mce",
    "aurc",
    "entropy",
    "confidence",
)

OBJECTIVES = get_args(Objective)

EVALUATION = [
    pa.field("at", pa.string()),  # last, best (the epoch with the lowest validation NLL)
    pa.field("mode", pa.string()),  # point, mc
    pa.field("split", pa.string()),  # validation, test
    pa.field("scaled", pa.bool_()),  # after temperature scaling
    pa.field("temperature", pa.float64()),
    pa.field("n", pa.int64()),
    *(pa.field(name, pa.float64()) for name in METRICS),
]

RELIABILITY = [
    pa.field("count", pa.int32()),
    pa.field("confidence", pa.float32()),  # null where a bin is empty
    pa.field("accuracy", pa.float32()),
]

TRIALS = pa.schema(
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
        pa.field("evaluations", pa.list_(pa.struct(EVALUATION))),
        pa.field("reliability", pa.list_(pa.struct(RELIABILITY))),  # of validation, point prediction, last epoch
    ]
)


KEY = pa.field("key", pa.string())
EPOCHS = tables.EPOCHS.append(KEY)


OF_PLACES = ("phase", "arm", "number", "seed", "key", "settings")  # of a trial's place in the plan
OF_RESULTS = ("moves", "error", "epochs", "best_epoch", "training_seconds", "evaluations", "reliability")
SAVE_SECONDS = 2.0  # how often the table of all trials is written, at most


class TrialTable:
    """The table of all trials while a study runs, put together and written in a thread.

    Results are kept as Arrow, 2 kB each in place of 50: those of an earlier start, then what has ended since. An item's
    `row` says which of them is its own; row 0 is empty, for items that have not ended.
    """

    def __init__(self, files: RunFiles, background: Background, earlier: pa.Table):
        self.files, self.background = files, background
        results = earlier.select(OF_RESULTS)
        self._results = pa.concat_tables([pa.Table.from_pylist([columns_of({})], results.schema), results])
        self._count = len(self._results)
        self._fresh: list[dict[str, Any]] = []  # not in it yet
        self._one_at_a_time = threading.Lock()
        self._places = earlier.select(OF_PLACES).slice(0, 0)
        self._writing = False
        self._next = time.monotonic() + SAVE_SECONDS

    def add(self, result: Mapping[str, Any]) -> int:
        """The row of a result."""
        self._fresh.append(columns_of(result))
        self._count += 1
        return self._count - 1

    def absorb(self) -> None:
        """Turns what was added into Arrow."""
        with self._one_at_a_time:
            fresh = self._fresh[:]
            rows = pa.Table.from_pylist(fresh, self._results.schema)
            self._results = pa.concat_tables([self._results, rows]).combine_chunks()
            del self._fresh[: len(fresh)]

    def save_soon(self, items: "Sequence[Item]") -> None:
        """Writes it, in a thread, if it is time: 2 s after it was written last, and 20 times as long as that took."""
        self.background.check()
        if not self._writing and time.monotonic() > self._next:
            self._writing = True
            self.background.after_all(lambda: self._write(items))

    def save(self, items: "Sequence[Item]") -> None:
        """Writes it now, after all else that is to be written."""
        self.background.flush()
        self._write(items)

    def _write(self, items: "Sequence[Item]") -> None:
        started = time.monotonic()
        tables.save(self.files.trials, self._table(items[:]))
        ended = time.monotonic()
        self._next = ended + max(SAVE_SECONDS, 20 * (ended - started))
        self._writing = False

    def _table(self, items: "Sequence[Item]") -> pa.Table:
        self.absorb()
        new = [
            dict(
                zip(
                    OF_PLACES,
                    (i.phase, i.arm, i.number, i.trial.seed, i.key, json.dumps(i.trial.settings)),
                    strict=True,
                )
            )
            for i in items[len(self._places) :]
        ]
        self._places = pa.concat_tables([self._places, pa.Table.from_pylist(new, self._places.schema)]).combine_chunks()
        # Items go on changing while this looks at them: what has ended since counts as running, here.
        rows = [item.row if item.row < len(self._results) else 0 for item in items]
        pairs = zip(items, rows, strict=True)
        now = {
            "status": ["running" if item.ended and not row else item.status for item, row in pairs],
            "reused": [item.reused for item in items],
            "retries": [item.retries for item in items],
        }
        columns = dict(zip(OF_PLACES, self._places.columns, strict=True))
        columns |= dict(zip(OF_RESULTS, self._results.take(pa.array(rows, pa.int64())).columns, strict=True))
        columns |= {name: pa.array(values, TRIALS.field(name).type) for name, values in now.items()}
        return pa.table([columns[name] for name in TRIALS.names], schema=TRIALS)


def columns_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """What the table keeps of a result."""
    found = {name: result.get(name) for name in ("error", "epochs", "best_epoch", "training_seconds")}
    lists = {"evaluations": result.get("evaluations", []), "reliability": result.get("validation_reliability", [])}
    return found | lists | {"moves": result.get("moves", 0)}


def figures_of(trials: pa.Table) -> list[dict[str, float] | None]:
    """`validation_figures` of each row."""
    lists = trials["evaluations"].combine_chunks()
    rows, places = lists.flatten(), pc.list_parent_indices(lists)
    wanted = pc.invert(rows.field("scaled"))
    for name, value in ("at", "last"), ("mode", "point"), ("split", "validation"):
        wanted = pc.and_(wanted, pc.equal(rows.field(name), value))
    figures = zip(*(rows.field(name).filter(wanted).to_pylist() for name in OBJECTIVES), strict=True)
    found: list[dict[str, float] | None] = [None] * len(trials)
    for place, values in zip(places.filter(wanted).to_pylist(), figures, strict=True):
        found[place] = found[place] or dict(zip(OBJECTIVES, values, strict=True))
    return found


def gather_epochs(files: RunFiles, keys: Iterable[str]) -> None:
    """The epochs of trials that will never run again, in one file: thousands of small ones take seconds to read."""
    found = Results(files).epochs
    tables.save(files.all_epochs, found.filter(pc.is_in(found["key"], pa.array(sorted(keys), KEY.type))))


@dataclass(frozen=True)
class Results:
    """A run's tables. `.to_pandas()` on any of them gives a data frame."""

    files: RunFiles

    @property
    def trials(self) -> pa.Table:
        """A row for each place in the plan; two places with the same key are the same trial."""
        if not self.files.trials.exists():
            return TRIALS.empty_table()
        return tables.read(self.files.trials, TRIALS)

    @property
    def evaluations(self) -> pa.Table:
        """A row for each trial, epoch (last, best), mode, split, with and without temperature scaling."""
        rows = []
        for row in self.trials.to_pylist():
            own = {name: row[name] for name in ("phase", "arm", "number", "seed", "key")}
            rows += [own | evaluation for evaluation in row["evaluations"]]
        schema = pa.schema([*(TRIALS.field(name) for name in ("phase", "arm", "number", "seed", "key")), *EVALUATION])
        return pa.Table.from_pylist(rows, schema=schema)

    @property
    def epochs(self) -> pa.Table:
        """A row for each trial (`key`) and epoch."""
        try:
            gathered = tables.read(self.files.all_epochs, EPOCHS)
        except (FileNotFoundError, DataError):  # all of it is in the trials' own files
            gathered = EPOCHS.empty_table()
        known = set(gathered["key"].unique().to_pylist())
        rest = self._parts(self.files.epochs, tables.EPOCHS, lambda key: key not in known)
        return pa.concat_tables([gathered, rest]).sort_by([("key", "ascending"), ("epoch", "ascending")])

    @property
    def predictions(self) -> pa.Table:
        """A row for each trial (`key`), epoch, mode, split and image, with its logits. Large."""
        return self._parts(self.files.predictions, tables.PREDICTIONS)

    @staticmethod
    def _parts(folder: Path, schema: pa.Schema, wanted: Callable[[str], bool] = lambda key: True) -> pa.Table:
        """The small files of a folder, each with its key; several at once, for a store may be far away."""

        def part(path: Path) -> pa.Table:
            table = tables.read(path, schema)
            return table.append_column(KEY, pa.array([path.stem] * len(table), KEY.type))

        with ThreadPoolExecutor(AT_ONCE) as pool:
            parts = list(pool.map(part, sorted(path for path in folder.glob("*.parquet") if wanted(path.stem))))
        return pa.concat_tables([schema.append(KEY).empty_table(), *parts])


def load(run: "str | Path") -> Results:
    """The results of a run, by the path of its folder or its name in ./runs."""
    from pilotstudy.runs import Run

    return Results(Run.find(str(run), Path("runs")).files)


def summary(results: Results) -> list[dict[str, Any]]:
    """A row for each arm, mode, phase and epoch: test figures, mean and sample deviation over seeds."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in results.evaluations.to_pylist():
        if row["split"] == "test" and not row["scaled"] and row["phase"] != "search":
            groups.setdefault((row["arm"], row["mode"], row["phase"], row["at"]), []).append(row)
    found = []
    for (arm, mode, phase, at), rows in groups.items():
        line: dict[str, Any] = {"arm": arm, "mode": mode, "phase": phase, "at": at, "seeds": len(rows)}
        for name in METRICS:
            line |= spread(name, [row[name] for row in rows])
        found.append(line)
    return found


def validation_figures(evaluations: Iterable[dict[str, Any]]) -> dict[str, float] | None:
    """What a search may see of a trial: validation figures of the point prediction at the last epoch."""
    for row in evaluations:
        if (row["at"], row["mode"], row["split"], row["scaled"]) == ("last", "point", "validation", False):
            return {name: row[name] for name in OBJECTIVES}
    return None


def spread(name: str, values: Sequence[float]) -> dict[str, float | None]:
    """Mean and sample deviation (with n − 1), which one seed does not have."""
    return {name: fmean(values), f"{name}_sd": stdev(values) if len(values) > 1 else None}


def optimism(trials: Iterable[Mapping[str, Any]], objective: str = "nll") -> list[dict[str, Any]]:
    """For each searched arm: its best validation figure, that of the same settings on fresh seeds, and the gap."""
    by_arm: dict[str, dict[str, list[float]]] = {}
    for row in trials:
        figures = validation_figures(row["evaluations"])
        if figures:
            by_arm.setdefault(row["arm"], {}).setdefault(row["phase"], []).append(figures[objective])
    best = max if objective == "accuracy" else min
    return [
        {
            "arm": arm,
            "objective": objective,
            "search": best(phases["search"]),
            "confirmed": fmean(phases["confirm"]),
            "optimism": fmean(phases["confirm"]) - best(phases["search"]),
        }
        for arm, phases in by_arm.items()
        if "search" in phases and "confirm" in phases
    ]
