"""A place in the plan of a study. The director alone writes what becomes of it; everybody else reads."""

from collections.abc import Mapping
from dataclasses import dataclass

from pilotstudy.arms.arm import Setting
from pilotstudy.runs.records import Status
from pilotstudy.study.budget import Phase
from pilotstudy.study.spec import Trial


@dataclass(slots=True)
class Item:
    """One place in the plan. Two items with the same key are the same trial, which runs once."""

    phase: Phase
    arm: str
    number: int  # within the phase and the arm
    settings: Mapping[str, Setting]  # of the arm, and those of the recipe that were searched
    trial: Trial
    key: str
    index: int = -1  # among all items
    status: Status = Status.WAITING
    reused: bool = False  # its trial ran in an earlier start, or for another item
    retries: int = 0
    moves: int = 0
    error: str | None = None
    figures: Mapping[str, float] | None = None  # what the search may see of it
    row: int = 0  # of its result in the table of trials

    @property
    def predicts_test(self) -> bool:
        """Whether its trial is to predict the test images: what the search tries does not."""
        return self.phase != "search"

    @property
    def name(self) -> str:
        return f"{self.phase} {self.arm} {self.number}"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a trial ended; all else of its result is a row of the table."""

    status: Status
    figures: Mapping[str, float] | None
    retries: int
    moves: int
    error: str | None
    row: int
    tested: bool  # whether it has figures of the test images
    tests: Mapping[str, str]  # further test sets that it predicted: their fingerprints
    seconds: float | None  # of training

    def serves(self, item: Item, tests: Mapping[str, str]) -> bool:
        """Whether the item needs no trial of its own: outside the search, it needs test figures, and predictions of
        the study's further test sets.
        """
        return (
            self.status is Status.DIVERGED
            or not item.predicts_test
            or (self.tested and tests.items() <= self.tests.items())
        )
