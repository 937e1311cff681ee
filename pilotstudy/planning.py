"""What a study would cost: a few timed steps of each of its arms, or an estimate for a GPU that is not here.

A short epoch is trained as trials train it, and evaluated on validation images; test images are only counted.
"""

import math
import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from pilotstudy import device, metrics, prices
from pilotstudy.data.prepared import load
from pilotstudy.director import counts
from pilotstudy.method.regulariser import Masked
from pilotstudy.prices import Gpu, Work
from pilotstudy.progress import Progress
from pilotstudy.spec import Study, trial
from pilotstudy.training import PREDICTION_BATCH, Trainer

STEPS = 8  # of a short epoch; with a CUDA graph the fourth is captured
START_SECONDS = 15.0  # Ray's own start, and that of its first actors
CONTEXT_GIB = 0.5  # what CUDA itself takes of a GPU's memory for each process


@dataclass(frozen=True)
class Cost:
    """Seconds of one step, and of a whole trial that has its device to itself."""

    step: float
    trial: float


def plan(
    study: Study,
    data_dir: Path | None,
    *,
    cpus: int,
    concurrency: int | None = None,
    share: float | Literal["auto"] = 0.0,
    gpu: Gpu | None = None,
    price: float | None = None,
) -> dict[str, Any]:
    """`share` of a GPU for each trial: with one, the GPU is timed that `run` will use, else the CPU.

    `gpu`: a machine with such a GPU instead; it is measured where it is here, and estimated where it is not.
    """
    here = gpu is not None and torch.cuda.is_available() and gpu.is_card(torch.cuda.get_device_name())
    where = device.choose("cuda" if here or (share and gpu is None) else "cpu")
    guessed = None if here else gpu
    data = load(study.data.name, data_dir, study.data.image_size)

    def cost_of(arm: str) -> Cost:
        trainer = Trainer(trial(study, arm, study.seeds[0]), data, where, cpus)
        return estimated(trainer, guessed) if guessed else measured(trainer)

    rows = arm_rows(study, cost_of)
    together = 1 if share in (0, "auto") else round(1 / float(share))  # trials on one GPU
    room = max(1, (os.cpu_count() or 1) // cpus)
    if guessed or where.type == "cuda":
        gpus = 1 if guessed else torch.cuda.device_count()
        fit = gpus * together if guessed else min(gpus * together, room)
        at_once = min(fit, concurrency or fit)
        lanes = min(gpus, at_once)  # no speed-up is counted for trials that share a GPU
    else:
        at_once = lanes = concurrency or room
    total, longest = sum(row["seconds"] for row in rows) / lanes, longest_chain(rows)
    seconds = max(total, longest) + (60 * prices.START_MINUTES if guessed else START_SECONDS)
    dollars = price or (gpu.price if gpu else None)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    on_gpu = torch.cuda.max_memory_reserved() / 2**30 + CONTEXT_GIB if where.type == "cuda" else None
    return {
        "arms": rows,
        "trials": sum(counts(study).values()),
        "device": guessed.one if guessed else str(device.describe(where)),
        "measured": guessed is None,
        "concurrency": at_once,
        "seconds": seconds,
        "ends": time.strftime("%Y-%m-%d %H:%M", time.localtime(time.time() + seconds)),
        "memory_gib": None if guessed else peak * at_once,
        "gpu_memory_gib": None if on_gpu is None else on_gpu * together,
        "price": dollars,
        "machine": f"one machine with {gpu.one}" if gpu else "one machine like this one",
        "machines": prices.machines(total, longest, dollars) if dollars else [],
        "notes": notes(share, together, dollars, listed=gpu if price is None else None),
    }


def arm_rows(study: Study, cost_of: Callable[[str], Cost]) -> list[dict[str, Any]]:
    """What each arm's trials cost, and how many there are in each phase."""
    number = counts(study)
    searched = study.search.arms if study.search and number["search"] else ()
    rows: list[dict[str, Any]] = []
    with Progress("timing", len(study.arms)) as progress:
        for arm in study.arms:
            cost = cost_of(arm)
            phases = {
                "arms": len(study.seeds),
                "search": number["search"] // len(searched) if arm in searched else 0,
                "confirm": number["confirm"] // len(searched) if arm in searched else 0,
            }
            row = {"arm": arm, "ms_a_step": 1000 * cost.step, "seconds_a_trial": cost.trial, **phases}
            rows.append(row | {"seconds": cost.trial * sum(phases.values())})
            progress.advance()
    return rows


def longest_chain(rows: list[dict[str, Any]]) -> float:
    """Seconds that no number of machines can save: the longest trial, and after the search the longest confirmation."""
    confirmed = [row["seconds_a_trial"] for row in rows if row["confirm"]]
    return float(max(row["seconds_a_trial"] for row in rows) + max(confirmed, default=0.0))


def notes(share: float | str, together: int, price: float | None, listed: Gpu | None) -> list[str]:
    """What the figures rest on. `listed`: the GPU whose price is that of our table."""
    found = []
    if together > 1:
        found.append(f"{together} trials share a GPU: times are of one alone, and no speed-up from sharing is counted")
    elif share == "auto":
        found.append("how many trials share a GPU is decided when the study runs; no speed-up from sharing is counted")
    if price:
        found.append(f"a machine takes {prices.START_MINUTES:g} min to start, which is paid and counted")
        found.append("with more than one, a small machine for the cluster's head (some 0.1 $ an hour) comes on top")
    if listed:
        found.append(f"the price is {listed.origin}; --price sets another")
    return found


@dataclass(frozen=True)
class Size:
    """Of a whole trial: its steps, and the images that it is evaluated on. Test images are counted, not read."""

    steps: int
    validation: int
    test: int


def shorten(trainer: Trainer, steps: int) -> tuple[Size, Size]:
    """Leaves so many steps in an epoch, as far as there are images, and one batch of validation images.

    Gives the size of the whole trial, and that of what is left.
    """
    training = trainer.trial.training

    def size(epochs: int) -> Size:
        steps = epochs * math.ceil(len(trainer.train_rows) / training.batch_size)
        return Size(steps, len(trainer.validation_rows), len(trainer.data.test_labels))

    whole = size(training.epochs)
    trainer.train_rows = trainer.train_rows[: steps * training.batch_size]
    trainer.validation_rows = trainer.validation_rows[:PREDICTION_BATCH]
    return whole, size(1)


def measured(trainer: Trainer) -> Cost:
    """What a trial takes here, on the trainer's device."""
    whole, part = shorten(trainer, STEPS)
    step, validation = short_epoch(trainer, part)
    predicting = sum(timed(partial(trainer.validation_logits, mode), trainer.where) for mode in trainer.modes)
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
    if isinstance(trainer.regulariser, Masked):  # as it is on CUDA
        trainer.regulariser.mask_prior.dense = True
    trainer.train_epoch()  # what is made once is not counted
    trainer.epoch = 0
    epoch = counted(trainer.train_epoch)
    modes = {mode: counted(partial(trainer.validation_logits, mode)) for mode in trainer.modes}
    each = epoch.less(modes["point"], part.steps)
    step = prices.step_seconds(gpu, each, graph=trainer.trial.training.cuda_graph)
    predicting = {mode: prices.step_seconds(gpu, work) for mode, work in modes.items()}
    logits, labels = trainer.validation_logits("point"), trainer.data.train_labels[trainer.validation_rows]
    validation = predicting["point"] + timed(lambda: metrics.quick(logits, labels))
    return cost(trainer, whole, part, step, validation, sum(predicting.values()))


def cost(trainer: Trainer, whole: Size, part: Size, step: float, validation: float, predicting: float) -> Cost:
    """A whole trial, from seconds of `part`: of a step, of its validation, and of predictions in all modes.

    At the end, the last and the best epoch are predicted for both splits, and measured as they are and after
    temperature scaling.
    """
    logits, labels = trainer.validation_logits("point"), trainer.data.train_labels[trainer.validation_rows]
    metrics.evaluate(logits, labels)  # imports what it needs
    measuring = 2 * timed(lambda: metrics.evaluate(logits, labels))
    fitting = timed(lambda: metrics.fit_temperature(logits, labels))
    epochs, modes = trainer.trial.training.epochs, len(trainer.modes)
    parts, tests = whole.validation / part.validation, whole.test / part.validation
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
