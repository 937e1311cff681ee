"""One trial, epoch by epoch: a classifier and, in Pilot's arms, its DGM, trained on a study's data."""

import copy
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pilotstudy.arms.arm import Mode
from pilotstudy.arms.catalogue import arm_named
from pilotstudy.arms.sampling import MC_SAMPLES
from pilotstudy.data.dataset import DataSet
from pilotstudy.errors import CheckpointError, DivergedError
from pilotstudy.method.regulariser import Loss
from pilotstudy.metrics import registry
from pilotstudy.study.spec import Trial
from pilotstudy.trial import device
from pilotstudy.trial.augmenting import Augmenting
from pilotstudy.trial.averaging import Averaging
from pilotstudy.trial.averaging import State as Averaged
from pilotstudy.trial.graph import GraphedStep
from pilotstudy.trial.images import TrialImages
from pilotstudy.trial.model import build_model
from pilotstudy.trial.optimising import Optimising, has_own_optimiser, why_not_captured
from pilotstudy.trial.optimising import State as OptimiserState

PREDICTION_BATCH = 1000
DEVICE_WORDS = {"cpu": "CPU", "cuda": "GPU"}

EpochRecord = dict[str, float]  # by name what is known of an epoch


@dataclass
class Best:
    """The epoch with the lowest validation NLL so far, and both models as they were then."""

    epoch: int = 0
    nll: float = math.inf
    state: dict[str, Tensor] = field(default_factory=dict)


class State(TypedDict):
    """Everything that a trial needs to go on from where it is: what a checkpoint holds."""

    trial: dict[str, object]
    fingerprint: str
    epoch: int
    device: str
    notes: list[str]
    history: list[EpochRecord]
    best: dict[str, object]
    model: dict[str, Tensor]
    optimiser: OptimiserState
    averaging: Averaged
    random: Tensor
    random_cuda: Tensor | None


class Predicted(NamedTuple):
    """Logits [n, K], and of sampled predictions the mean entropy of the draws [n]."""

    logits: NDArray[np.float32]
    expected_entropy: NDArray[np.float32] | None = None


