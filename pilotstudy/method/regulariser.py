"""The frame every arm fits in: a network, what is done to it while it trains, and how it predicts."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self, TypedDict

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pilotstudy.method.checks import check_number
from pilotstudy.method.modes import predicting

Batches = Iterable[tuple[Tensor, Tensor]]  # of images and labels


class ParameterGroup(TypedDict, total=False):
    """What torch's optimisers take: parameters with options of their own."""

    params: list[nn.Parameter]
    lr: float
    weight_decay: float


class Settings(Protocol):
    """An arm's settings: a pydantic model."""

    def model_dump(self) -> dict[str, Any]: ...


class Inputs(Protocol):
    """What a regulariser may need to know of the data and the network: see `arms.arm.Inputs`."""

    @property
    def example(self) -> Tensor: ...
    @property
    def layers(self) -> Sequence[str]: ...
    @property
    def mean(self) -> Tensor: ...
    @property
    def deviation(self) -> Tensor: ...
    @property
    def train_size(self) -> int: ...


@dataclass(frozen=True)
class Loss:
    """One training step's losses. `total` is what to call `backward` on.

    `terms` are what an epoch reports beside them: name → (sum, what it is a sum over). `logits` are those of the pass,
    samples in the order given, where there is one pass (see `Regulariser.gives_logits`).
    """

    total: Tensor
    cross_entropy: Tensor
    terms: dict[str, tuple[Tensor, float | Tensor]] = field(default_factory=dict)
    logits: Tensor | None = None


class SamplingCost(NamedTuple):
    """`passes`: through a network. `weights`: how many networks' worth of them."""

    passes: int
    weights: int


