"""What an earlier start of a run has left: listed once, read from its table, the rest many files at a time."""

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pilotstudy import tables
from pilotstudy.errors import DataError
from pilotstudy.files import AT_ONCE, RunFiles, names
from pilotstudy.results import TRIALS
from pilotstudy.runs import Run

# Final: the same settings would give the same again. What failed is tried anew when a run is resumed.
FINAL = ("finished", "diverged", "stopped")


class Earlier:
    def __init__(self, run: Run):
        self.run = run
        self._table = self._read()
        self._unread = {name.removesuffix(".json") for name in names(run.files.results)}  # keys of results

    def _read(self) -> pa.Table:
        """The table of trials; an empty one where it is damaged or of another version: their results are there too."""
        try:
            return tables.read(self.run.files.trials).select(TRIALS.names).cast(TRIALS)
        except (FileNotFoundError, DataError, KeyError, ValueError, pa.ArrowException):
            return TRIALS.empty_table()

    def proposals(self, arms: Iterable[str], most: int) -> dict[tuple[str, int], dict[str, Any]]:
        """By arm and number, the settings that were proposed; of an arm, those before the first that is missing."""
        listed = names(self.run.files.proposals)
        searched = self._table.filter(pc.equal(self._table["phase"], "search"))
        columns = (searched[name].to_pylist() for name in ("arm", "number", "settings"))
        known = {(arm, number): settings for arm, number, settings in zip(*columns, strict=True)}

        def there(place: tuple[str, int]) -> bool:
            return RunFiles.proposal_name(*place) in listed

        def settings(place: tuple[str, int]) -> dict[str, Any] | None:
            return json.loads(known[place]) if place in known else self.run.proposal(*place)

        found: dict[tuple[str, int], dict[str, Any]] = {}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for arm in arms:
                places = list(takewhile(there, ((arm, number) for number in range(most))))
                for place, proposed in zip(places, pool.map(settings, places), strict=True):
                    if proposed is None:
                        break
                    found[place] = proposed
        return found

    def final(self) -> pa.Table:
        """The rows of trials that need not run again, each key once. Their results count as read."""
        listed = pc.is_in(self._table["key"], pa.array(list(self._unread), pa.string()))
        rows = self._table.filter(pc.and_(listed, pc.is_in(self._table["status"], pa.array(FINAL))))
        first = {key: place for place, key in reversed(list(enumerate(rows["key"].to_pylist())))}
        self._unread.difference_update(first)
        self._table = None  # may be large
        return rows.take(pa.array(sorted(first.values()), pa.int64()))

    def results(self, keys: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The final results among those not read yet. What was not listed is not asked for."""
        wanted = [key for key in dict.fromkeys(keys) if key in self._unread]
        if not wanted:
            return
        self._unread.difference_update(wanted)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for start in range(0, len(wanted), 8 * AT_ONCE):  # not all at once: they are large
                some = wanted[start : start + 8 * AT_ONCE]
                for key, result in zip(some, pool.map(self.run.result, some), strict=True):
                    if result is not None and result["status"] in FINAL:
                        yield key, result
