"""One trial, epoch by epoch: a classifier and, in Pilot's arms, its DGM, trained on a study's data."""

import copy
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pilotstudy import arms, device, metrics, networks
from pilotstudy.data.prepared import DataSet
from pilotstudy.data.splits import split
from pilotstudy.errors import CaptureError, CheckpointError, DivergedError
from pilotstudy.method.regulariser import Loss
from pilotstudy.spec import Trial

MC_SAMPLES = 10
PREDICTION_BATCH = 1000


@dataclass(frozen=True)
class Scaling:
    """How uint8 pixels become inputs: (pixel / 255 − mean) / deviation, a value for each channel."""

    mean: Tensor
    deviation: Tensor

    @classmethod
    def fit(cls, kind: str, images: np.ndarray[Any, Any], rows: np.ndarray[Any, Any]) -> "Scaling":
        channels = images.shape[1]
        if kind == "unit":
            return cls(torch.zeros(channels), torch.ones(channels))
        counts = np.zeros((channels, 256))
        for start in range(0, len(rows), 4096):
            pixels = images[rows[start : start + 4096]]
            counts += [np.bincount(pixels[:, channel].ravel(), minlength=256) for channel in range(channels)]
        weights, values = counts / counts.sum(1, keepdims=True), np.arange(256) / 255
        mean = weights @ values
        deviation = np.sqrt(np.maximum(weights @ values**2 - mean**2, 1e-8))
        return cls(torch.tensor(mean, dtype=torch.float32), torch.tensor(deviation, dtype=torch.float32))

    def to(self, where: torch.device) -> "Scaling":
        return Scaling(self.mean.to(where), self.deviation.to(where))

    @cached_property
    def _factor(self) -> Tensor:
        return (1 / (255 * self.deviation)).view(-1, 1, 1)

    @cached_property
    def _offset(self) -> Tensor:
        return (self.mean / self.deviation).view(-1, 1, 1)

    def __call__(self, pixels: Tensor) -> Tensor:
        """[n, C, H, W] uint8 → float32."""
        return pixels.float().mul_(self._factor).sub_(self._offset)


@dataclass
class Best:
    """The epoch with the lowest validation NLL so far, and both models as they were then."""

    epoch: int = 0
    nll: float = math.inf
    state: dict[str, Any] = field(default_factory=dict)


