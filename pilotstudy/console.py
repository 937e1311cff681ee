"""Progress on stderr: a bar on a terminal, now and then a plain line elsewhere, nothing when quiet; stdout's width."""

import os
import shutil
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

quiet = False
LINE_SECONDS = 30.0


class Progress:
    """`with Progress("decoding", 50_000) as p: p.advance()`. A note set with `advance` stands beside the bar."""

    def __init__(self, title: str, total: int):
        self.title, self.total, self.done = title, total, 0
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        if not quiet and on_terminal():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
            self._bar = Bar(*columns, TextColumn("{task.fields[note]}"), console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self.title, total=self.total, note="")
        return self

    def advance(self, note: str = "") -> None:
        """One more is done."""
        self.done += 1
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self.done, note=note)
        elif not quiet and time.monotonic() - self._last > LINE_SECONDS:
            self._last = time.monotonic()
            message(f"{self.title}: {self.done:,} of {self.total:,} {note}".rstrip())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()


def on_terminal() -> bool:
    """Whether somebody watches."""
    return sys.stderr.isatty()


def output_width(wide: bool = False) -> int | None:
    """Of what is printed: that of COLUMNS, else of the terminal. None, which is any, where it is to be wide, and of a
    pipe or a file, which is not to be cut.
    """
    if wide:
        return None
    asked = os.environ.get("COLUMNS", "")
    is_known = sys.stdout.isatty() or (asked.isdigit() and int(asked) > 0)
    return shutil.get_terminal_size().columns if is_known else None


def message(text: str) -> None:
    """A line for people, on stderr: stdout is for data."""
    if not quiet:
        print(text, file=sys.stderr, flush=True)
