"""Waiting for what must come, however busy the machine is."""

import subprocess
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LONG = 600.0  # seconds that a process, or what it is to write, may take; reached only if something hangs


def wait_for(
    condition: Callable[[], T],
    what: str | Callable[[], str],
    seconds: float = 120,
    *,
    process: subprocess.Popen | None = None,
) -> T:
    """What the condition gives once that is true. `process`: the one without which it never will be."""
    deadline = time.monotonic() + seconds
    while True:
        ended = None if process is None else process.poll()
        if found := condition():
            return found
        if ended is not None or time.monotonic() > deadline:
            why = f"within {seconds:g} s" if ended is None else f"before the process ended with {ended}"
            raise AssertionError(f"not {why}: {what if isinstance(what, str) else what()}")
        time.sleep(0.02)
