"""What is on screen while a study runs: a live table on a terminal, a line a trial elsewhere."""

import time
from typing import Any, TextIO

from pilotstudy.director import PHASES, Director, Item, counts


class Screen:
    def __init__(self, director: Director, out: TextIO, quiet: bool = False):
        self.director, self.out, self.quiet = director, out, quiet
        self.since = time.monotonic()
        self.running: dict[str, tuple[Item, float, dict[str, Any]]] = {}
        self.ended_now = 0
        self._live: Any = None

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

    def say(self, text: str) -> None:
        if self.quiet:
            return
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=self.out, flush=True)

    def started(self, item: Item) -> None:
        self.running[item.key] = (item, time.monotonic(), {})

    def progress(self, item: Item, result: dict[str, Any]) -> None:
        if item.key in self.running:
            self.running[item.key] = (item, self.running[item.key][1], result)

    def ended(self, item: Item) -> None:
        _, started, _ = self.running.pop(item.key, (item, time.monotonic(), {}))
        self.ended_now += 1
        if self._live is None:
            figures = item.figures
            what = f"validation nll {figures['nll']:.4f} accuracy {figures['accuracy']:.4f}" if figures else item.status
            note = f" ({item.result['error']})" if item.status == "failed" else ""
            seconds = time.monotonic() - started
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

    def _table(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        heads = []
        for phase, number in counts(self.director.study).items():
            tally = self.director.tally[phase]
            done = tally.total() - tally["waiting"] - tally["running"]
            failed = tally["failed"] + tally["diverged"]
            if number:
                heads.append(f"{phase} {done}/{number}" + (f" ({failed} failed)" if failed else ""))
        speed = sum(result.get("images_per_second", 0.0) for _, _, result in self.running.values())
        head = f"{'   '.join(heads)}   running {len(self.running)}   {speed:,.0f} images/s   {self.remaining()}"
        table = Table("arm", "best validation nll", "accuracy", "ece", "from", box=None)
        for arm in self.director.study.arms:
            best = self.director.best(arm)
            if best and best.figures:
                cells = (f"{best.figures[name]:.4f}" for name in ("nll", "accuracy", "ece"))
                table.add_row(arm, *cells, f"{best.phase} {best.number}")
        lines = [
            f"  {item.name}: epoch {int(result.get('epoch', 0))}/{item.trial.training.epochs}"
            for item, _, result in sorted(self.running.values(), key=lambda entry: PHASES.index(entry[0].phase))[:8]
        ]
        return Group(Text(head), table, Text("\n".join(lines)))
