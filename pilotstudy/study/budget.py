"""The arithmetic of a study: its phases, trials, seeds and rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import Literal

from pilotstudy.arms.arm import Declared, Setting
from pilotstudy.errors import InputError
from pilotstudy.study.faults import shown
from pilotstudy.study.looks import Looks
from pilotstudy.study.recipe import PREFIX, with_recipe
from pilotstudy.study.rows import arm_of, declared_rows, known_rows
from pilotstudy.study.spec import MOST, MOST_TRIALS, Claim, Study, Trial
from pilotstudy.study.statements import ENSEMBLE, Row, Statement
from pilotstudy.study.testsets import kinds_of_tests

Phase = Literal["arms", "search", "confirm"]
PHASES: tuple[Phase, ...] = ("arms", "search", "confirm")
FIRST_FRESH = 10_000  # the first of the confirmation's seeds


@dataclass(frozen=True)
class Spent:
    """What the search of an arm has taken so far: trials that ended, and their training seconds."""

    trials: int
    seconds: float


@dataclass(frozen=True)
class Budget:
    """What each arm is given: seeds, epochs, images, search trials and fresh seeds after the search.

    `looks`: where seeds are added until the claims are decided; `seeds` and `confirm_seeds` are the most, then.
    """

    seeds: int
    epochs: int | None  # None: nothing was trained, the predictions were imported
    train_size: int | None
    search_trials: Mapping[str, int]  # by searched arm; where they share seconds, known only afterwards: `spent`
    confirm_seeds: int
    search_total: int = 0
    search_by: Literal["trials", "seconds"] = "trials"  # what is the same for each searched arm
    spent: Mapping[str, Spent] = field(default_factory=dict)  # by searched arm, where it is known
    looks: Looks | None = None

    @classmethod
    def of(cls, study: Study, looks: Looks | None = None) -> "Budget":
        searched = study.search.arms if study.search and study.search.trials else ()
        each = study.search.trials // len(searched) if study.search and searched else 0
        by = study.search.budget if study.search else "trials"
        total = study.search.trials if study.search and each and by == "seconds" else each * len(searched)
        return cls(
            seeds=len(study.seeds),
            epochs=None if study.imported else study.training.epochs,
            train_size=study.data.train_size,
            search_trials=dict.fromkeys(searched, each),
            confirm_seeds=study.search.confirm_seeds if study.search else 0,
            search_total=total,
            search_by=by,
            looks=looks,
        )

    def at_look(self, number: int) -> "Budget":
        """What all arms are given at a planned look, from 1 on."""
        assert self.looks
        seeds = self.looks.plan[number - 1].seeds
        return replace(self, seeds=seeds, confirm_seeds=seeds)

    def trials_of(self, arm: str) -> dict[Phase, int]:
        """How many trials one arm has in each phase, if those of the search are the same for all."""
        each = self.search_trials.get(arm, 0)
        seeds, fresh = self.seeds, self.confirm_seeds
        if self.looks:
            seeds = self.looks.given["arms"].get(arm, seeds)
            fresh = self.looks.given["confirm"].get(arm, fresh)
        return {"arms": seeds, "search": each, "confirm": fresh if each else 0}

    def search_in_words(self, arms: Sequence[str]) -> str:
        """What the searches of these arms were given, and what is the same for each of them."""
        spent = {arm: self.spent[arm] for arm in arms if arm in self.spent}
        if self.search_by == "seconds":
            each = [f"{arm} {used.seconds:,.0f} s in {used.trials} trials" for arm, used in spent.items()]
            return f"trials shared out equally in seconds{_listed(each)}"
        numbers = {self.search_trials.get(arm, 0) for arm in arms}
        trials = f"{min(numbers)} trials each" if len(numbers) == 1 else f"{min(numbers)} to {max(numbers)} trials"
        return trials + _listed([f"{arm} {used.seconds:,.0f} s" for arm, used in spent.items()], "equal in trials: ")


def _listed(parts: Sequence[str], what: str = "") -> str:
    return f" ({what}{', '.join(parts)})" if parts else ""


def counts(study: Study, looks: Looks | None = None) -> dict[Phase, int]:
    """How many trials each phase has."""
    if study.imported:
        return {"arms": sum(each.trials for each in study.imported), "search": 0, "confirm": 0}
    budget = Budget.of(study, looks)
    of_arms = [budget.trials_of(arm) for arm in study.arms]
    totals = {phase: sum(of_arm[phase] for of_arm in of_arms) for phase in PHASES}
    return totals | {"search": budget.search_total}


def with_budget(study: Study, seeds: int | None = None, trials: int | None = None) -> Study:
    """The study with another number of seeds, or of search trials in all."""
    if seeds is not None:
        _check_number("seeds", seeds, 1, MOST)
        study = study.model_copy(update={"seeds": tuple(range(seeds))})
    if trials is not None:
        _check_number("trials", trials, 0, MOST_TRIALS)
        if study.search is None:
            raise InputError(f"study {study.name} has no [search] section, so trials = {trials} has nothing to do")
        study = study.model_copy(update={"search": study.search.model_copy(update={"trials": trials})})
    return study


def _check_number(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InputError(f"{name} = {shown(value)}: expected a whole number from {least} to {most:,}")


def confirm_seeds(study: Study) -> list[int]:
    """Seeds that neither arms nor search use. They stay the same when the study is given more seeds."""
    fresh = (seed for seed in count(FIRST_FRESH) if seed not in study.seeds)
    return list(islice(fresh, study.search.confirm_seeds if study.search else 0))


def fixed_trial(study: Study, arm: str, seed: int) -> Trial:
    """`arm` at the study's settings, or, where the study does not list it, at the arm's defaults."""
    settings = study.settings(arm) if arm in study.arms else arm_of(study, arm).settings().model_dump()
    return trial_with(study, arm, settings, seed)


def trial_with(study: Study, arm: str, settings: Mapping[str, Setting], seed: int) -> Trial:
    """`arm` at these settings, of which some may be the recipe's (`training.learning_rate`)."""
    return Trial(
        arm=study.method(arm),
        settings={key: value for key, value in settings.items() if not key.startswith(PREFIX)},
        seed=seed,
        data=study.data,
        network=study.network,
        training=with_recipe(study.training, dict(settings)),
    )


def planned_rows(study: Study, arms: Mapping[str, Declared] | None = None) -> list[Row]:
    """Every row that the study is to have when it is done. `arms`: what is known of them, where their code is not."""
    arms = declared_rows(study) if arms is None else arms
    rows = [Row(arm, mode, "arms", arms[arm]) for arm in study.arms for mode in arms[arm].modes]
    if sum(row.in_ensemble for row in rows) > 1:
        rows.append(Row(ENSEMBLE, ENSEMBLE))
    if study.search and study.search.trials:
        searched = [arms[arm] for arm in study.search.arms]
        rows += [Row(arm.name, mode, "confirm", arm) for arm in searched for mode in arm.modes]
    return rows


def claims_without_rows(study: Study) -> list[Claim]:
    """The claims that name rows, or a group of them, which the study has not, whatever its number of trials."""
    planned = planned_rows(with_budget(study, trials=1) if study.search else study)
    known = known_rows(study)
    lacking = []
    for claim in study.claims:
        statement = Statement.parse(claim.holds, known, kinds_of_tests(study))
        rows = [replace(row, mode="point") if row.mode == "seeds" else row for _, row in statement.terms]
        opponents = statement.group.members(planned, rows[0]) if statement.group else rows
        if not opponents or any(row not in planned for row in rows):
            lacking.append(claim)
    return lacking
