"""Early stopping: asynchronous successive halving (ASHA) among the search's trials of one arm.

At some epochs, the rungs, a trial is compared with those that were there before it; unless it is in the best third, it
is stopped. Every engine uses this, so that the same results lead to the same decisions.
"""

import math
from collections.abc import Mapping

import numpy as np

from pilotstudy.metrics.registry import DEFAULT_OBJECTIVE, METRICS
from pilotstudy.study.spec import Search

KEPT = 3  # one in so many goes on from a rung to the next


def loss_of(record: Mapping[str, float], search: Search) -> float | None:
    """What trials are judged by after an epoch: the search's first objective, less being better.

    One that is not reported after every epoch is judged by NLL in its place; None where nothing was reported.
    """
    first = METRICS[search.objectives[0]]
    judged = first if first.every_epoch else METRICS[DEFAULT_OBJECTIVE]
    value = record.get(f"validation_{judged.name}")
    return None if value is None else -judged.sign * value


class Halving:
    """`epochs`: of a whole trial. The first rung is at an eighth of them."""

    def __init__(self, epochs: int):
        first = max(1, epochs // 8)
        number = int(math.log(epochs / first) / math.log(KEPT) + 1)
        self.rungs: dict[int, dict[str, float]] = {first * KEPT**k: {} for k in reversed(range(number))}

    def stops(self, trial: str, epoch: int, loss: float) -> bool:
        """Whether a trial with this loss after this epoch is to be stopped; told after every epoch."""
        for rung, losses in self.rungs.items():  # from the last to the first
            if epoch >= rung and trial not in losses:
                worst_to_go_on = np.nanpercentile(list(losses.values()), 100 / KEPT) if losses else np.inf
                losses[trial] = loss
                return bool(loss > worst_to_go_on)
        return False