DEVICE_WORDS = {"cpu": "CPU", "cuda": "GPU"}


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
        train_rows, validation_rows = split(data.train_labels, trial.data.validation, trial.data.train_size)
        self.train_rows, self.validation_rows = torch.from_numpy(train_rows), torch.from_numpy(validation_rows)
        scaling = Scaling.fit(trial.data.scaling, data.train_images, train_rows)

        torch.manual_seed(trial.seed)
        arm = arms.get(trial.arm)
        network = networks.build(trial.network.name, data.shape, len(data.classes), **arm.network)
        settings = arm.settings.model_validate(trial.settings)
        example = scaling(torch.from_numpy(data.train_images[train_rows[:1]]))
        inputs = arms.Inputs(example, scaling.mean, scaling.deviation)
        self.regulariser = arm.build(settings, network, inputs).to(self.where)
        self.modes = arm.modes
        on_cuda = self.where.type == "cuda"
        captured = graph and trial.training.cuda_graph and on_cuda
        # `fused` is one pass over the parameters where the default takes several.
        groups = self.regulariser.parameter_groups(trial.training.learning_rate)
        self.optimiser = torch.optim.Adam(groups, fused=True, capturable=captured)
        # On a GPU the images go there once, as uint8; on a CPU this is the memory map itself.
        self.images = torch.from_numpy(data.train_images).to(self.where)
        self.labels = torch.from_numpy(data.train_labels).to(self.where)
        self.scaling = scaling.to(self.where)
        self.graph = GraphedStep(self) if captured else None
        self.notes: list[str] = []  # what a user should know of how it was trained
        if trial.training.cuda_graph and not on_cuda:
            self.notes.append("cuda_graph has no effect: the trial runs on a CPU")
        elif trial.training.cuda_graph and not graph:
            self.notes.append("steps were ordinary ones: capturing them as a CUDA graph failed")
        self.epoch = 0
        self.history: list[dict[str, float]] = []
        self.best = Best()

    def inputs(self, pixels: Tensor) -> Tensor:
        return self.scaling(pixels.to(self.where))

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """This epoch's batches, in an order that depends on seed and epoch only."""
        order = np.random.default_rng([self.trial.seed, self.epoch]).permutation(len(self.train_rows))
        rows = self.train_rows[torch.from_numpy(order)].to(self.where)
        for some in rows.split(self.trial.training.batch_size):
            if len(some) > 1 or len(rows) == 1:  # batch normalisation cannot take a batch of one
                yield self.inputs(self.images.index_select(0, some)), self.labels[some]

    def step(self, x: Tensor, y: Tensor) -> tuple[Loss, Tensor | None]:
        """One step of both optimisations; the losses, and the DGM's gradient norm before clipping."""
        with device.autocast(self.where, self.precision):
            loss = self.regulariser.loss(x, y)
        self.optimiser.zero_grad()
        loss.total.backward()
        norm = self.regulariser.clip_gradients()
        self.optimiser.step()
        return loss, norm

    def train_epoch(self) -> dict[str, float]:
        """Trains for one epoch and gives its record, which is also added to the history."""
        totals: dict[str, tuple[Tensor | float, Tensor | float]] = {}

        def add(name: str, value: Tensor | float, count: Tensor | float) -> None:
            value_before, count_before = totals.get(name, (0.0, 0.0))
            totals[name] = value_before + value, count_before + count

        self.regulariser.train()
        steps = math.ceil(len(self.train_rows) / self.trial.training.batch_size)
        step_on = self.graph or self.step
        started = time.perf_counter()
        for step, (x, y) in enumerate(self.batches()):
            self.regulariser.progress = (self.epoch + step / steps) / self.trial.training.epochs
            loss, norm = step_on(x, y)
            add("train_loss", loss.cross_entropy.detach() * len(y), len(y))
            add("objective", loss.total.detach(), 1)
            if norm is not None:
                add("gradient_norm", norm, 1)
            for name, (value, count) in loss.terms.items():
                add(name, value, count)
        means = {name: value / max(count, 1e-12) for name, (value, count) in on_host(totals).items()}
        seconds = time.perf_counter() - started
        self.epoch += 1
        self.regulariser.progress = self.epoch / self.trial.training.epochs
        validation = metrics.quick(self.validation_logits("point"), self.data.train_labels[self.validation_rows])
        if not all(map(math.isfinite, [*means.values(), *validation.values()])):
            raise DivergedError(self.epoch)
        del means["objective"]
        errors = {name: math.sqrt(value) for name, value in means.items() if name.startswith("imputation_error")}
        record = {
            "epoch": self.epoch,
            **means,
            **errors,
            **{f"validation_{name}": value for name, value in validation.items()},
            "seconds": seconds,
            "images_per_second": len(self.train_rows) / seconds,
        }
        self.history.append(record)
        if validation["nll"] < self.best.nll:
            self.best = Best(self.epoch, validation["nll"], copy.deepcopy(self.regulariser.state_dict()))
        return record

    def validation_logits(self, mode: arms.Mode) -> np.ndarray[Any, Any]:
        return self.predict(self.images, self.validation_rows, mode)

    def test_logits(self, mode: arms.Mode) -> np.ndarray[Any, Any]:
        """For the final evaluation; nothing else reads the test images."""
        images = torch.from_numpy(self.data.test_images)
        return self.predict(images, torch.arange(len(images)), mode)

    def predict(self, images: Tensor, rows: Tensor, mode: arms.Mode) -> np.ndarray[Any, Any]:
        """Logits [n, K], float32. Monte Carlo draws follow from the trial's seed and leave the training's own alone."""
        devices = [self.where] if self.where.type == "cuda" else []
        rows = rows.to(images.device)
        with torch.random.fork_rng(devices):
            torch.manual_seed(self.trial.seed + 1)
            samples = MC_SAMPLES if mode == "mc" else 0
            parts = [
                self.regulariser.predict(self.inputs(images.index_select(0, some)), samples)
                for some in rows.split(PREDICTION_BATCH)
            ]
        return torch.cat(parts).cpu().numpy()

    def state(self) -> dict[str, Any]:
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
            "random": torch.get_rng_state(),
            "random_cuda": torch.cuda.get_rng_state(self.where) if self.where.type == "cuda" else None,
        }

    def restore(self, state: dict[str, Any]) -> None:
        theirs = state["trial"]
        if theirs != self.trial.model_dump():
            keys = [key for key, value in self.trial.model_dump().items() if theirs.get(key) != value]
            raise CheckpointError(
                f"the checkpoint is of another trial ({theirs.get('arm')}, seed {theirs.get('seed')}; this one differs "
                f"in {', '.join(keys)}): choose another folder, or delete it to start anew"
            )
        if state["fingerprint"] != self.data.fingerprint:
            raise CheckpointError("the checkpoint is of other data: choose another folder, or delete it to start anew")
        self.regulariser.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        for group in self.optimiser.param_groups:  # the checkpoint's own may come from another device
            group["capturable"] = self.graph is not None
        torch.set_rng_state(state["random"])
        if self.where.type == "cuda" and state["random_cuda"] is not None:
            torch.cuda.set_rng_state(state["random_cuda"], self.where)
        self.epoch, self.history, self.best = state["epoch"], state["history"], Best(**state["best"])
        self.notes = state["notes"]
        if state["device"] != self.where.type:
            before, now = DEVICE_WORDS[state["device"]], DEVICE_WORDS[self.where.type]
            self.notes.append(f"went on on a {now} after epoch {self.epoch} on a {before}")


