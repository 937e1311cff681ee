"""How many trials the machine's memory has room for."""

import time

CALM_SECONDS = 120.0  # without a kill for memory, after which twice as many trials may run
HOLD_SECONDS = (5.0, 60.0)  # between a kill for memory and the next try, at first and at most
GIVE_UP_SECONDS = 1800.0  # of kills for memory although only one trial runs


class Memory:
    """How many trials at once the machine's memory has room for, from how Ray's memory monitor acts.

    It ends actors when a node's memory is nearly full, whoever filled it. Then half as many run, after a pause, and
    twice as many again after every two minutes in which it ends none.
    """

    def __init__(self) -> None:
        self.most: int | None = None
        self.hold = HOLD_SECONDS[0]
        self.last = self.changed = self.since = 0.0

    def killed(self, at_once: int) -> str:
        """Told of an actor that was ended; what to say of it, if anything."""
        now = time.monotonic()
        together = now - self.last < 2.0  # several are ended at once
        self.last = now
        if together and self.most is not None:
            return ""
        if self.most == 1:
            self.hold = min(2 * self.hold, HOLD_SECONDS[1])
        else:
            self.since = now
        self.most = max(1, min(at_once, self.most or at_once) // 2)
        self.changed = now
        few = "one trial" if self.most == 1 else f"{self.most} trials"
        return f"memory is nearly full and Ray ended a trial: it starts again in {self.hold:.0f} s, {few} at a time"

    def limit(self, at_once: int) -> int:
        """How many trials may run now, of so many for which there is a place."""
        if self.most is None:
            return at_once
        now = time.monotonic()
        if now - self.last < self.hold:
            return 0
        if now - max(self.last, self.changed) > CALM_SECONDS:
            self.most, self.changed, self.hold = 2 * self.most, now, HOLD_SECONDS[0]
            if self.most >= at_once:
                self.most = None
                return at_once
        return min(at_once, self.most)

    def hopeless(self) -> bool:
        """Whether actors are still being ended although they run one at a time."""
        return self.most == 1 and self.last - self.since > GIVE_UP_SECONDS
