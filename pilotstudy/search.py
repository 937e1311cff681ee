"""Optuna's search for one arm: proposes settings, learns from what they gave. It knows nothing of Ray.

A proposal depends on the study's seed, the arm, its number and what was learnt before, and on nothing else, so that a
run that was interrupted goes on with the same proposals.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import StudyDirection
from optuna.trial import TrialState, create_trial

from pilotstudy.arms import Choice, Space, widened
from pilotstudy.spec import Search

optuna.logging.set_verbosity(optuna.logging.ERROR)


def distributions(space: Space, start: Mapping[str, Any]) -> dict[str, BaseDistribution]:
    """Optuna's form of a space, made wide enough to hold the settings that the search starts from."""
    found: dict[str, BaseDistribution] = {}
    for name, choice in widened(space, start).items():
        if isinstance(choice, Choice):
            found[name] = CategoricalDistribution(choice.options)
        elif choice.whole:
            found[name] = IntDistribution(int(choice.low), int(choice.high), log=choice.log)
        else:
            found[name] = FloatDistribution(choice.low, choice.high, log=choice.log)
    return found


class ArmSearch:
    """Numbers 0, 1, 2.. are proposed in order; number 0 is `start`, the arm's settings in the study."""

    def __init__(self, arm: str, space: Space, start: Mapping[str, Any], options: Search):
        self.arm, self.start, self.options = arm, dict(start), options
        self.distributions = distributions(space, start)
        directions = [
            StudyDirection.MAXIMIZE if name == "accuracy" else StudyDirection.MINIMIZE for name in options.objectives
        ]
        self.study = optuna.create_study(directions=directions, sampler=optuna.samplers.RandomSampler())
        self.proposed = 0

    def propose(self) -> dict[str, Any]:
        """The settings of the next number."""
        number, self.proposed = self.proposed, self.proposed + 1
        if number == 0:
            searched = {name: self.start[name] for name in self.distributions}
            self.study.enqueue_trial(searched)
        digest = hashlib.sha256(f"{self.options.seed} {self.arm} {number}".encode()).digest()
        self.study.sampler = optuna.samplers.TPESampler(
            seed=int.from_bytes(digest[:4], "big"),
            n_startup_trials=min(10, max(4, self.options.trials // (4 * len(self.options.arms)))),
        )
        return self.start | self.study.ask(self.distributions).params

    def recall(self, settings: Mapping[str, Any]) -> None:
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
        sign = -1 if self.options.objectives[0] == "accuracy" else 1
        return min(finished, key=lambda trial: (sign * trial.values[0], trial.number)).number if finished else None
