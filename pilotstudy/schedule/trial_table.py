"""The table of all trials while a study runs, put together and written in a thread."""

import json
import threading
import time
from collections.abc import Sequence

import pyarrow as pa

from pilotstudy.runs import schemas
from pilotstudy.runs.layout import RunFiles
from pilotstudy.runs.records import Status, TrialResult
from pilotstudy.runs.schemas import trials_schema
from pilotstudy.schedule.item import Item
from pilotstudy.storage import Background

OF_PLACES = ("phase", "arm", "number", "seed", "key", "settings")  # of a trial's place in the plan
SAVE_SECONDS = 2.0  # how often the table of all trials is written, at most

# The columns of a trial's result, here of one that has not ended.
NO_RESULT: dict[str, object] = {
    "moves": 0,
    "error": None,
    "epochs": None,
    "best_epoch": None,
    "training_seconds": None,
    "torch": None,
    "device": None,
    "tests": None,
    "evaluations": [],
    "reliability": [],
}
OF_RESULTS = tuple(NO_RESULT)


class TrialTable:
    """The table of all trials while a study runs, put together and written in a thread.

    It keeps its own copy of the results, as Arrow, 2 kB each in place of 50: those of an earlier start, then what has
    ended since. An item's `row` says which of them is its own; row 0 is empty, for items that have not ended. Items and
    results are only read.
    """

    def __init__(self, files: RunFiles, background: Background, earlier: pa.Table):
        self.files, self.background = files, background
        results = earlier.select(OF_RESULTS)
        self._results = pa.concat_tables([pa.Table.from_pylist([NO_RESULT], results.schema), results])
        self._count = len(self._results)
        self._fresh: list[dict[str, object]] = []  # not in it yet
        self._one_at_a_time = threading.Lock()
        self._places = earlier.select(OF_PLACES).slice(0, 0)
        self._writing = False
        self._next = time.monotonic() + SAVE_SECONDS
        self._written = 0, 0

    def add(self, result: TrialResult) -> int:
        """The row of a result."""
        self._fresh.append(result.columns())
        self._count += 1
        return self._count - 1

    def absorb(self) -> None:
        """Turns what was added into Arrow."""
        with self._one_at_a_time:
            fresh = self._fresh[:]
            rows = pa.Table.from_pylist(fresh, self._results.schema)
            self._results = pa.concat_tables([self._results, rows]).combine_chunks()
            del self._fresh[: len(fresh)]

    def save_soon(self, items: Sequence[Item]) -> None:
        """Writes it, in a thread, if there is something new and it is time: 2 s after it was written last, and 20 times
        as long as that took.
        """
        self.background.check()
        if not self._writing and time.monotonic() > self._next and self._written != (len(items), self._count):
            self._writing = True
            self.background.after_all(lambda: self._write(items))

    def save(self, items: Sequence[Item]) -> None:
        """Writes it now, after all else that is to be written."""
        self.background.flush()
        self._write(items)

    def _write(self, items: Sequence[Item]) -> None:
        started, self._written = time.monotonic(), (len(items), self._count)
        schemas.save(self.files.trials, self._table(items[:]))
        ended = time.monotonic()
        self._next = ended + max(SAVE_SECONDS, 20 * (ended - started))
        self._writing = False

    def _table(self, items: Sequence[Item]) -> pa.Table:
        self.absorb()
        places = [place_columns(item) for item in items[len(self._places) :]]
        new = pa.Table.from_pylist(places, self._places.schema)
        self._places = pa.concat_tables([self._places, new]).combine_chunks()
        # Items go on changing while this looks at them: what has ended since counts as running, here.
        rows = [item.row if item.row < len(self._results) else 0 for item in items]
        statuses = [item.status for item in items]
        now: dict[str, list[Status] | list[bool] | list[int]] = {
            "status": [
                Status.RUNNING if status.ended and not row else status
                for status, row in zip(statuses, rows, strict=True)
            ],
            "reused": [item.reused for item in items],
            "retries": [item.retries for item in items],
        }
        columns = dict(zip(OF_PLACES, self._places.columns, strict=True))
        columns |= dict(zip(OF_RESULTS, self._results.take(pa.array(rows, pa.int64())).columns, strict=True))
        schema = trials_schema()
        columns |= {name: pa.array(values, schema.field(name).type) for name, values in now.items()}
        return pa.table([columns[name] for name in schema.names], schema=schema)


def place_columns(item: Item) -> dict[str, object]:
    """What the table keeps of a place in the plan."""
    own = item.phase, item.arm, item.number, item.trial.seed, item.key, json.dumps(dict(item.settings))
    return dict(zip(OF_PLACES, own, strict=True))
