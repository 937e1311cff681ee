"""Regularisers that change some activations: those under a mask that is drawn anew in each step."""

from collections.abc import Sequence
from typing import Literal, Self, get_args

import torch
from torch import Tensor, nn

from pilotstudy.method.activations import Activations
from pilotstudy.method.checks import check_choice, check_number
from pilotstudy.method.masks import MASK_KINDS, Mask, MaskKind, MaskPrior
from pilotstudy.method.regulariser import Inputs, Regulariser, Settings

Schedule = Literal["constant", "annealed"]


class Masked(Regulariser):
    """A regulariser that changes the activations under a mask b ~ p(b)."""

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
        check_choice("mask", mask, MASK_KINDS)
        check_choice("mask_schedule", mask_schedule, get_args(Schedule))
        check_number("mask_rate", mask_rate, above=0, most=1)
        self.activations = Activations(network, layers, example)
        self.mask_prior = MaskPrior(mask, self.activations.sizes[:-1])
        self.mask_rate, self.mask_schedule = mask_rate, mask_schedule
        self.rate_on_device: Tensor | None = None

    @classmethod
    def build(cls, settings: Settings, network: nn.Module, inputs: Inputs) -> Self:
        return cls(network, inputs.layers, inputs.example, **settings.model_dump())

    def rate_now(self) -> float:
        """`mask_rate`, or, annealed, from 0 up to it in proportion to the progress."""
        return self.mask_rate * (self.progress if self.mask_schedule == "annealed" else 1.0)

    def draw_mask(self, x: Tensor) -> Mask:
        """b ~ p(b) at the present rate."""
        on_device = self.rate_on_device if self.training else None
        return self.mask_prior.draw(len(x), self.rate_now() if on_device is None else on_device, x.device)

    def capture(self, device: torch.device) -> None:
        super().capture(device)
        self.rate_on_device = torch.full((), self.rate_now(), device=device)

    def before_step(self) -> None:
        super().before_step()
        if self.rate_on_device is not None:
            self.rate_on_device.fill_(self.rate_now())
