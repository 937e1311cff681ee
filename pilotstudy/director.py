"""Decides what runs next: every arm at its fixed settings, then the search, then the confirmation of its best.

It knows nothing of Ray: it hands out items and is told what became of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from pilotstudy import arms
from pilotstudy.results import TrialTable, validation_figures
from pilotstudy.runs import Run
from pilotstudy.search import ArmSearch
from pilotstudy.spec import Study, Trial, trial

Phase = Literal["arms", "search", "confirm"]
PHASES: tuple[Phase, ...] = ("arms", "search", "confirm")
# Final: the same settings would give the same again. What failed is tried anew when a run is resumed.
FINAL = ("finished", "diverged", "stopped")


@dataclass
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
    result: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, float] | None = None  # what the search may see of it

    @property
    def name(self) -> str:
        return f"{self.phase} {self.arm} {self.number}"

    @property
    def ended(self) -> bool:
        return self.status not in ("waiting", "running")

    def slim(self) -> None:
        """Leaves of the result what is asked for later: there may be thousands."""
        self.result = {name: value for name, value in self.result.items() if name in ("error", "moves")}


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
        self._table = TrialTable(run.files)
        self.items: list[Item] = []
        self.running: dict[str, Item] = {}  # by key: the item whose trial is under way
        self.total = sum(counts(study).values())
        search = study.search
        self.each = counts(study)["search"] // len(search.arms) if search else 0
        self.searches: dict[str, ArmSearch] = {}
        if search and self.each:
            self.searches = {arm: ArmSearch(arm, arms.get(arm).space, study.arms[arm], search) for arm in search.arms}
        self._upcoming = self._plan()
        self._held: Item | Literal["wait", "done"] | None = None  # asked for by `all_done`, not yet handed out
        self._recall()

    def _item(self, phase: Phase, arm: str, number: int, trial: Trial) -> Item:
        item = Item(phase, arm, number, trial, self.run.key(trial, self.fingerprint))
        self.items.append(item)
        return item

    def _recall(self) -> None:
        """Takes up the proposals of an earlier start, in the order in which they were made."""
        self._recalled: dict[tuple[str, int], Item] = {}
        for arm, search in self.searches.items():
            for number in range(self.each):
                settings = self.run.proposal(arm, number)
                if settings is None:
                    break
                search.recall(settings)
                item = self._item("search", arm, number, with_settings(self.study, arm, settings, self.study.seeds[0]))
                self._recalled[arm, number] = item
        for item in self._recalled.values():
            self._settle(item)

    def _plan(self) -> Iterator[Item | None]:
        """Items in order; None while what comes next depends on trials that are under way."""
        for arm in self.study.arms:
            for number, seed in enumerate(self.study.seeds):
                yield self._item("arms", arm, number, trial(self.study, arm, seed))
        for number in range(self.each):
            for arm, search in self.searches.items():
                item = self._recalled.get((arm, number))
                if item is None:
                    settings = search.propose()
                    self.run.save_proposal(arm, number, settings)
                    seeded = with_settings(self.study, arm, settings, self.study.seeds[0])
                    item = self._item("search", arm, number, seeded)
                yield item
        while any(not item.ended for item in self.items if item.phase == "search"):
            yield None
        for arm, search in self.searches.items():
            best = search.best()
            if best is None:
                continue
            winner = next(i for i in self.items if (i.phase, i.arm, i.number) == ("search", arm, best))
            for number, seed in enumerate(confirm_seeds(self.study)):
                yield self._item("confirm", arm, number, with_settings(self.study, arm, winner.trial.settings, seed))

    def all_done(self) -> bool:
        """Whether earlier trials have answered everything, so that nothing has to run."""
        if self._held is None:
            self._held = self.next()
        return self._held == "done"

    def next(self) -> Item | Literal["wait", "done"]:
        """An item to run, or whether to wait for those under way, or that all is done."""
        if self._held is not None:
            held, self._held = self._held, None
            return held
        for item in self._upcoming:
            if item is None:
                return "wait"
            if item.status != "waiting" or self._settle(item):
                continue
            if item.key in self.running:  # the same trial is under way for another item: it will serve both
                item.status = "running"
                continue
            item.status = "running"
            self.running[item.key] = item
            return item
        return "wait" if self.running else "done"

    def _settle(self, item: Item) -> bool:
        """Takes the result of an earlier trial with the same key, if there is one."""
        result = self.run.result(item.key)
        if result is None or result["status"] not in FINAL:
            return False
        item.reused = True
        self._conclude(item, result)
        return True

    def conclude(self, key: str, result: dict[str, Any], retries: int = 0) -> None:
        """Told when a trial has ended: finished, diverged, stopped (early) or failed."""
        first = self.running.pop(key, None)
        for item in self.items:
            if item.key == key and item.status == "running":
                item.retries = retries
                item.reused = item is not first
                self._conclude(item, result)

    def _conclude(self, item: Item, result: dict[str, Any]) -> None:
        item.status, item.result = result["status"], result
        item.figures = validation_figures(result.get("evaluations", []))
        if item.phase == "search":
            stopped = result["status"] == "stopped"
            figures = item.figures if result["status"] == "finished" else None
            self.searches[item.arm].learn(item.number, figures, stopped_early=stopped)

    def best(self, arm: str) -> Item | None:
        """The item with the lowest validation NLL of an arm so far, for the screen."""
        known = [(item.figures["nll"], i) for i, item in enumerate(self.items) if item.arm == arm and item.figures]
        return self.items[min(known)[1]] if known else None

    def save(self) -> None:
        """Writes the table of all trials."""
        self._table.save(self.items)
