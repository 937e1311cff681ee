"""What an earlier start of a run has left: listed once, read from its table, the rest many files at a time."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile

import pyarrow as pa
import pyarrow.compute as pc

from pilotstudy.arms.arm import Setting
from pilotstudy.errors import DataError
from pilotstudy.runs import schemas
from pilotstudy.runs.filling import filled
from pilotstudy.runs.folder import Run
from pilotstudy.runs.layout import RunFiles
from pilotstudy.runs.records import FINAL, TrialResult
from pilotstudy.runs.results import tested_of
from pilotstudy.runs.schemas import trials_schema
from pilotstudy.storage import AT_ONCE, names

# Columns that a table of an earlier version lacks. One without another is of no use: its trials' results know more.
LATER = ("torch", "device", "tests")

Proposed = dict[tuple[str, int], Mapping[str, Setting]]  # settings by arm and number


def earlier_table(run: Run) -> pa.Table:
    """The table of trials; an empty one where it is damaged or has other columns: the results are files, too."""
    try:
        schema = trials_schema()
        required = [name for name in schema.names if name not in LATER]
        return filled(schemas.read(run.files.trials, schema, required=required), run.files)
    except (FileNotFoundError, DataError, KeyError, ValueError, pa.ArrowException):
        return trials_schema().empty_table()


def earlier_proposals(run: Run, table: pa.Table, arms: Iterable[str], most: int) -> Proposed:
    """What was proposed; of each arm, at most so many, and those before the first that is missing."""
    listed = names(run.files.proposals)
    searched = table.filter(pc.equal(table["phase"], "search"))
    columns = (searched[name].to_pylist() for name in ("arm", "number", "settings"))
    in_table = {(arm, number): settings for arm, number, settings in zip(*columns, strict=True)}

    def is_listed(place: tuple[str, int]) -> bool:
        return RunFiles.proposal_name(*place) in listed

    def settings_of(place: tuple[str, int]) -> Mapping[str, Setting] | None:
        return json.loads(in_table[place]) if place in in_table else run.proposal(*place)

    proposed: Proposed = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for arm in arms:
            places = list(takewhile(is_listed, ((arm, number) for number in range(most))))
            for place, settings in zip(places, pool.map(settings_of, places), strict=True):
                if settings is None:
                    break
                proposed[place] = settings
    return proposed


def final_rows(table: pa.Table, keys: Collection[str]) -> pa.Table:
    """The rows of trials that need not run again, each key once, of those whose result is still there.

    Of several with one key that with test figures, and the most test sets: a trial may have run again for them.
    """
    there = pc.is_in(table["key"], pa.array(list(keys), pa.string()))
    rows = table.filter(pc.and_(there, pc.is_in(table["status"], pa.array([str(status) for status in FINAL]))))
    all_keys = rows["key"].to_pylist()
    tests = (len(json.loads(each or "{}")) for each in rows["tests"].to_pylist())
    known = list(zip(tested_of(rows), tests, strict=True))
    first = {all_keys[place]: place for place in sorted(range(len(rows)), key=lambda place: (known[place], -place))}
    return rows.take(pa.array(sorted(first.values()), pa.int64()))


class EarlierResults:
    """Final results of earlier starts, by key. Each is read once, and what was not listed is not asked for."""

    def __init__(self, run: Run):
        self.run = run
        self.unread = {name.removesuffix(".json") for name in names(run.files.results)}  # keys

    def read(self, keys: Iterable[str]) -> Iterator[tuple[str, TrialResult]]:
        """Those among the keys that are final and not read yet."""
        wanted = [key for key in dict.fromkeys(keys) if key in self.unread]
        if not wanted:
            return
        self.unread.difference_update(wanted)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for start in range(0, len(wanted), 8 * AT_ONCE):  # not all at once: they are large
                block = wanted[start : start + 8 * AT_ONCE]
                for key, result in zip(block, pool.map(self.run.result, block), strict=True):
                    if result is not None and result.status.final:
                        yield key, result
