"""Decides what runs next: every arm at its fixed settings, then the search, then the confirmation of its best.

It knows nothing of Ray: it hands out items and is told what became of their trials. Nor does it ever wait for a store
far away, except at the start.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Literal

import pyarrow as pa

from pilotstudy import __version__
from pilotstudy.arms.arm import Setting
from pilotstudy.errors import RunLockedError
from pilotstudy.runs.folder import Run
from pilotstudy.runs.records import Place, Proposal, Status, TrialResult, validation_figures
from pilotstudy.runs.results import figures_of, tested_of
from pilotstudy.schedule.earlier import EarlierResults, Proposed, earlier_proposals, earlier_table, final_rows
from pilotstudy.schedule.item import Ending, Item
from pilotstudy.schedule.search import ArmSearch
from pilotstudy.schedule.trial_table import TrialTable
from pilotstudy.storage import Background
from pilotstudy.study.budget import PHASES, Budget, Phase, confirm_seeds, counts, trial_with
from pilotstudy.study.looks import Looks
from pilotstudy.study.shares import Shares
from pilotstudy.study.space import space_of, start_of
from pilotstudy.study.spec import Study


class Director:
    """The plan of a study, and how far it has come."""

    def __init__(
        self,
        study: Study,
        run: Run,
        fingerprint: str,
        looks: Looks | None = None,
        tests: Mapping[str, str] | None = None,
    ):
        self.study, self.run, self.fingerprint, self.looks = study, run, fingerprint, looks
        self.tests = tests or {}  # the study's further test sets: their fingerprints
        self.budget = Budget.of(study, looks)
        self.counts = counts(study, looks)
        self.items: list[Item] = []
        self.running: dict[str, Item] = {}  # by key: the item whose trial is under way
        self._followers: dict[str, list[Item]] = {}  # by key: other items that the same trial will serve
        self.tally: dict[Phase, Counter[Status]] = {phase: Counter() for phase in PHASES}  # how many have each status
        self.done = 0  # items that have ended
        self._best: dict[str, Item] = {}
        self._ended_now: set[str] = set()  # keys of trials that ran in this start
        self.total = sum(self.counts.values())
        search = study.search
        self.searched = self.counts["search"]  # how many trials the search has
        self.searches: dict[str, ArmSearch] = {}
        if search and self.searched:
            self.searches = {
                arm: ArmSearch(arm, space_of(study, arm), start_of(study, arm), search) for arm in search.arms
            }
        self._shares = Shares(self.searches)
        self._upcoming = self._plan()
        self._held: Item | Literal["wait", "done"] | None = None  # asked for by `all_done`, not yet handed out
        self.background = Background()
        self._earlier = EarlierResults(run)
        table = earlier_table(run)
        final = final_rows(table, self._earlier.unread)
        self._table = TrialTable(run.files, self.background, final)
        self._endings = endings_of(final)  # by key, of all trials that need not run again
        self._earlier.unread.difference_update(self._endings)
        self._recall(earlier_proposals(run, table, self.searches, self._most_each()))

    def _item(self, phase: Phase, arm: str, number: int, settings: Mapping[str, Setting], seed: int) -> Item:
        trial = trial_with(self.study, arm, settings, seed)
        return Item(phase, arm, number, settings, trial, self.run.key(trial, self.fingerprint))

    def _placed(self, item: Item) -> Item:
        item.index = len(self.items)
        self.items.append(item)
        self.tally[item.phase][item.status] += 1
        if item.phase == "search":
            self._shares.propose(item.arm)
        return item

    def _becomes(self, item: Item, status: Status) -> None:
        self.tally[item.phase][item.status] -= 1
        self.tally[item.phase][status] += 1
        item.status = status

    def _recall(self, proposals: Proposed) -> None:
        """Takes up the proposals of an earlier start, in the order in which they were made."""
        self._recalled: dict[tuple[str, int], Item] = {}
        first = set(sorted(proposals, key=lambda place: place[1])[: self.searched])
        for arm, number in (place for place in proposals if place in first):
            settings = {**self.searches[arm].start, **proposals[arm, number]}  # 0.1.0 had fewer
            self.searches[arm].recall(settings)
            item = self._item("search", arm, number, settings, self.study.seeds[0])
            self._recalled[arm, number] = self._placed(item)
        self._learn_endings(self._recalled.values())
        for item in self._recalled.values():
            self._settle(item)

    def _plan(self) -> Iterator[Item | None]:
        """Items in order; None while what comes next depends on trials that are under way."""
        fixed = [
            self._item("arms", arm, number, self.study.settings(arm), seed)
            for arm in self.study.arms
            for number, seed in enumerate(self.study.seeds[: self.budget.trials_of(arm)["arms"]])
        ]
        self._learn_endings(fixed)
        yield from map(self._placed, fixed)
        yield from self._searching()
        while self.tally["search"][Status.WAITING] or self.tally["search"][Status.RUNNING]:
            yield None
        confirming = self._confirming()
        self._learn_endings(confirming)
        yield from map(self._placed, confirming)

    def _most_each(self) -> int:
        """How many trials of the search one arm can have."""
        if not self.searches:
            return 0
        return self.searched if self._by_seconds else self.searched // len(self.searches)

    @property
    def _by_seconds(self) -> bool:
        return self.study.search is not None and self.study.search.budget == "seconds"

    def _searching(self) -> Iterator[Item]:
        """The trials of the search: of the arms in turn, or always of the one that has used the least seconds."""
        if self._by_seconds:
            yield from list(self._recalled.values())
            for _ in range(self.searched - len(self._recalled)):
                arm = self._shares.next()
                yield self._proposed(arm, self.searches[arm].proposed, self.searches[arm])
            return
        for number in range(self._most_each()):
            for arm, search in self.searches.items():
                yield self._recalled.get((arm, number)) or self._proposed(arm, number, search)

    def _proposed(self, arm: str, number: int, search: ArmSearch) -> Item:
        settings = search.propose()
        self.background.submit(self.run.files.proposal(arm, number), Proposal(settings).to_json())
        return self._placed(self._item("search", arm, number, settings, self.study.seeds[0]))

    def _confirming(self) -> list[Item]:
        """The best settings of each search, with fresh seeds."""
        best = {(arm, search.best()) for arm, search in self.searches.items()}
        winners = {item.arm: item for item in self.items if item.phase == "search" and (item.arm, item.number) in best}
        return [
            self._item("confirm", arm, number, winners[arm].settings, seed)
            for arm in self.searches
            if arm in winners
            for number, seed in enumerate(confirm_seeds(self.study)[: self.budget.trials_of(arm)["confirm"]])
        ]

    def all_done(self) -> bool:
        """Whether earlier trials have answered everything, so that nothing has to run."""
        if self._held is None:
            self._held = self.next()
        return self._held == "done"

    def next(self) -> Item | Literal["wait", "done"]:
        """An item to run, or whether to wait for those under way, or that all is done."""
        self._check()
        if self._held is not None:
            held, self._held = self._held, None
            return held
        for item in self._upcoming:
            if item is None:
                return "wait"
            if item.status is not Status.WAITING or self._settle(item):
                continue
            self._becomes(item, Status.RUNNING)
            if item.key in self.running:  # the same trial is under way for another item: it will serve both
                self._followers.setdefault(item.key, []).append(item)
                continue
            self.running[item.key] = item
            return item
        return "wait" if self.running else "done"

    def _check(self) -> None:
        """Raises what went wrong in the background: a file that could not be written, another driver on the run."""
        self.background.check()
        if lost := self.run.lost:
            raise RunLockedError(lost)

    def _learn_endings(self, items: Iterable[Item]) -> None:
        """Reads earlier results of these items, where there are any that are not known yet."""
        for n, (key, result) in enumerate(self._earlier.read(item.key for item in items), 1):
            self._endings[key] = self._ending(result)
            if not n % 100:
                self._table.absorb()

    def _settle(self, item: Item) -> bool:
        """Takes the result of an earlier trial with the same key, if there is one."""
        if item.key not in self._endings:
            self._learn_endings([item])
        ending = self._endings.get(item.key)
        if ending is None or not ending.serves(item, self.tests):
            return False
        item.reused = True
        self._conclude(item, ending)
        return True

    def number_without_tests(self) -> int:
        """How many finished trials are to be trained again, because they lack a test set of the study."""
        tested = (ending for ending in self._endings.values() if ending.tested)
        return sum(not self.tests.items() <= ending.tests.items() for ending in tested)

    # ---- what the engine tells ----

    def conclude(self, key: str, result: TrialResult) -> None:
        """Told when a trial has ended: finished, diverged, stopped (early) or failed."""
        self._check()
        first = self.running.pop(key, None)
        if first is None:
            return
        self._ended_now.add(key)
        ending = self._ending(result, first.retries)
        if ending.status.final:
            self._endings[key] = ending
        for item in (first, *self._followers.pop(key, ())):
            item.reused = item is not first
            self._conclude(item, ending)

    def retried(self, key: str) -> None:
        """Told when a trial starts again through no fault of its own: the node's, or too small a share of a GPU."""
        self.running[key].retries += 1

    def stopped_early(self, key: str, epochs: int, seconds: float | None) -> None:
        """Told when a trial of the search was stopped. Nobody finishes it, so its result is written here."""
        self._give_up(key, replace(self._unfinished(key, Status.STOPPED), epochs=epochs, training_seconds=seconds))

    def failed(self, key: str, error: str, traceback: str | None = None, place: Place | None = None) -> None:
        """Told when a trial failed. Its result is written here."""
        where = place._asdict() if place else {}
        failed = replace(self._unfinished(key, Status.FAILED), error=error, traceback=traceback, **where)
        self._give_up(key, failed)

    def _unfinished(self, key: str, status: Status) -> TrialResult:
        trial = self.running[key].trial
        return TrialResult(version=__version__, trial=trial, fingerprint=self.fingerprint, status=status)

    def _give_up(self, key: str, result: TrialResult) -> None:
        """Writes the result of a trial that did not reach its end, and removes what it would have gone on from."""
        files = self.run.files.trial(key)
        self.background.submit(files.result, result.to_json() + "\n")
        self.background.remove(files.checkpoint)
        self.background.remove(files.starts)
        self.conclude(key, result)

    def _ending(self, result: TrialResult, retries: int = 0) -> Ending:
        figures = validation_figures(result.evaluations)
        row = self._table.add(result)
        return Ending(
            status=result.status,
            figures=figures,
            retries=retries + result.restarts,
            moves=result.moves,
            error=result.error,
            row=row,
            tested=result.has_test,
            tests=result.tests,
            seconds=result.training_seconds,
        )

    def _conclude(self, item: Item, ending: Ending) -> None:
        self._becomes(item, ending.status)
        item.figures, item.error, item.row = ending.figures, ending.error, ending.row
        item.retries, item.moves = ending.retries, ending.moves
        self.done += 1
        best = self._best.get(item.arm)
        if item.figures and (best is None or _rank(item) < _rank(best)):
            self._best[item.arm] = item
        if item.phase == "search":
            self._shares.end(item.arm, ending.seconds)
            figures = item.figures if item.status is Status.FINISHED else None
            self.searches[item.arm].learn(item.number, figures, stopped_early=item.status is Status.STOPPED)

    def best(self, arm: str) -> Item | None:
        """The item with the lowest validation NLL of an arm so far, for the screen."""
        return self._best.get(arm)

    def number_from_earlier(self) -> int:
        """How many items were served by trials of earlier starts."""
        return sum(item.reused and item.key not in self._ended_now for item in self.items)

    def save_soon(self) -> None:
        """Writes the table of all trials in the background, every few seconds however often this is called."""
        if not self.run.lost:
            self._table.save_soon(self.items)

    def save(self) -> None:
        """Writes the table of all trials, and waits until everything is written. Not if the run is another's now."""
        if not self.run.lost:
            self._table.save(self.items)


def endings_of(final: pa.Table) -> dict[str, Ending]:
    """By key how earlier trials ended, from the rows of their table; its rows follow the empty one in the new table."""
    columns = (final[name].to_pylist() for name in ("key", "status", "retries", "moves", "training_seconds", "tests"))
    rows = enumerate(zip(*columns, figures_of(final), tested_of(final), strict=True), 1)
    return {
        key: Ending(Status(status), figures, retries, moves or 0, None, row, tested, json.loads(tests or "{}"), seconds)
        for row, (key, status, retries, moves, seconds, tests, figures, tested) in rows
    }


def _rank(item: Item) -> tuple[float, int]:
    assert item.figures
    return item.figures["nll"], item.index
