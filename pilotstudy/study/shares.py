"""How the trials of a search are shared out where its arms are to have the same training seconds."""

from collections import Counter
from collections.abc import Iterable, Mapping


class Shares:
    """What the searched arms have used so far, and whose turn is next."""

    def __init__(self, arms: Iterable[str]):
        self.seconds = dict.fromkeys(arms, 0.0)
        self.timed: Counter[str] = Counter()  # trials whose seconds are known
        self.untimed: Counter[str] = Counter()  # trials that are under way, or ended without telling

    def propose(self, arm: str) -> None:
        self.untimed[arm] += 1

    def end(self, arm: str, seconds: float | None) -> None:
        if seconds is not None:
            self.untimed[arm] -= 1
            self.timed[arm] += 1
            self.seconds[arm] += seconds

    def next(self) -> str:
        """The arm that has used the least; each has one trial first. Trials of unknown length count as the arm's mean.

        So no two arms are further apart than one trial, and ties go by the order of the arms.
        """
        return min(self.seconds, key=lambda arm: (bool(self.timed[arm] + self.untimed[arm]), self._used(arm)))

    def _used(self, arm: str) -> float:
        return self.seconds[arm] + self.untimed[arm] * self._mean(arm)

    def _mean(self, arm: str) -> float:
        if self.timed[arm]:
            return self.seconds[arm] / self.timed[arm]
        return sum(self.seconds.values()) / self.timed.total() if self.timed.total() else 1.0


def expected_shares(costs: Mapping[str, float], trials: int) -> Counter[str]:
    """How many of these trials each arm would have, by the seconds that one of its trials takes."""
    shares, numbers = Shares(costs), Counter[str]()
    for _ in range(trials):
        arm = shares.next()
        shares.propose(arm)
        shares.end(arm, costs[arm])
        numbers[arm] += 1
    return numbers