class Trainer:
    """Trains one trial. Everything random follows from its seed: the initial weights and the order of the images
    are the same for every arm, so that arms can be compared in pairs.
    """

    def __init__(
        self,
        trial: Trial,
        data: DataSet,
        where: torch.device | None = None,
        threads: int | None = None,
        *,
        graph: bool = True,
    ):
        self.trial, self.data = trial, data
        self.where = where or device.choose()
        self.precision = trial.training.precision
        device.configure(self.where, self.precision, threads)
        self.images = TrialImages(trial.data, data, self.where, trial.seed)
        self.regulariser = build_model(trial, data.shape, len(data.classes), self.images.described, self.where)
        self.images.set_aside(self.regulariser.held_out, trial.seed)
        self.modes = arm_named(trial.arm).modes
        self.augmenting = Augmenting(trial.training.augmentation, self.images.described, self.where)
        self.averaging = Averaging(trial.training.average, self.regulariser)
        own_optimiser = has_own_optimiser(self.regulariser)
        cannot = why_not_captured(trial.training, own_optimiser=own_optimiser)
        captured = graph and trial.training.cuda_graph and self.where.type == "cuda" and not cannot
        self.optimiser = Optimising(self.regulariser, trial.training, captured=captured)
        self.graph = (
            GraphedStep(self.step, self.regulariser, self.optimiser, self.where, trial.training.batch_size)
            if captured
            else None
        )
        self.notes: list[str] = list(self.regulariser.notes)  # what a user should know of how it was trained
        if own_optimiser:
            self.notes.append(f"{trial.arm} is an optimiser: of the recipe's, only rate, schedule and decay apply")
        if trial.training.cuda_graph and self.where.type != "cuda":
            self.notes.append("cuda_graph has no effect: the trial runs on a CPU")
        elif trial.training.cuda_graph and cannot:
            self.notes.append(f"steps were ordinary ones: {cannot}")
        elif trial.training.cuda_graph and not graph:
            self.notes.append("steps were ordinary ones: capturing them as a CUDA graph failed")
        self.epoch = 0
        self.history: list[EpochRecord] = []
        self.best = Best()

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """This epoch's batches. With each of them, an arm that asked for held-out images sees some."""
        seed, epoch, size = self.trial.seed, self.epoch, self.trial.training.batch_size
        held_out = self.images.held_out_batches(seed, epoch, size)
        for step, (x, y) in enumerate(self.images.batches(seed, epoch, size)):
            if self.regulariser.held_out:
                self.regulariser.see_held_out(next(held_out))
            yield self.augmenting(x, seed, epoch, step), y

    @property
    def done(self) -> bool:
        """Whether there is nothing left to train."""
        training = self.trial.training
        since = max(self.best.epoch, self.averaging.before_start(self.epoch))
        waited = training.patience is not None and self.epoch - since >= training.patience
        return self.epoch >= training.epochs or waited

    def step(self, x: Tensor, y: Tensor) -> tuple[Loss, Tensor | None]:
        """One step of both optimisations; the losses, and the DGM's gradient norm before clipping."""
        with device.autocast(self.where, self.precision):
            loss = self.regulariser.loss(x, y)
        self.optimiser.zero_grad()
        loss.total.backward()
        norm = self.regulariser.clip_gradients()
        self.optimiser.clip()
        self.optimiser.step()
        return loss, norm

    def train_epoch(self) -> EpochRecord:
        """Trains for one epoch and gives its record, which is also added to the history."""
        started = time.perf_counter()
        means = self._train_steps()
        seconds = time.perf_counter() - started
        self.epoch += 1
        self.regulariser.progress = self.epoch / self.trial.training.epochs
        labels = self.data.train_labels[self.images.validation_rows]
        progress = self.epoch / self.trial.training.epochs
        self.regulariser.after_epoch(self.images.in_order(PREDICTION_BATCH))
        self.averaging.after_epoch(progress, self.images.all_inputs(PREDICTION_BATCH))
        with self.averaging.used():
            validation = registry.evaluate_epoch(self.validation_logits("point"), labels)
        if not all(map(math.isfinite, [*means.values(), *validation.values()])):
            raise DivergedError(self.epoch)
        del means["objective"]  # it says no more than whether training has diverged
        errors = {name: math.sqrt(value) for name, value in means.items() if name.startswith("imputation_error")}
        record = {
            "epoch": self.epoch,
            **means,
            **errors,
            **{f"validation_{name}": value for name, value in validation.items()},
            "learning_rate": self.optimiser.rate,
            "seconds": seconds,
            "images_per_second": len(self.images.train_rows) / seconds,
        }
        self.history.append(record)
        if validation["nll"] < self.best.nll:
            with self.averaging.used():
                self.best = Best(self.epoch, validation["nll"], copy.deepcopy(self.regulariser.state_dict()))
        return record

    def _train_steps(self) -> dict[str, float]:
        """The steps of one epoch; the mean of each term of the loss over them."""
        totals: dict[str, tuple[Tensor | float, Tensor | float]] = {}

        def add(name: str, value: Tensor | float, count: Tensor | float) -> None:
            value_before, count_before = totals.get(name, (0.0, 0.0))
            totals[name] = value_before + value, count_before + count

        self.regulariser.train()
        steps = math.ceil(len(self.images.train_rows) / self.trial.training.batch_size)
        train_on = self.graph or self.step
        for step, (x, y) in enumerate(self.batches()):
            self.regulariser.progress = (self.epoch + step / steps) / self.trial.training.epochs
            self.optimiser.schedule(self.epoch + step / steps)
            loss, norm = train_on(x, y)
            self.averaging.after_step()
            add("train_loss", loss.cross_entropy.detach() * len(y), len(y))
            add("objective", loss.total.detach(), 1)
            if norm is not None:
                add("gradient_norm", norm, 1)
            for name, (value, count) in loss.terms.items():
                add(name, value, count)
        return {name: value / max(count, 1e-12) for name, (value, count) in on_host(totals).items()}

    def validation_logits(self, mode: Mode) -> NDArray[np.float32]:
        """Of the model as it is now."""
        return self.predict(self.images.pixels, self.images.validation_rows, mode)

    def predict_images(self, images: NDArray[np.uint8], mode: Mode) -> Predicted:
        """Of images that test, for the final evaluation; nothing else reads them."""
        pixels = torch.from_numpy(images)
        return self._predicted(pixels, torch.arange(len(pixels)), mode)

    def validation_logits_prepared(self, mode: Mode) -> NDArray[np.float32]:
        """The same, with what Monte Carlo predictions need beforehand."""
        if mode == "mc":
            self.prepare_sampling()
        return self.validation_logits(mode)

    def prepare_sampling(self) -> None:
        """Before Monte Carlo predictions of the model as it is now."""
        with self._drawing(2):
            self.regulariser.prepare_sampling(self.images.in_order(PREDICTION_BATCH), MC_SAMPLES)

    @contextmanager
    def _drawing(self, number: int) -> Iterator[None]:
        """What is drawn within follows from the trial's seed and this number, and leaves the training's own alone."""
        with torch.random.fork_rng([self.where] if self.where.type == "cuda" else []):
            torch.manual_seed(self.trial.seed + number)
            yield

    def predict(self, pixels: Tensor, rows: Tensor, mode: Mode) -> NDArray[np.float32]:
        """Logits [n, K], float32. For Monte Carlo predictions, prepare them first."""
        return self._predicted(pixels, rows, mode).logits

    def _predicted(self, pixels: Tensor, rows: Tensor, mode: Mode) -> Predicted:
        batches = (pixels.index_select(0, batch) for batch in rows.to(pixels.device).split(PREDICTION_BATCH))
        with self._drawing(1):
            if mode == "point":
                parts = [self.regulariser.predict(self.images.inputs(batch)) for batch in batches]
                return Predicted(torch.cat(parts).cpu().numpy())
            drawn = [self.regulariser.predict_sampled(self.images.inputs(batch), MC_SAMPLES) for batch in batches]
        logits, entropies = (torch.cat(of_batches).cpu().numpy() for of_batches in zip(*drawn, strict=True))
        return Predicted(logits, entropies)

    def state(self) -> State:
        """Everything to go on from here, for `checkpoint.save`."""
        return {
            "trial": self.trial.model_dump(),
            "fingerprint": self.data.fingerprint,
            "epoch": self.epoch,
            "device": self.where.type,
            "notes": self.notes,
            "history": self.history,
            "best": vars(self.best),
            "model": self.regulariser.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "averaging": self.averaging.state(),
            "random": torch.get_rng_state(),
            "random_cuda": torch.cuda.get_rng_state(self.where) if self.where.type == "cuda" else None,
        }

    def restore(self, state: State) -> None:
        """Goes on from a checkpoint of the same trial, on any device."""
        self._check_own(state)
        self.regulariser.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.averaging.restore(state["averaging"])
        torch.set_rng_state(state["random"])
        if self.where.type == "cuda" and state["random_cuda"] is not None:
            torch.cuda.set_rng_state(state["random_cuda"], self.where)
        self.epoch, self.history, self.best = state["epoch"], state["history"], Best(**state["best"])  # type: ignore[arg-type]
        self.notes = state["notes"]
        if state["device"] != self.where.type:
            before, now = DEVICE_WORDS[state["device"]], DEVICE_WORDS[self.where.type]
            self.notes.append(f"went on on a {now} after epoch {self.epoch} on a {before}")

    def _check_own(self, state: State) -> None:
        """Refuses the checkpoint of another trial, or of other data."""
        theirs = state["trial"]
        if theirs != self.trial.model_dump():
            keys = [key for key, value in self.trial.model_dump().items() if theirs.get(key) != value]
            raise CheckpointError(
                f"the checkpoint is of another trial ({theirs.get('arm')}, seed {theirs.get('seed')}; this one differs "
                f"in {', '.join(keys)}): choose another folder, or delete it to start again"
            )
        if state["fingerprint"] != self.data.fingerprint:
            raise CheckpointError("the checkpoint is of other data: choose another folder, or delete it to start again")


def on_host(totals: dict[str, tuple[Tensor | float, Tensor | float]]) -> dict[str, tuple[float, float]]:
    """The same as plain numbers, with one wait for the device."""
    flat = [number for pair in totals.values() for number in pair]
    tensors = [number.double() for number in flat if isinstance(number, Tensor)]
    read = iter(torch.stack(tensors).tolist() if tensors else [])
    plain = [next(read) if isinstance(number, Tensor) else number for number in flat]
    return dict(zip(totals, zip(plain[::2], plain[1::2], strict=True), strict=True))
