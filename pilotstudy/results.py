"""A run's results: the table of its trials, what it says of each arm, and the way in for Python."""

import json
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
from pilotstudy.files import RunFiles
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


class TrialTable:
    """The table of all trials while a study runs. What has ended is kept as Arrow: 2 kB a trial, not 50."""

    def __init__(self, files: RunFiles):
        self.files = files
        self._ended = TRIALS.empty_table()
        self._places: dict[str, int] = {}  # of items in it

    def save(self, items: "Sequence[Item]") -> None:
        known = [item for item in items if item.name not in self._places and item.ended]
        self._ended = pa.concat_tables([self._ended, rows_of(known)]).combine_chunks()
        for item in known:
            self._places[item.name] = len(self._places)
            item.slim()
        others = [item for item in items if item.name not in self._places]
        places = self._places | {item.name: len(self._places) + n for n, item in enumerate(others)}
        table = pa.concat_tables([self._ended, rows_of(others)])
        tables.save(self.files.trials, table.take(pa.array([places[item.name] for item in items], pa.int64())))


def rows_of(items: "Iterable[Item]") -> pa.Table:
    rows = [
        {
            "phase": item.phase,
            "arm": item.arm,
            "number": item.number,
            "seed": item.trial.seed,
            "key": item.key,
            "status": item.status,
            "reused": item.reused,
            "retries": item.retries + item.result.get("restarts", 0),
            "moves": item.result.get("moves", 0),
            "settings": json.dumps(item.trial.settings),
            **{name: item.result.get(name) for name in ("error", "epochs", "best_epoch", "training_seconds")},
            "evaluations": item.result.get("evaluations", []),
            "reliability": item.result.get("validation_reliability", []),
        }
        for item in items
    ]
    return pa.Table.from_pylist(rows, schema=TRIALS)


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

        with ThreadPoolExecutor(8) as pool:
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
