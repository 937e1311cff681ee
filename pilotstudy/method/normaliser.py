"""What the DGM sees of the activations: per-unit mean taken off, divided by a per-layer standard deviation."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Normaliser(nn.Module):
    """Running moments of [n, D] activations, D being the layers' units side by side.

    Raw activations grow while a network trains. Without this the DGM chases their scale: its gradients grow by two
    orders of magnitude, and a fixed decoder variance means less and less noise.
    """

    mean: Tensor
    variance: Tensor
    scale: Tensor
    started: Tensor

    def __init__(self, sizes: Sequence[int], momentum: float = 0.05):
        super().__init__()
        self.sizes, self.momentum = list(sizes), momentum
        self.register_buffer("mean", torch.zeros(sum(sizes)))
        self.register_buffer("variance", torch.ones(len(sizes)))
        self.register_buffer("scale", torch.ones(sum(sizes)))
        self.register_buffer("started", torch.tensor(False))

    @torch.no_grad()
    def update(self, a: Tensor) -> None:
        weight = self.momentum if bool(self.started) else 1.0
        mean = a.mean(0)
        variances = (a.square().mean(0) - mean.square()).clamp_min_(0).split(self.sizes)
        self.mean.lerp_(mean, weight)
        self.variance.lerp_(torch.stack([v.mean() for v in variances]), weight)
        deviation = self.variance.sqrt().clamp_min(1e-4)
        self.scale.copy_(deviation.repeat_interleave(torch.tensor(self.sizes, device=a.device)))
        self.started.fill_(True)

    def forward(self, a: Tensor) -> Tensor:
        return (a - self.mean) / self.scale

    def inverse(self, values: Tensor, units: slice) -> Tensor:
        return values * self.scale[units] + self.mean[units]
