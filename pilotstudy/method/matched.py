"""A control for Pilot: the same amount of noise in each layer, without the structure that the DGM gives it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pilotstudy.method.masks import Mask
from pilotstudy.method.normaliser import MOMENTUM
from pilotstudy.method.pilot import Pilot


class Matched(Pilot):
    """Pilot, but what is inserted is a + ε, with ε ~ N(0, the running mean of (ã − a)² in that layer).

    The DGM is trained as Pilot's, and ã are its imputations; the mean is over units and masked samples. As in Pilot, no
    gradient passes through an inserted value. The arguments are Pilot's.
    """

    residual_variance: Tensor  # by layer of the DGM, in raw units
    started: Tensor

    def __init__(self, network: nn.Module, layers: Sequence[str], example: Tensor, **settings: Any):
        super().__init__(network, layers, example, **settings)
        self.register_buffer("residual_variance", torch.zeros(len(self.seen)))
        self.register_buffer("started", torch.zeros(len(self.seen), dtype=torch.bool))

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
        """Moves the residual variances; that of a layer in which no sample is masked stays. The host never waits."""
        for part, imputed in zip(mask.parts, imputations, strict=True):
            layer = part.layer
            total, number = self.dgm.squared_error(a[part.rows, self.dgm.slices[layer]], imputed, part)
            mean = self._scale(layer) ** 2 * total / (number + (number == 0))
            weight = torch.where(self.started[layer], MOMENTUM, 1.0) * (number > 0)
            dtype = self.residual_variance.dtype
            self.residual_variance[layer].lerp_(mean.to(dtype), weight.to(dtype))
            self.started[layer] |= number > 0

    def _with_noise(self, a: Tensor, mask: Mask) -> list[Tensor]:
        """a + ε of each part of the mask, for the masked samples a [m, D]."""
        values = []
        for part in mask.parts:
            own = a[part.rows, self.dgm.slices[part.layer]]
            sigma = self.residual_variance[part.layer].sqrt() / self._scale(part.layer)
            values.append(own + sigma * torch.randn_like(own))
        return values