def on_host(totals: dict[str, tuple[Tensor | float, Tensor | float]]) -> dict[str, tuple[float, float]]:
    """The same as plain numbers, with one wait for the device."""
    flat = [number for pair in totals.values() for number in pair]
    tensors = [number.double() for number in flat if isinstance(number, Tensor)]
    read = iter(torch.stack(tensors).tolist() if tensors else [])
    plain = [next(read) if isinstance(number, Tensor) else number for number in flat]
    return dict(zip(totals, zip(plain[::2], plain[1::2], strict=True), strict=True))


class GraphedStep:
    """A training step captured as a CUDA graph: one launch in place of hundreds.

    The first steps of a process are ordinary ones, on a stream of their own, as torch asks for before a capture. The
    next is captured, and replayed from then on. Batches of another size are ordinary steps. Where capturing fails, that
    is a `CaptureError`, after which the trial starts again with ordinary steps: best in another process.
    """

    WARM_UP = 3

    def __init__(self, trainer: Trainer):
        self.trainer = trainer
        self.ordinary_steps = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.stream = torch.cuda.Stream(trainer.where)

    def __call__(self, x: Tensor, y: Tensor) -> tuple[Loss, Tensor | None]:
        size = self.trainer.trial.training.batch_size
        if len(y) == size and self.ordinary_steps < self.WARM_UP:
            return self._warm_up(x, y)
        if len(y) == size and self.graph is None:
            self.graph = self._capture(x, y)
        self.trainer.regulariser.before_step()
        if len(y) != size or self.graph is None:
            return self.trainer.step(x, y)
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self.loss, self.norm

    def _warm_up(self, x: Tensor, y: Tensor) -> tuple[Loss, Tensor | None]:
        self.ordinary_steps += 1
        now = torch.cuda.current_stream(self.trainer.where)
        self.stream.wait_stream(now)
        with torch.cuda.stream(self.stream):
            done = self.trainer.step(x, y)
        now.wait_stream(self.stream)
        return done

    def _capture(self, x: Tensor, y: Tensor) -> torch.cuda.CUDAGraph:
        """Writes down what a step launches; nothing is computed yet."""
        self.x, self.y = x.clone(), y.clone()
        self.trainer.regulariser.capture(self.trainer.where)
        self.trainer.optimiser.zero_grad()  # so that gradients are made in the graph's own memory
        graph = torch.cuda.CUDAGraph()
        generator = torch.cuda.default_generators[self.trainer.where.index or 0]
        before = generator.clone_state()
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                self.loss, self.norm = self.trainer.step(self.x, self.y)
        except RuntimeError as error:
            generator.graphsafe_set_state(before)  # else it would go on thinking that it is being captured
            raise CaptureError(" ".join(str(error).split())[:200]) from error
        return graph
