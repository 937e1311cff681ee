"""How long a trial takes: a few timed steps of it, or an estimate for a GPU that is not here."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from pilotstudy.method.masked import Masked
from pilotstudy.metrics import registry, scores
from pilotstudy.schedule import prices
from pilotstudy.schedule.prices import Gpu, Work
from pilotstudy.trial import device
from pilotstudy.trial.trainer import PREDICTION_BATCH, Trainer

STEPS = 8  # of a short epoch; with a CUDA graph the fourth is captured


@dataclass(frozen=True)
class Cost:
    """Seconds of one step, and of a whole trial that has its device to itself."""

    step: float
    trial: float


@dataclass(frozen=True)
class Size:
    """Of a whole trial: its steps, and the images that it is evaluated on. Those that test are counted, not read.

    `extra`: images of further test sets, which are predicted at the last epoch alone.
    """

    steps: int
    validation: int
    test: int
    extra: int


def shorten(trainer: Trainer, steps: int) -> tuple[Size, Size]:
    """Leaves so many steps in an epoch, as far as there are images, and one batch of validation images.

    Gives the size of the whole trial, and that of what is left.
    """
    training = trainer.trial.training

    def size(epochs: int) -> Size:
        steps = epochs * math.ceil(len(trainer.images.train_rows) / training.batch_size)
        extra = sum(len(test.images) for test in trainer.data.tests)
        return Size(steps, len(trainer.images.validation_rows), len(trainer.data.test_labels), extra)

    whole = size(training.epochs)
    trainer.images.train_rows = trainer.images.train_rows[: steps * training.batch_size]
    trainer.images.validation_rows = trainer.images.validation_rows[:PREDICTION_BATCH]
    return whole, size(1)


def measured(trainer: Trainer) -> Cost:
    """What a trial takes here, on the trainer's device."""
    whole, part = shorten(trainer, STEPS)
    step, validation = short_epoch(trainer, part)
    predicting = sum(timed(partial(trainer.validation_logits_prepared, mode), trainer.where) for mode in trainer.modes)
    return cost(trainer, whole, part, step, validation, predicting)


def short_epoch(trainer: Trainer, part: Size) -> tuple[float, float]:
    """Seconds of a step and of the validation after an epoch, from the second of two short epochs."""
    trainer.train_epoch()  # slower: memory and kernels are made ready
    trainer.epoch = 0
    epoch = timed(trainer.train_epoch, trainer.where)
    training = trainer.history[-1]["seconds"]  # until the device has told its losses
    return training / part.steps, epoch - training


def estimated(trainer: Trainer, gpu: Gpu) -> Cost:
    """What a trial would take on a GPU, from the operations of a few steps on this CPU."""
    whole, part = shorten(trainer, 3)
    for module in trainer.regulariser.modules():
        if isinstance(module, Masked):  # as it is on CUDA
            module.mask_prior.dense = True
    trainer.train_epoch()  # what is made once is not counted
    trainer.epoch = 0
    epoch = counted(trainer.train_epoch)
    modes = {mode: counted(partial(trainer.validation_logits_prepared, mode)) for mode in trainer.modes}
    each = epoch.less(modes["point"], part.steps)
    step = prices.step_seconds(gpu, each, graph=trainer.trial.training.cuda_graph)
    predicting = {mode: prices.step_seconds(gpu, work) for mode, work in modes.items()}
    logits, labels = trainer.validation_logits("point"), trainer.data.train_labels[trainer.images.validation_rows]
    validation = predicting["point"] + timed(lambda: registry.evaluate_epoch(logits, labels))
    return cost(trainer, whole, part, step, validation, sum(predicting.values()))


def cost(trainer: Trainer, whole: Size, part: Size, step: float, validation: float, predicting: float) -> Cost:
    """A whole trial, from seconds of `part`: of a step, of its validation, and of predictions in all modes.

    At the end, the last and the best epoch are predicted for both splits, and measured as they are and after
    temperature scaling.
    """
    logits, labels = trainer.validation_logits("point"), trainer.data.train_labels[trainer.images.validation_rows]
    registry.evaluate(logits, labels)  # imports what it needs
    measuring = 2 * timed(lambda: registry.evaluate(logits, labels))
    fitting = timed(lambda: scores.fit_temperature(logits, labels))
    epochs, modes = trainer.trial.training.epochs, len(trainer.modes)
    parts, tests = whole.validation / part.validation, (whole.test + whole.extra / 2) / part.validation
    ending = 2 * ((parts + tests) * (predicting + modes * measuring) + parts * modes * fitting)
    return Cost(step, whole.steps * step + epochs * parts * validation + ending)


def timed(work: Callable[[], object], where: torch.device | None = None) -> float:
    """Seconds until the device has done it."""
    where = where or torch.device("cpu")
    device.synchronise(where)
    started = time.perf_counter()
    work()
    device.synchronise(where)
    return time.perf_counter() - started


def counted(work: Callable[[], object]) -> Work:
    seen = Operations()
    with seen:
        work()
    return seen.work


class Operations(TorchDispatchMode):
    """Counts what a GPU would be given: kernels, bytes read and written, float operations, and where the host waits."""

    NO_KERNEL = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "lift_fresh", "_unsafe_view")
    SOME_ROWS = ("index_select", "index", "gather")
    WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "bincount", "repeat_interleave", "equal")

    def __init__(self) -> None:
        super().__init__()
        self.work = Work()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        packet = func.overloadpacket
        name = packet.__name__
        if func.is_view or name in self.NO_KERNEL:
            return out
        given = [*args, *(kwargs.get(argument.name) for argument in func._schema.arguments[len(args) :])]
        changed = [
            value
            for value, argument in zip(given, func._schema.arguments, strict=True)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        made = [] if func._schema.is_mutable else out
        read = given[1:] if name in self.SOME_ROWS else given  # of the first no more than what comes out of it
        moved = sum(t.nbytes for t in tree_leaves([read, changed, made]) if isinstance(t, Tensor))
        flops = flop_registry[packet](*args, **kwargs, out_val=out) if packet in flop_registry else 0
        known = self.work
        self.work = Work(
            known.launches + (name != "_local_scalar_dense"),
            known.waits + (name in self.WAITS),
            known.bytes + moved,
            known.flops + flops,
        )
        return out
