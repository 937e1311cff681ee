"""What the DGM sees of the activations: per-unit mean taken off, divided by a per-layer standard deviation."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

MOMENTUM = 0.05  # how far running moments move towards those of a batch

VarianceIn = Literal["relative", "raw"]  # a variance in units of the layer's own running one, or of its raw values


class Normaliser(nn.Module):
    """Running moments of [n, D] activations, D being the layers' units side by side.

    Raw activations grow while a network trains. Without this the DGM chases their scale: its gradients grow by two
    orders of magnitude, and a fixed decoder variance means less and less noise.
    """

    mean: Tensor
    variance: Tensor
    scale: Tensor
    started: Tensor
    layer_of_unit: Tensor

    def __init__(self, sizes: Sequence[int], momentum: float = MOMENTUM):
        super().__init__()
        self.sizes, self.momentum = list(sizes), momentum
        self.register_buffer("mean", torch.zeros(sum(sizes)))
        self.register_buffer("variance", torch.ones(len(sizes)))
        self.register_buffer("scale", torch.ones(sum(sizes)))
        self.register_buffer("started", torch.tensor(False))
        layers = torch.arange(len(self.sizes)).repeat_interleave(torch.tensor(self.sizes))
        self.register_buffer("layer_of_unit", layers, persistent=False)

    @torch.no_grad()
    def update(self, a: Tensor, weights: Tensor | None = None) -> None:
        """Moves the moments towards those of a; `weights` ([n], 0 or 1) says which samples count.

        Nothing here asks the device for a number: the first update, and one in which no sample counts, differ in the
        weight of the new moments only.
        """
        weight = torch.where(self.started, self.momentum, 1.0)
        if weights is None:
            mean, squares = a.mean(0), a.square().mean(0)
            self.started.fill_(True)
        else:
            number, each = weights.sum(), weights[:, None]
            count = number.clamp_min(1)
            mean, squares = (each * a).sum(0) / count, (each * a.square()).sum(0) / count
            weight = weight * (number > 0)
            self.started.logical_or_(number > 0)
        weight = weight.to(self.mean.dtype)
        variances = (squares - mean.square()).clamp_min_(0).split(self.sizes)
        self.mean.lerp_(mean, weight)
        self.variance.lerp_(torch.stack([v.mean() for v in variances]), weight)
        self.scale.copy_(self.layer_scales.index_select(0, self.layer_of_unit))

    @property
    def layer_scales(self) -> Tensor:
        """The running standard deviation of each layer: the root of the mean over its units of their variances."""
        return self.variance.sqrt().clamp_min(1e-4)

    def forward(self, a: Tensor) -> Tensor:
        return (a - self.mean) / self.scale

    def inverse(self, values: Tensor, units: slice) -> Tensor:
        return values * self.scale[units] + self.mean[units]
