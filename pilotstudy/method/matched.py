"""A control for Pilot: the same amount of noise in each unit, without the structure that the DGM gives it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pilotstudy.method.masks import Mask
from pilotstudy.method.normaliser import MOMENTUM
from pilotstudy.method.pilot import Pilot


class Matched(Pilot):
    """Pilot, but what is inserted is a + ε, with ε ~ N(0, the running mean of (ã − a)² of that unit).

    The DGM is trained as Pilot's, and ã are its imputations; the mean is over masked samples. As in Pilot, no gradient
    passes through an inserted value. The arguments are Pilot's.
    """

    residual_variance: Tensor  # by unit that the DGM sees, in raw units
    started: Tensor

    def __init__(self, network: nn.Module, layers: Sequence[str], example: Tensor, **settings: Any):
        super().__init__(network, layers, example, **settings)
        units = self.dgm.slices[-1].stop
        self.register_buffer("residual_variance", torch.zeros(units))
        self.register_buffer("started", torch.zeros(units, dtype=torch.bool))

    def drawn(self, a: Tensor, mask: Mask, shares: Tensor | None = None) -> list[Tensor]:
        return self._with_noise(mask.select(a), mask)

    @torch.no_grad()
    def inserted(self, a: Tensor, mask: Mask, imputations: list[Tensor]) -> list[Tensor]:
        self._learn(a, mask, imputations)
        return self._with_noise(a, mask)

    def _scale(self, layer: int) -> Tensor | float:
        """What the DGM's values of a layer are multiplied by to be raw ones."""
        return 1.0 if self.normaliser is None else self.normaliser.layer_scales[layer]

    def _learn(self, a: Tensor, mask: Mask, imputations: list[Tensor]) -> None:
        """Moves the residual variances; that of a unit that is masked in no sample stays. The host never waits."""
        dtype = self.residual_variance.dtype
        for part, imputed in zip(mask.parts, imputations, strict=True):
            units = self.dgm.slices[part.layer]
            squares = (a[part.rows, units] - imputed).square()
            masked = squares.new_ones(len(squares), 1) if part.units is None else part.units
            number = masked.sum(0)
            mean = self._scale(part.layer) ** 2 * (squares * masked).sum(0) / number.clamp_min(1)
            started = self.started[units]
            weight = torch.where(started, MOMENTUM, 1.0) * (number > 0)
            self.residual_variance[units].lerp_(mean.to(dtype), weight.to(dtype))
            started |= number > 0

    def _with_noise(self, a: Tensor, mask: Mask) -> list[Tensor]:
        """a + ε of each part of the mask, for the masked samples a [m, D]."""
        values = []
        for part in mask.parts:
            units = self.dgm.slices[part.layer]
            own = a[part.rows, units]
            values.append(own + self.residual_variance[units].sqrt() / self._scale(part.layer) * torch.randn_like(own))
        return values
