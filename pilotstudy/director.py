"""Decides what runs next: every arm at its fixed settings, then the search, then the confirmation of its best.

It knows nothing of Ray: it hands out items and is told what became of them. Nor does it ever wait for a store far away,
but at the start.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from pilotstudy import arms
from pilotstudy.earlier import FINAL as FINAL
from pilotstudy.earlier import Earlier
from pilotstudy.errors import RunLockedError
from pilotstudy.files import Background
from pilotstudy.results import TrialTable, figures_of, validation_figures
from pilotstudy.runs import Run
from pilotstudy.search import ArmSearch
from pilotstudy.spec import Study, Trial, trial

Phase = Literal["arms", "search", "confirm"]
PHASES: tuple[Phase, ...] = ("arms", "search", "confirm")


@dataclass(slots=True)
class Item:
    """One place in the plan. Two items with the same key are the same trial, which runs once."""

    phase: Phase
    arm: str
    number: int
    trial: Trial
    key: str
    status: str = "waiting"
    reused: bool = False
    retries: int = 0
    result: dict[str, Any] = field(default_factory=dict)  # of it just the error, and how often it moved
    figures: dict[str, float] | None = None  # what the search may see of it
    row: int = 0  # of its result in the table of all trials
    place: int = -1  # among all items

    @property
    def name(self) -> str:
        return f"{self.phase} {self.arm} {self.number}"

    @property
    def ended(self) -> bool:
        return self.status not in ("waiting", "running")


class Ending(NamedTuple):
    """How a trial ended; all else of its result is a row of the table."""

    status: str
    figures: dict[str, float] | None
    retries: int
    result: dict[str, Any]
    row: int


def with_settings(study: Study, arm: str, settings: dict[str, Any], seed: int) -> Trial:
    return trial(study.model_copy(update={"arms": study.arms | {arm: settings}}), arm, seed)


def confirm_seeds(study: Study) -> list[int]:
    """Seeds that neither the arms nor the search have used."""
    first = max(study.seeds) + 1
    return list(range(first, first + (study.search.confirm_seeds if study.search else 0)))


def counts(study: Study) -> dict[Phase, int]:
    """How many trials each phase has."""
    searched = study.search.arms if study.search and study.search.trials else ()
    each = study.search.trials // len(searched) if study.search and searched else 0
    confirm = len(confirm_seeds(study)) * len(searched) if each else 0
    return {"arms": len(study.arms) * len(study.seeds), "search": each * len(searched), "confirm": confirm}


class Director:
    def __init__(self, study: Study, run: Run, fingerprint: str):
        self.study, self.run, self.fingerprint = study, run, fingerprint
        self.items: list[Item] = []
        self.running: dict[str, Item] = {}  # by key: the item whose trial is under way
        self._followers: dict[str, list[Item]] = {}  # by key: other items that the same trial will serve
        self.tally: dict[Phase, Counter[str]] = {phase: Counter() for phase in PHASES}  # how many have each status
        self.done = 0  # items that have ended
        self._best: dict[str, Item] = {}
        self.total = sum(counts(study).values())
        search = study.search
        self.each = counts(study)["search"] // len(search.arms) if search else 0
        self.searches: dict[str, ArmSearch] = {}
        if search and self.each:
            self.searches = {arm: ArmSearch(arm, arms.get(arm).space, study.arms[arm], search) for arm in search.arms}
        self._upcoming = self._plan()
        self._held: Item | Literal["wait", "done"] | None = None  # asked for by `all_done`, not yet handed out
        self.background = Background()
        self._earlier = Earlier(run)
        proposals = self._earlier.proposals(self.searches, self.each)
        final = self._earlier.final()
        self._table = TrialTable(run.files, self.background, final)
        self._endings: dict[str, Ending] = {}  # by key, of all that is final
        columns = (final[name].to_pylist() for name in ("key", "status", "retries", "moves"))
        for row, (key, status, retries, moves, figures) in enumerate(zip(*columns, figures_of(final), strict=True), 1):
            self._endings[key] = Ending(status, figures, retries, {"moves": moves} if moves else {}, row)
        self._recall(proposals)

    def _item(self, phase: Phase, arm: str, number: int, trial: Trial) -> Item:
        return Item(phase, arm, number, trial, self.run.key(trial, self.fingerprint))

    def _placed(self, item: Item) -> Item:
        item.place = len(self.items)
        self.items.append(item)
        self.tally[item.phase][item.status] += 1
        return item

    def _becomes(self, item: Item, status: str) -> None:
        self.tally[item.phase][item.status] -= 1
        self.tally[item.phase][status] += 1
        item.status = status

    def _recall(self, proposals: dict[tuple[str, int], dict[str, Any]]) -> None:
        """Takes up the proposals of an earlier start, in the order in which they were made."""
        self._recalled: dict[tuple[str, int], Item] = {}
        for (arm, number), settings in proposals.items():
            self.searches[arm].recall(settings)
            item = self._item("search", arm, number, with_settings(self.study, arm, settings, self.study.seeds[0]))
            self._recalled[arm, number] = self._placed(item)
        self._learn_endings(self._recalled.values())
        for item in self._recalled.values():
            self._settle(item)

    def _plan(self) -> Iterator[Item | None]:
        """Items in order; None while what comes next depends on trials that are under way."""
        fixed = [
            self._item("arms", arm, number, trial(self.study, arm, seed))
            for arm in self.study.arms
            for number, seed in enumerate(self.study.seeds)
        ]
        self._learn_endings(fixed)
        yield from map(self._placed, fixed)
        for number in range(self.each):
            for arm, search in self.searches.items():
                item = self._recalled.get((arm, number))
                if item is None:
                    settings = search.propose()
                    self.background.submit(self.run.files.proposal(arm, number), json.dumps(settings))
                    seeded = with_settings(self.study, arm, settings, self.study.seeds[0])
                    item = self._placed(self._item("search", arm, number, seeded))
                yield item
        while self.tally["search"]["waiting"] or self.tally["search"]["running"]:
            yield None
        best = {(arm, search.best()) for arm, search in self.searches.items()}
        winners = {item.arm: item for item in self.items if item.phase == "search" and (item.arm, item.number) in best}
        confirming = [
            self._item("confirm", arm, number, with_settings(self.study, arm, winners[arm].trial.settings, seed))
            for arm in self.searches
            if arm in winners
            for number, seed in enumerate(confirm_seeds(self.study))
        ]
        self._learn_endings(confirming)
        yield from map(self._placed, confirming)

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
            if item.status != "waiting" or self._settle(item):
                continue
            self._becomes(item, "running")
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
        for n, (key, result) in enumerate(self._earlier.results(item.key for item in items), 1):
            self._endings[key] = self._ending(result)
            if not n % 100:
                self._table.absorb()

    def _settle(self, item: Item) -> bool:
        """Takes the result of an earlier trial with the same key, if there is one."""
        if item.key not in self._endings:
            self._learn_endings([item])
        ending = self._endings.get(item.key)
        if ending is None:
            return False
        item.reused = True
        self._conclude(item, ending)
        return True

    def conclude(self, key: str, result: dict[str, Any], retries: int = 0) -> None:
        """Told when a trial has ended: finished, diverged, stopped (early) or failed."""
        self._check()
        first = self.running.pop(key, None)
        if first is None:
            return
        ending = self._ending(result, retries)
        if ending.status in FINAL:
            self._endings[key] = ending
        for item in (first, *self._followers.pop(key, ())):
            item.reused = item is not first
            self._conclude(item, ending)

    def _ending(self, result: dict[str, Any], retries: int = 0) -> Ending:
        figures = validation_figures(result.get("evaluations", []))
        kept: dict[str, Any] = {name: result[name] for name in ("error", "moves") if name in result}
        return Ending(result["status"], figures, retries + result.get("restarts", 0), kept, self._table.add(result))

    def _conclude(self, item: Item, ending: Ending) -> None:
        self._becomes(item, ending.status)
        _, item.figures, item.retries, item.result, item.row = ending
        self.done += 1
        best = self._best.get(item.arm)
        if item.figures and (best is None or _rank(item) < _rank(best)):
            self._best[item.arm] = item
        if item.phase == "search":
            stopped = item.status == "stopped"
            figures = item.figures if item.status == "finished" else None
            self.searches[item.arm].learn(item.number, figures, stopped_early=stopped)

    def best(self, arm: str) -> Item | None:
        """The item with the lowest validation NLL of an arm so far, for the screen."""
        return self._best.get(arm)

    def save_soon(self) -> None:
        """Writes the table of all trials in the background, every few seconds however often this is called."""
        if not self.run.lost:
            self._table.save_soon(self.items)

    def save(self) -> None:
        """Writes the table of all trials, and waits until everything is written. Not if the run is another's now."""
        if not self.run.lost:
            self._table.save(self.items)


def _rank(item: Item) -> tuple[float, int]:
    assert item.figures
    return item.figures["nll"], item.place
