"""The looks of a run that adds seeds until its claims are decided: planned before its first result."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from pilotstudy.errors import InputError
from pilotstudy.metrics.spending import shares
from pilotstudy.study.spec import Study

SEEDS = (3, 5, 8, 12, 20)  # of the looks, where nothing else is said
MOST_SEEDS = SEEDS[-1]

Seeded = Literal["arms", "confirm"]  # phases that train the same settings with several seeds
Wanted = Mapping[Seeded, Collection[str]]  # arms that are to have more seeds


@dataclass(frozen=True)
class Look:
    """One planned look: how many seeds are there, and which share of the error rate it spends."""

    seeds: int
    share: float

    def includes(self, phase: str, number: int) -> bool:
        """Whether a trial was there by then, by its number within the phase and the arm."""
        return phase == "search" or number < self.seeds


@dataclass(frozen=True)
class Looks:
    """The plan, and how many seeds each arm has been given so far, by phase."""

    plan: tuple[Look, ...]
    given: Mapping[Seeded, Mapping[str, int]]

    @property
    def most(self) -> int:
        """The seeds of the last look."""
        return self.plan[-1].seeds

    @property
    def numbers(self) -> str:
        """The seeds of all looks."""
        return ", ".join(str(look.seeds) for look in self.plan)

    @property
    def taken(self) -> int:
        """How many looks were begun."""
        return sum(look.seeds <= self._largest for look in self.plan)

    @property
    def current(self) -> Look:
        """The look that was begun last."""
        return self.plan[self.taken - 1]

    @property
    def exceeded(self) -> bool:
        """Whether seeds were added beyond the plan."""
        return self._largest > self.most

    @property
    def numbers_given(self) -> set[int]:
        """How many seeds arms have: one number, where all have the same."""
        return {number for by_arm in self.given.values() for number in by_arm.values()}

    @property
    def _largest(self) -> int:
        return max(self.numbers_given)

    @property
    def words(self) -> str:
        """Where the run is."""
        if self.exceeded:
            return f"{self._largest} seeds, beyond the planned looks"
        return f"look {self.taken} of {len(self.plan)}: {self.current.seeds} seeds"

    @property
    def last(self) -> bool:
        """Whether no look is left."""
        return self.taken == len(self.plan)

    def further(self, wanted: Wanted) -> "Looks":
        """The next look, with seeds for these arms alone."""
        seeds = self.plan[self.taken].seeds
        given: dict[Seeded, Mapping[str, int]] = {
            phase: {arm: seeds if arm in wanted.get(phase, ()) else number for arm, number in by_arm.items()}
            for phase, by_arm in self.given.items()
        }
        return replace(self, given=given)

    def taken_up(self, earlier: "Looks") -> "Looks":
        """The same plan as far as an earlier start has come; arms that are new join its last look."""
        now = earlier.current.seeds
        given: dict[Seeded, Mapping[str, int]] = {
            phase: {arm: earlier.given[phase].get(arm, now) for arm in by_arm} for phase, by_arm in self.given.items()
        }
        return replace(self, given=given)


def asked_looks(
    study: Study, *, until_decided: bool, max_seeds: int | None, seeds: int | None
) -> tuple[Study, Looks | None]:
    """The study and its looks, as the options of `pilotstudy run` ask for them."""
    if not until_decided:
        if max_seeds is not None:
            raise InputError("--max-seeds is the last look of --until-decided: give both, or --seeds")
        return study, None
    if seeds is not None:
        raise InputError("--until-decided adds seeds itself: in place of --seeds, --max-seeds gives the most")
    return plan_looks(study, MOST_SEEDS if max_seeds is None else max_seeds)


def plan_looks(study: Study, most: int) -> tuple[Study, Looks]:
    """The study with the seeds of the last look, and the looks, of which the first is given to all."""
    if not study.claims:
        raise InputError(f"study {study.name} states no claims, so --until-decided has nothing to decide")
    seeds = (*(number for number in SEEDS if number < most), most)
    searched = study.search.arms if study.search and study.search.trials else ()
    given: dict[Seeded, Mapping[str, int]] = {
        "arms": dict.fromkeys(study.arms, seeds[0]),
        "confirm": dict.fromkeys(searched, seeds[0]),
    }
    return with_seeds(study, most), Looks(tuple(map(Look, seeds, shares(seeds))), given)


def exceed(study: Study, looks: Looks) -> tuple[Study, Looks]:
    """All arms with the seeds of the study, which are more than were planned; confirmations keep what they have."""
    search = study.search and study.search.model_copy(
        update={"confirm_seeds": max(study.search.confirm_seeds, looks.most)}
    )
    given: dict[Seeded, Mapping[str, int]] = {**looks.given, "arms": dict.fromkeys(study.arms, len(study.seeds))}
    return study.model_copy(update={"search": search}), replace(looks, given=given)


def with_seeds(study: Study, number: int) -> Study:
    """The study with so many seeds in all phases: its own, then the smallest that are not among them."""
    own = study.seeds[:number]
    others = (seed for seed in range(number) if seed not in own)
    seeds = (*own, *islice(others, number - len(own)))
    search = study.search and study.search.model_copy(update={"confirm_seeds": number})
    return study.model_copy(update={"seeds": seeds, "search": search})
