"""The frame every arm fits in: a network, what is done to it while it trains, and how it predicts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pilotstudy.method.activations import Activations
from pilotstudy.method.masks import Mask, MaskKind, MaskPrior

Schedule = Literal["constant", "annealed"]


@dataclass(frozen=True)
class Loss:
    """One training step's losses. `total` is what to call `backward` on.

    `terms` are what an epoch reports beside them: name → (sum, what it is a sum over).
    """

    total: Tensor
    cross_entropy: Tensor
    terms: dict[str, tuple[Tensor, float | Tensor]] = field(default_factory=dict)


class Regulariser(nn.Module):
    """A network trained as it is: the vanilla arm, L2 (`weight_decay`), and the base of all others."""

    samples = False
    """Whether the arm has a Monte Carlo mode."""

    def __init__(self, network: nn.Module, *, weight_decay: float = 0.0):
        super().__init__()
        self.network = network
        self.weight_decay = weight_decay
        self.progress = 0.0  # how far training has come, 0 to 1: an annealed mask rate depends on it

    def get_extra_state(self) -> float:
        return self.progress

    def set_extra_state(self, state: float) -> None:
        self.progress = state

    def parameter_groups(self, learning_rate: float) -> list[dict[str, Any]]:
        """For the optimiser. `weight_decay` is the coefficient of ½‖W‖² beside the mean cross-entropy, weights only."""
        if not self.weight_decay:
            return [{"params": list(self.network.parameters()), "lr": learning_rate}]
        weights = [p for p in self.network.parameters() if p.ndim > 1]
        others = [p for p in self.network.parameters() if p.ndim <= 1]
        return [
            {"params": weights, "lr": learning_rate, "weight_decay": self.weight_decay},
            {"params": others, "lr": learning_rate},
        ]

    def training_logits(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network(x)
        return logits

    def loss(self, x: Tensor, y: Tensor) -> Loss:
        cross_entropy = F.cross_entropy(self.training_logits(x), y)
        return Loss(cross_entropy, cross_entropy)

    def clip_gradients(self) -> Tensor | None:
        """Between `backward` and the optimiser's step; the norm before clipping, where an arm clips."""
        return None

    def capture(self, device: torch.device) -> None:
        """Before steps are captured as a CUDA graph: what changes from step to step must lie on the device."""

    def before_step(self) -> None:
        """Before each step from then on: brings what changes up to date."""

    def sampled_probabilities(self, x: Tensor, samples: int) -> Tensor:
        """The mean of the softmax over `samples` stochastic passes."""
        return torch.stack([self.training_logits(x).softmax(1) for _ in range(samples)]).mean(0)

    @torch.no_grad()
    def predict(self, x: Tensor, samples: int = 0) -> Tensor:
        """Logits of the point prediction; with `samples`, the logarithm of the averaged probabilities."""
        training = self.training
        self.eval()
        try:
            if not samples:
                logits: Tensor = self.network(x)
                return logits
            return self.sampled_probabilities(x, samples).clamp_min(torch.finfo(x.dtype).tiny).log()
        finally:
            self.train(training)


class Masked(Regulariser):
    """A regulariser that changes the activations under a mask b ~ p(b)."""

    samples = True

    def __init__(
        self,
        network: nn.Module,
        layers: Sequence[str],
        example: Tensor,
        *,
        mask: MaskKind,
        mask_rate: float,
        mask_schedule: Schedule = "constant",
    ):
        super().__init__(network)
        self.activations = Activations(network, layers, example)
        self.mask_prior = MaskPrior(mask, self.activations.sizes[:-1])
        self.mask_rate, self.mask_schedule = mask_rate, mask_schedule
        self.rate_on_device: Tensor | None = None

    def rate_now(self) -> float:
        """`mask_rate`, or, annealed, from 0 up to it in proportion to the progress."""
        return self.mask_rate * (self.progress if self.mask_schedule == "annealed" else 1.0)

    def draw_mask(self, x: Tensor) -> Mask:
        """b ~ p(b) at the present rate."""
        on_device = self.rate_on_device if self.training else None
        return self.mask_prior.draw(len(x), self.rate_now() if on_device is None else on_device, x.device)

    def capture(self, device: torch.device) -> None:
        self.rate_on_device = torch.full((), self.rate_now(), device=device)

    def before_step(self) -> None:
        if self.rate_on_device is not None:
            self.rate_on_device.fill_(self.rate_now())
