"""An engine without Ray: trains a study's trials in this process, one after another. For debugging, and for tests.

It keeps to the same plan, writes the same files and gives the same numbers as Ray does, and can be stopped and resumed
like it; a breakpoint in an arm, or a profiler, simply works.
"""

import contextlib
import signal
import socket
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import TextIO

import torch

from pilotstudy.data.dataset import DataSet
from pilotstudy.errors import CaptureError, CheckpointError, InputError, PilotstudyError, RunLockedError, StorageError
from pilotstudy.schedule.conduct import Ended
from pilotstudy.schedule.director import Director
from pilotstudy.schedule.halving import Halving, loss_of
from pilotstudy.schedule.item import Item
from pilotstudy.schedule.screen import Screen
from pilotstudy.study.resources import Limits
from pilotstudy.trial import device
from pilotstudy.trial.lifecycle import LiveTrial


def inline_engine(
    director: Director,
    data: DataSet,
    limits: Limits,
    *,
    quiet: bool,
    out: TextIO | None = None,
    most: int | None = None,
) -> Ended:
    """Trains until all is done, or after `most` trials."""
    share = director.study.resources.gpus_per_trial
    if share == "auto":
        raise InputError("--inline trains one trial at a time: give it a GPU with --gpus-per-trial 1")
    with Screen(director, out or sys.stderr, quiet) as screen, _interruptions(screen) as interruptions:
        loop = _Loop(director, data, limits, screen, interruptions, device.choose("cuda" if share else "cpu"))
        try:
            loop.run(most)
        except StorageError as error:
            return loop.ended("storage", error)
        except RunLockedError as error:
            return loop.ended("lost", error)
        finally:
            if not director.run.lost:
                director.save()
        return loop.ended(loop.stopping)


@contextlib.contextmanager
def _interruptions(screen: Screen) -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM, kept until the epoch is over; a second one ends at once."""
    signals: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        if signals:
            raise KeyboardInterrupt
        signals.append(number)
        screen.say("interrupted: the trial is saved after this epoch; once more ends at once")

    try:
        before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: whoever started it takes care of signals
        yield signals
        return
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Loop:
    def __init__(
        self,
        director: Director,
        data: DataSet,
        limits: Limits,
        screen: Screen,
        interruptions: list[int],
        where: torch.device,
    ):
        self.director, self.data, self.limits, self.screen, self.where = director, data, limits, screen, where
        self.interruptions = interruptions
        self.since = time.monotonic()
        self.halvings: dict[str, Halving] = {}  # by arm
        self.stopping = ""  # why, before all is done

    def run(self, most: int | None) -> None:
        trained = 0
        while (most is None or trained < most) and not self._must_stop():
            item = self.director.next()
            if isinstance(item, str):  # nothing is under way, so there is nothing to wait for
                return
            self.screen.started(item)
            self.director.save_soon()
            self._train(item)
            trained += 1
            if not self.stopping:
                self.screen.ended(item)
                self.director.save_soon()

    def _train(self, item: Item) -> None:
        try:
            self._to_its_end(item, graph=True)
        except CaptureError:
            self._to_its_end(item, graph=False)
        except (StorageError, RunLockedError):
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
            self.director.failed(item.key, reason, traceback.format_exc()[-8000:])

    def _to_its_end(self, item: Item, *, graph: bool) -> None:
        files = self.director.run.files.trial(item.key)
        try:
            trial = self._started(item, graph)
        except CheckpointError:  # damaged: the trial starts anew
            files.checkpoint.unlink(missing_ok=True)
            trial = self._started(item, graph)
        try:
            self._train_on(item, trial)
        finally:
            trial.settle()

    def _train_on(self, item: Item, trial: LiveTrial) -> None:
        while not trial.ended:
            record = trial.advance()
            if record is None:
                break
            self.screen.progress(item, record)
            self.director.save_soon()
            if self._stops_early(item, trial.trainer.epoch, record) and not trial.ended:
                self.director.stopped_early(item.key, trial.trainer.epoch, trial.seconds)
                return
            if not trial.ended and self._must_stop():
                trial.save()
                return
        result = trial.finish()
        self.director.run.files.trial(item.key).checkpoint.unlink(missing_ok=True)
        self.screen.note(item, result.notes)
        self.director.conclude(item.key, result)

    def _started(self, item: Item, graph: bool) -> LiveTrial:
        resources = self.director.study.resources
        return LiveTrial(
            item.trial,
            self.data,
            self.director.run.files.trial(item.key),
            where=self.where,
            threads=resources.cpus_per_trial,
            checkpoint_seconds=resources.checkpoint_seconds,
            graph=graph,
            test=item.predicts_test,
        )

    def _stops_early(self, item: Item, epoch: int, record: Mapping[str, float]) -> bool:
        search = self.director.study.search
        if item.phase != "search" or search is None or not search.early_stopping:
            return False
        halving = self.halvings.setdefault(item.arm, Halving(self.director.study.training.epochs))
        loss = loss_of(record, search)
        return loss is not None and halving.stops(item.key, epoch, loss)

    def _must_stop(self) -> bool:
        run, limits = self.director.run, self.limits
        if run.lost:
            raise RunLockedError(f"{run.lost}; this process ends, and what it has finished is kept")
        if self.interruptions:
            self.stopping = "interrupted"
        elif run.files.stop.exists():
            self.stopping = "stopped"
        elif limits.time_budget and time.monotonic() - self.since > limits.time_budget:
            self.stopping = "time"
        elif limits.max_cost is not None and self._spent() >= limits.max_cost:
            self.stopping = "cost"
        return bool(self.stopping)

    def _spent(self) -> float:
        return (time.monotonic() - self.since) / 3600 * (self.limits.price or 0.0)

    def ended(self, stopping: str, error: PilotstudyError | None = None) -> Ended:
        return Ended(stopping, error, {str(device.describe(self.where)): socket.gethostname()}, self._spent())
