"""Stochastic gradient Langevin dynamics: an optimiser whose steps are draws from the posterior."""

import math
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor, nn

from pilotstudy.method.checks import check_choice, check_number
from pilotstudy.method.regulariser import Batches, Inputs, Loss, ParameterGroup, Regulariser, SamplingCost, Settings
from pilotstudy.method.weights import Vector

Preconditioner = Literal["none", "rmsprop"]
MEMORY, DAMPING = 0.99, 1e-5  # of the preconditioner, as Li et al. have them


class LangevinOptimiser(torch.optim.Optimizer):
    """SGLD (Welling and Teh, 2011), with the RMSprop preconditioner of pSGLD (Li et al., 2016) if asked for.

    For the gradient g of the *mean* loss over N images and d = g + θ/(N σₚ²): θ ← θ − η G d + √(2 η T G/N) ξ with
    ξ ~ N(0, 1). G is 1, or 1/(λ + √V) with V the running mean of d², from the first on; its derivative is left out, as
    they do. (Their V is of g alone, which lets steps of the prior grow without bound.) A weight decay is a prior of
    precision N times as large, and adds to that of σₚ.
    """

    def __init__(
        self,
        params: Any,
        *,
        lr: float = 1e-3,
        train_size: int,
        prior_deviation: float,
        temperature: float,
        preconditioner: Preconditioner,
    ):
        super().__init__(params, {"lr": lr, "weight_decay": 0.0})
        self.train_size, self.temperature = train_size, temperature
        self.prior_decay = 1 / (train_size * prior_deviation**2)
        self.preconditioner = preconditioner

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step(parameter, parameter.grad, group["lr"], group["weight_decay"] + self.prior_decay)

    def _step(self, parameter: Tensor, gradient: Tensor, rate: float, decay: float) -> None:
        drift = gradient + decay * parameter
        noise = math.sqrt(2 * rate * self.temperature / self.train_size) * torch.randn_like(parameter)
        if self.preconditioner == "rmsprop":
            state = self.state[parameter]
            if not state:
                state["square"] = drift.square()
            state["square"].lerp_(drift.square(), 1 - MEMORY)
            scale = 1 / (DAMPING + state["square"].sqrt())
            drift, noise = drift * scale, noise * scale.sqrt()
        parameter.sub_(rate * drift).add_(noise)


class Langevin(Regulariser):
    """A network trained by SGLD (see `LangevinOptimiser`), which keeps weights from the last part of the training.

    The rate is the recipe's, on its schedule. From `start` of the training on, up to `snapshots` weights are kept at
    equal distances. A sampled prediction is the mean over all of them; the point prediction is that of the last
    weights. Before there are any, both are the same.
    """

    keeps_weights = True

    kept: Tensor  # [snapshots, size]
    is_kept: Tensor

    def __init__(
        self,
        network: nn.Module,
        *,
        train_size: int,
        preconditioner: Preconditioner = "rmsprop",
        temperature: float = 0.01,
        prior_deviation: float = 1.0,
        start: float = 0.7,
        snapshots: int = 20,
    ):
        super().__init__(network)
        check_number("train_size", train_size, least=1, whole=True)
        check_choice("preconditioner", preconditioner, get_args(Preconditioner))
        check_number("temperature", temperature, least=0)
        check_number("prior_deviation", prior_deviation, above=0)
        check_number("start", start, least=0, below=1)
        check_number("snapshots", snapshots, least=1, whole=True)
        self.train_size, self.temperature, self.prior_deviation = train_size, temperature, prior_deviation
        self.preconditioner: Preconditioner = preconditioner
        self.start = start
        self.vector = Vector(network)
        self.register_buffer("kept", self.vector.of(network).new_zeros(snapshots, self.vector.size))
        self.register_buffer("is_kept", torch.zeros(snapshots, dtype=torch.bool))

    @classmethod
    def build(cls, settings: Settings, network: nn.Module, inputs: Inputs) -> Self:
        return cls(network, train_size=inputs.train_size, **settings.model_dump())

    def make_optimiser(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        return LangevinOptimiser(
            [dict(group) for group in groups],
            train_size=self.train_size,
            prior_deviation=self.prior_deviation,
            temperature=self.temperature,
            preconditioner=self.preconditioner,
        )

    @torch.no_grad()
    def keep(self) -> None:
        """Puts the weights in the place of the present part of the training, where a later step's may follow."""
        places = len(self.kept)
        share = (self.progress - self.start) / (1 - self.start)
        if share >= 0:
            place = min(places - 1, math.floor(places * share + 1e-9))
            self.kept[place].copy_(self.vector.of(self.network))
            self.is_kept[place].fill_(True)

    def loss(self, x: Tensor, y: Tensor) -> Loss:
        self.keep()
        return super().loss(x, y)

    def after_epoch(self, batches: Batches) -> None:
        super().after_epoch(batches)
        self.keep()

    def sampling_cost(self, samples: int) -> SamplingCost:
        kept = int(self.is_kept.sum())
        return SamplingCost(kept, kept) if kept else super().sampling_cost(samples)

    def sampled_probabilities(self, x: Tensor, samples: int) -> Tensor:
        kept = self.kept[self.is_kept]
        if not len(kept):
            return super().sampled_probabilities(x, samples)
        return torch.stack([self.vector.call(self.network, each, x).softmax(1) for each in kept])
