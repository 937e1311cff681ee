"""Early stopping on Ray Tune: successive halving for each arm by itself."""

from typing import TYPE_CHECKING

# isort: split
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from pilotstudy.schedule.halving import Halving, loss_of
from pilotstudy.study.spec import Search

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController


class ByArm(FIFOScheduler):
    """Halving among the search's trials of each arm by itself, so that no arm takes another's budget; no other trial is
    ever stopped.
    """

    def __init__(self, epochs: int, search: Search):
        super().__init__()
        self.epochs, self.search = epochs, search
        self.arms: dict[str, Halving] = {}

    def _stops(self, trial: Trial, result: dict[str, float]) -> bool:
        loss = loss_of(result, self.search)
        if trial.config["phase"] != "search" or loss is None:
            return False
        halving = self.arms.setdefault(trial.config["arm"], Halving(self.epochs))
        return halving.stops(trial.trial_id, int(result["epoch"]), loss)

    def on_trial_result(self, tune_controller: "TuneController", trial: Trial, result: dict[str, float]) -> str:
        """Tune asks it after every report."""
        return str(TrialScheduler.STOP if self._stops(trial, result) else TrialScheduler.CONTINUE)

    def on_trial_complete(self, tune_controller: "TuneController", trial: Trial, result: dict[str, float]) -> None:
        self._stops(trial, result)  # others are compared with it
