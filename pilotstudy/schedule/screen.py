"""What is told while a study runs: a live table on a terminal, a line a trial elsewhere, a file for other processes."""

import contextlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from pilotstudy.metrics.registry import headline_objectives
from pilotstudy.runs.lock import beating
from pilotstudy.runs.records import Status
from pilotstudy.runs.under_way import RunningTrial, UnderWay, timestamp
from pilotstudy.schedule.director import Director
from pilotstudy.schedule.item import Item
from pilotstudy.storage import is_remote, write
from pilotstudy.study.budget import PHASES

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

TELL_SECONDS, TELL_FAR_SECONDS = 2.0, 10.0  # how often running.json is written, if there is something new


@dataclass
class Running:
    """A trial under way: since when, and what it told last."""

    item: Item
    since: float = field(default_factory=time.time)
    epoch: int = 0
    images_per_second: float = 0.0

    def record(self) -> RunningTrial:
        item, epochs = self.item, self.item.trial.training.epochs
        since = timestamp(self.since)
        return RunningTrial(item.phase, item.arm, item.number, item.trial.seed, item.key, since, self.epoch, epochs)


class Screen:
    """Shows how a director's study gets on."""

    def __init__(self, director: Director, out: TextIO, quiet: bool = False):
        self.director, self.out, self.quiet = director, out, quiet
        self.since = time.monotonic()
        self.running: dict[str, Running] = {}  # by key
        self.ended_now = 0
        self._counted = director.done  # how many were done when a line last said so
        self._live: Live | None = None
        self._noted: set[str] = set()
        self._told: tuple[RunningTrial, ...] = ()
        self._telling = contextlib.ExitStack()

    def __enter__(self) -> "Screen":
        far = is_remote(self.director.run.files.folder)
        self._telling.enter_context(beating(self._tell, TELL_FAR_SECONDS if far else TELL_SECONDS))
        if not self.quiet and self.out.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(file=self.out), get_renderable=self._table, refresh_per_second=2)
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()
        self._telling.close()
        if self._told and not self.director.run.lost:
            with contextlib.suppress(Exception):  # it says nothing once no process is at work
                self.director.run.files.running.unlink(missing_ok=True)

    def _tell(self) -> None:
        """Writes what is under way, for `pilotstudy status` and pages."""
        trials = tuple(running.record() for running in list(self.running.values()))
        if trials != self._told and not self.director.run.lost:
            ends = self._ends()
            told = UnderWay(timestamp(time.time()), timestamp(ends) if ends else None, trials)
            write(self.director.run.files.running, told.to_json())
            self._told = trials

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

    def lost(self, item: Item) -> None:
        """A trial is under way no more, and will be tried again."""
        self.running.pop(item.key, None)

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
            if served := self.done() - self._counted - 1:
                note += f" (and {served} with the settings of trials that are done)"
            self._counted = self.done()
            seconds = time.time() - running.since
            self.say(
                f"{self.done()}/{self.director.total}  {item.name}  {what}{note}  {seconds:.1f} s  {self.remaining()}"
            )

    def done(self) -> int:
        return self.director.done

    def remaining(self) -> str:
        """When the study will end, if trials go on as they have."""
        ends = self._ends() if self.ended_now else None
        return f"ends about {time.strftime('%H:%M', time.localtime(ends))}" if ends else ""

    def _ends(self) -> float | None:
        """Parts of trials count: the first ones may take hours."""
        parts = sum(running.epoch / running.item.trial.training.epochs for running in list(self.running.values()))
        left = self.director.total - self.done() - parts
        if not self.ended_now + parts or left <= 0:
            return None
        return time.time() + (time.monotonic() - self.since) / (self.ended_now + parts) * left

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
