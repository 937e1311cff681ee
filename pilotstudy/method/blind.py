"""A control for Pilot: its DGM sees nothing but the mask."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pilotstudy.method.dgm import DGM
from pilotstudy.method.masks import Mask
from pilotstudy.method.pilot import Pilot


class BlindDGM(DGM):
    """p_θ(a_b | b): the prior and the decoder see no activation. The posterior sees all, as it must."""

    @classmethod
    def like(cls, dgm: DGM) -> "BlindDGM":
        """One of the same sizes and settings."""
        return cls(
            [units.stop - units.start for units in dgm.slices],
            [int(layer) for layer in dgm.heads],
            dgm.mask_trunk.in_features,
            width=dgm.prior.in_features,
            z=dgm.prior.out_features // 2,
            decoder_variance=dgm.decoder_variance,
            sigma_mu=dgm.sigma_mu,
            sigma_sigma=dgm.sigma_sigma,
        )

    def hide(self, a: Tensor, mask: Mask) -> Tensor:
        return torch.zeros_like(a)

    def shares(self, a: Tensor) -> Tensor:
        return a.new_zeros(len(self.slices), len(a), self.prior.in_features)


class Blind(Pilot):
    """Pilot, but what it inserts is drawn from p(aˡ | b), whatever the sample is. The arguments are Pilot's."""

    def __init__(self, network: nn.Module, layers: Sequence[str], example: Tensor, **settings: Any):
        super().__init__(network, layers, example, **settings)
        self.dgm = BlindDGM.like(self.dgm)