class Regulariser(nn.Module):
    """A network trained as it is: the vanilla arm, L2 (`weight_decay`), and the base of all others.

    The network may itself be a regulariser. While the outer one trains, the inner one acts; in a point prediction
    neither does; in a sampled one both draw.
    """

    samples_predictions = True  # whether it draws in sampled predictions too, or in training alone
    keeps_weights = False  # whether it keeps weights of earlier steps, which must not be averaged once more

    def __init__(self, network: nn.Module, *, weight_decay: float = 0.0):
        super().__init__()
        check_number("weight_decay", weight_decay, least=0)
        self.network = network
        self.weight_decay = weight_decay
        self.sampling = False  # during a sampled prediction
        self.notes: list[str] = []  # what a user should know of how it was built
        if self.inner is not None:
            self.notes += self.inner.notes
        # The share of the training images that is set aside for `see_held_out`, and trains or fits nothing else.
        self.held_out: float = 0.0 if self.inner is None else self.inner.held_out
        self._progress = 0.0

    @classmethod
    def build(cls, settings: Settings, network: nn.Module, inputs: Inputs) -> Self:
        """Around the network, as an arm's settings say."""
        return cls(network, **settings.model_dump())

    @property
    def inner(self) -> "Regulariser | None":
        """The regulariser within this one."""
        return self.network if isinstance(self.network, Regulariser) else None

    @property
    def innermost(self) -> nn.Module:
        """The network itself, within all regularisers."""
        return self.network if self.inner is None else self.inner.innermost

    @property
    def gives_logits(self) -> bool:
        """Whether its loss is the cross-entropy of one pass, whose logits come with it, and what does not see y."""
        return type(self).loss is Regulariser.loss

    @property
    def progress(self) -> float:
        """How far training has come, 0 to 1: an annealed mask rate depends on it."""
        return self._progress

    @progress.setter
    def progress(self, progress: float) -> None:
        self._progress = progress
        if self.inner is not None:
            self.inner.progress = progress

    def get_extra_state(self) -> float:
        return self.progress

    def set_extra_state(self, state: float) -> None:
        self.progress = state

    def parameter_groups(self, learning_rate: float) -> list[ParameterGroup]:
        """For the optimiser. `weight_decay` is the coefficient of ½‖W‖² beside the mean cross-entropy, weights only."""
        if self.inner is not None:
            groups = self.inner.parameter_groups(learning_rate)
        else:
            groups = [{"params": list(self.network.parameters()), "lr": learning_rate}]
        if not self.weight_decay:
            return groups
        return [part for group in groups for part in self._decayed(group)]

    def make_optimiser(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer | None:
        """For the network, in place of the recipe's, where the method is an optimiser itself. Groups have rates."""
        return None if self.inner is None else self.inner.make_optimiser(groups)

    def _decayed(self, group: ParameterGroup) -> list[ParameterGroup]:
        weights, others = group.copy(), group.copy()
        weights["params"] = [p for p in group["params"] if p.ndim > 1]
        others["params"] = [p for p in group["params"] if p.ndim <= 1]
        weights["weight_decay"] = group.get("weight_decay", 0.0) + self.weight_decay
        return [weights, others]

    def forward(self, x: Tensor) -> Tensor:
        """In training, or when a prediction is sampled, the logits of a training pass; else the network's own."""
        if self.training or (self.sampling and self.samples_predictions):
            return self.training_logits(x)
        logits: Tensor = self.network(x)
        return logits

    @contextmanager
    def changed_inputs(self, x: Tensor) -> Iterator[Tensor]:
        """x as the regularisers within change it, which they then do not do again: for steps of several passes."""
        with nullcontext(x) if self.inner is None else self.inner.changed_inputs(x) as changed:
            yield changed

    def training_logits(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network(x)
        return logits

    def cross_entropy(self, logits: Tensor, y: Tensor) -> Tensor:
        """What the classifier is trained with: the mean over the batch."""
        return F.cross_entropy(logits, y) if self.inner is None else self.inner.cross_entropy(logits, y)

    def loss(self, x: Tensor, y: Tensor) -> Loss:
        logits = self.training_logits(x)
        cross_entropy = self.cross_entropy(logits, y)
        return Loss(cross_entropy, cross_entropy, logits=logits)

    def clip_gradients(self) -> Tensor | None:
        """Between `backward` and the optimiser's step; the norm before clipping, where an arm clips."""
        return None if self.inner is None else self.inner.clip_gradients()

    def capture(self, device: torch.device) -> None:
        """Before steps are captured as a CUDA graph: what changes from step to step must lie on the device."""
        if self.inner is not None:
            self.inner.capture(device)

    def before_step(self) -> None:
        """Before each step from then on: brings what changes up to date."""
        if self.inner is not None:
            self.inner.before_step()

    def see_held_out(self, x: Tensor) -> None:
        """Before each step of an arm with a share `held_out`: a batch of these images, unaugmented.

        All such batches of a trial have the same size. What is kept of them must stay at its place on the device, where
        a captured step finds it.
        """
        if self.inner is not None:
            self.inner.see_held_out(x)

    def after_epoch(self, batches: Batches) -> None:
        """At the end of each epoch, before it is validated: `progress` is up to date.

        `batches`: all training images, unaugmented, in a fixed order; they can be gone through several times, and cost
        nothing until then.
        """
        if self.inner is not None:
            self.inner.after_epoch(batches)

    def prepare_sampling(self, batches: Batches, samples: int) -> None:
        """Before sampled predictions of the weights as they are now: what has to be fitted for them is fitted here.

        `batches`: as those of `after_epoch`. `samples`: how many passes the predictions will have.
        """
        if self.inner is not None:
            self.inner.prepare_sampling(batches, samples)

    def sampling_cost(self, samples: int) -> SamplingCost:
        """Of a sampled prediction, with the weights as they are now."""
        return SamplingCost(samples, 1) if self.inner is None else self.inner.sampling_cost(samples)

    def sampled_probabilities(self, x: Tensor, samples: int) -> Tensor:
        """The softmax of each of `samples` stochastic passes [samples, n, K]."""
        return torch.stack([self(x).softmax(1) for _ in range(samples)])

    @torch.no_grad()
    def predict(self, x: Tensor, samples: int = 0) -> Tensor:
        """Logits of the point prediction; with `samples`, the logarithm of the averaged probabilities."""
        check_number("samples", samples, least=0, whole=True)
        if samples:
            return self.predict_sampled(x, samples)[0]
        with predicting(self):
            return self(x)  # type: ignore[no-any-return]

    @torch.no_grad()
    def predict_sampled(self, x: Tensor, samples: int) -> tuple[Tensor, Tensor]:
        """The logarithm of the averaged probabilities [n, K], and the mean entropy of the passes [n]."""
        nested = [m for m in self.modules() if isinstance(m, Regulariser)]
        with predicting(self):
            try:
                for regulariser in nested:
                    regulariser.sampling = True
                drawn = self.sampled_probabilities(x, samples)
            finally:
                for regulariser in nested:
                    regulariser.sampling = False
        log_mean = drawn.mean(0).clamp_min(torch.finfo(x.dtype).tiny).log()
        return log_mean, torch.special.entr(drawn).sum(2).mean(0)
