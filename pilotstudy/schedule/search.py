"""Optuna's search for one arm: proposes settings, learns from what they gave. It knows nothing of Ray.

A proposal depends on the study's seed, the arm, its number and what was learnt before, and on nothing else, so that a
run that was interrupted goes on with the same proposals.

For each proposal Optuna's TPE looks at every trial, in Python loops where settings are whole numbers: 0.1 s at 1,000
trials. So a long search is asked in blocks, each of a small study of its own: the best of what was learnt before it and
a sample of the rest, with real in place of whole numbers. That takes some milliseconds, however many trials there are.
"""

import hashlib
from collections.abc import Mapping
from typing import cast

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from pilotstudy.arms.arm import Choice, Setting, Space, widened
from pilotstudy.metrics.registry import METRICS
from pilotstudy.study.spec import Search

optuna.logging.set_verbosity(optuna.logging.ERROR)

LONG = 500  # proposals are made in blocks from this number on
BLOCK = 25
KEPT = 200  # trials in a block's study


def distributions(space: Space, start: Mapping[str, Setting]) -> dict[str, BaseDistribution]:
    """Optuna's form of a space, made wide enough to hold the settings that the search starts from."""
    by_name: dict[str, BaseDistribution] = {}
    for name, choice in widened(space, start).items():
        if isinstance(choice, Choice):
            by_name[name] = CategoricalDistribution(choice.options)
        elif choice.whole:
            by_name[name] = IntDistribution(int(choice.low), int(choice.high), log=choice.log)
        else:
            by_name[name] = FloatDistribution(choice.low, choice.high, log=choice.log)
    return by_name


def real(distribution: BaseDistribution) -> BaseDistribution:
    """Real numbers that round to the whole ones of a distribution; another as it is."""
    if not isinstance(distribution, IntDistribution):
        return distribution
    return FloatDistribution(distribution.low - 0.5, distribution.high + 0.5, log=distribution.log)


class Sampler(optuna.samplers.TPESampler):
    """TPE for trials that all have the same settings, which Optuna would find out from all of them each time."""

    def __init__(self, space: Mapping[str, BaseDistribution], *, seed: int, n_startup_trials: int, constant_liar: bool):
        super().__init__(seed=seed, n_startup_trials=n_startup_trials, constant_liar=constant_liar)
        self.space = {name: space[name] for name in sorted(space) if not space[name].single()}

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return dict(self.space) if len(study.directions) == 1 else {}


class ArmSearch:
    """Numbers 0, 1, 2.. are proposed in order; number 0 is `start`, the arm's settings in the study."""

    def __init__(self, arm: str, space: Space, start: Mapping[str, Setting], options: Search):
        self.arm, self.start, self.options = arm, dict(start), options
        self.distributions = distributions(space, start)
        self.study = self._new_study()
        self.proposed = 0
        self._block: tuple[int, optuna.Study] | None = None  # its first number, its study

    def _new_study(self) -> optuna.Study:
        directions = [
            StudyDirection.MAXIMIZE if METRICS[name].better == "higher" else StudyDirection.MINIMIZE
            for name in self.options.objectives
        ]
        return optuna.create_study(directions=directions, sampler=optuna.samplers.RandomSampler())

    def _sampler(self, number: int, space: Mapping[str, BaseDistribution], *, constant_liar: bool = True) -> Sampler:
        digest = hashlib.sha256(f"{self.options.seed} {self.arm} {number}".encode()).digest()
        startup = min(10, max(4, self.options.trials // (4 * len(self.options.arms))))
        seed = int.from_bytes(digest[:4], "big")
        return Sampler(space, seed=seed, n_startup_trials=startup, constant_liar=constant_liar)

    def propose(self) -> dict[str, Setting]:
        """The settings of the next number."""
        number = self.proposed
        if number >= LONG:
            settings = self.start | self._asked_in_block(number)
            self.recall(settings)
            return settings
        self.proposed += 1
        if number == 0:
            searched = {name: self.start[name] for name in self.distributions}
            self.study.enqueue_trial(searched)
        self.study.sampler = self._sampler(number, self.distributions)
        return self.start | self.study.ask(self.distributions).params

    def _asked_in_block(self, number: int) -> dict[str, Setting]:
        space = {name: real(distribution) for name, distribution in self.distributions.items()}
        first = number - number % BLOCK
        if self._block is None or self._block[0] != first:
            self._block = first, self._new_study()
            for trial in self._thinned(first):
                outcome = {"values": trial.values, "constraints": trial.constraints}
                copied = create_trial(state=trial.state, params=trial.params, distributions=space, **outcome)
                self._block[1].add_trial(copied)
        study = self._block[1]
        study.sampler = self._sampler(number, space, constant_liar=False)
        asked = cast(dict[str, Setting], study.ask(space).params)
        for name, distribution in self.distributions.items():
            if isinstance(distribution, IntDistribution):
                asked[name] = min(max(round(float(asked[name])), distribution.low), distribution.high)
        return asked

    def _thinned(self, first: int) -> list[FrozenTrial]:
        """What was learnt of numbers before `first`: the best by each objective and over all, evenly of the rest."""
        states = TrialState.COMPLETE, TrialState.PRUNED
        learnt = [trial for trial in self.study.get_trials(deepcopy=False, states=states) if trial.number < first]
        if len(learnt) <= KEPT:
            return learnt
        signs = [-METRICS[name].sign for name in self.options.objectives]
        losses = np.full((len(learnt), len(signs)), np.inf)
        for n, trial in enumerate(learnt):
            if trial.state == TrialState.COMPLETE and all(value <= 0 for value in trial.constraints.values()):
                losses[n] = np.multiply(signs, trial.values)
        ranks = losses.argsort(0, kind="stable").argsort(0)
        orders = np.column_stack([ranks, ranks.sum(1)]).argsort(0, kind="stable")
        best = set(orders[: KEPT // 10].ravel().tolist())
        rest = [n for n in range(len(learnt)) if n not in best]
        sample = np.linspace(0, len(rest) - 1, KEPT - len(best)).astype(int)
        return [learnt[n] for n in sorted(best | {rest[n] for n in sample})]

    def recall(self, settings: Mapping[str, Setting]) -> None:
        """Takes up a proposal that was made before the run was interrupted, as the next number."""
        self.proposed += 1
        searched = {name: settings[name] for name in self.distributions}
        self.study.add_trial(create_trial(state=TrialState.RUNNING, params=searched, distributions=self.distributions))

    def learn(self, number: int, figures: Mapping[str, float] | None, *, stopped_early: bool = False) -> None:
        """What a number gave on validation; None if it failed or diverged, or was stopped early."""
        if figures is None:
            self.study.tell(number, state=TrialState.PRUNED if stopped_early else TrialState.FAIL)
            return
        frozen = self.study.get_trials(deepcopy=False)[number]
        trial = optuna.trial.Trial(self.study, frozen._trial_id)
        trial.set_user_attr("accuracy", figures["accuracy"])
        if self.options.accuracy_floor:
            trial.set_constraint("accuracy_floor", self.options.accuracy_floor - figures["accuracy"])
        self.study.tell(number, [figures[name] for name in self.options.objectives])

    def best(self) -> int | None:
        """The number whose settings are to be confirmed: the best first objective among those above the floor.

        On a Pareto front that is its end in the first objective's direction. None if nothing finished.
        """
        finished = [
            trial
            for trial in self.study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
            if trial.user_attrs["accuracy"] >= self.options.accuracy_floor
        ]
        sign = -METRICS[self.options.objectives[0]].sign
        return min(finished, key=lambda trial: (sign * trial.values[0], trial.number)).number if finished else None
