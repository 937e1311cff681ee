"""What is on screen while a study runs: a live table on a terminal, a line a trial elsewhere."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from pilotstudy.metrics.registry import headline_objectives
from pilotstudy.runs.records import Status
from pilotstudy.schedule.director import Director
from pilotstudy.schedule.item import Item
from pilotstudy.study.budget import PHASES

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live


@dataclass
class Running:
    """A trial under way: since when, and what it told last."""

    item: Item
    since: float = field(default_factory=time.monotonic)
    epoch: int = 0
    images_per_second: float = 0.0


class Screen:
    """Shows how a director's study gets on."""

    def __init__(self, director: Director, out: TextIO, quiet: bool = False):
        self.director, self.out, self.quiet = director, out, quiet
        self.since = time.monotonic()
        self.running: dict[str, Running] = {}  # by key
        self.ended_now = 0
        self._live: Live | None = None
        self._noted: set[str] = set()

    def __enter__(self) -> "Screen":
        if not self.quiet and self.out.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(file=self.out), get_renderable=self._table, refresh_per_second=2)
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def note(self, item: Item, notes: Iterable[str]) -> None:
        """What should be known of how a trial was trained; what holds for many is said once."""
        for note in notes:
            if note not in self._noted:
                self._noted.add(note)
                self.say(f"{item.name}: {note}")

    def say(self, text: str) -> None:
        """A line that stays."""
        if self.quiet:
            return
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=self.out, flush=True)

    def started(self, item: Item) -> None:
        """A trial is under way."""
        self.running[item.key] = Running(item)

    def progress(self, item: Item, record: Mapping[str, float]) -> None:
        """What a trial tells of its last epoch."""
        running = self.running.get(item.key)
        if running:
            running.epoch = int(record.get("epoch", 0))
            running.images_per_second = record.get("images_per_second", 0.0)

    def ended(self, item: Item) -> None:
        """A trial has ended; elsewhere than on a terminal, that is a line."""
        running = self.running.pop(item.key, None) or Running(item)
        self.ended_now += 1
        if self._live is None:
            figures = item.figures
            what = str(item.status)
            if figures:
                shown = (f"{name} {figures[name]:.4f}" for name in headline_objectives()[:2])
                what = f"validation {' '.join(shown)}"
            note = f" ({item.error})" if item.status is Status.FAILED else ""
            seconds = time.monotonic() - running.since
            self.say(
                f"{self.done()}/{self.director.total}  {item.name}  {what}{note}  {seconds:.1f} s  {self.remaining()}"
            )

    def done(self) -> int:
        return self.director.done

    def remaining(self) -> str:
        """When the study will end, if trials go on as they have."""
        left = self.director.total - self.done()
        if not self.ended_now or not left:
            return ""
        seconds = (time.monotonic() - self.since) / self.ended_now * left
        return f"ends about {time.strftime('%H:%M', time.localtime(time.time() + seconds))}"

    def _table(self) -> "Group":
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        heads = [self.director.looks.words] if self.director.looks else []
        for phase, number in self.director.counts.items():
            tally = self.director.tally[phase]
            done = tally.total() - tally[Status.WAITING] - tally[Status.RUNNING]
            failed = tally[Status.FAILED] + tally[Status.DIVERGED]
            if number:
                heads.append(f"{phase} {done}/{number}" + (f" ({failed} failed)" if failed else ""))
        speed = sum(running.images_per_second for running in self.running.values())
        head = f"{'   '.join(heads)}   running {len(self.running)}   {speed:,.0f} images/s   {self.remaining()}"
        first, *others = headline_objectives()
        table = Table("arm", f"best validation {first}", *others, "from", box=None)
        for arm in self.director.study.arms:
            best = self.director.best(arm)
            if best and best.figures:
                cells = (f"{best.figures[name]:.4f}" for name in (first, *others))
                table.add_row(arm, *cells, f"{best.phase} {best.number}")
        first_ones = sorted(self.running.values(), key=lambda running: PHASES.index(running.item.phase))[:8]
        lines = [
            f"  {running.item.name}: epoch {running.epoch}/{running.item.trial.training.epochs}"
            for running in first_ones
        ]
        return Group(Text(head), table, Text("\n".join(lines)))
