"""The noise baselines: noisy addition (Add) and substitution (Sub) under Pilot's masks, and dropout."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from pilotstudy.method.activations import Activations
from pilotstudy.method.masks import MaskKind, bernoulli, insert
from pilotstudy.method.regulariser import Masked, Regulariser, Schedule


class Noise(Masked):
    """add: a + ε on the masked units; sub: ε in their place; ε ~ N(0, variance).

    With `stop_gradient` (appendix B) no gradient passes through an inserted value, as in Pilot.
    """

    def __init__(
        self,
        network: nn.Module,
        layers: Sequence[str],
        example: Tensor,
        *,
        kind: Literal["add", "sub"],
        mask: MaskKind = "a-aug",
        mask_rate: float = 0.5,
        mask_schedule: Schedule = "constant",
        variance: float = 0.1,
        stop_gradient: bool = False,
    ):
        super().__init__(network, layers, example, mask=mask, mask_rate=mask_rate, mask_schedule=mask_schedule)
        self.kind, self.sigma, self.stop_gradient = kind, math.sqrt(variance), stop_gradient

    def training_logits(self, x: Tensor) -> Tensor:
        mask = self.draw_mask(x)
        parts = {part.layer: part for part in mask.parts}

        def edit(layer: int, u: Tensor) -> Tensor:
            if layer not in parts:
                return u
            part = parts[layer]
            values = u if mask.rows is None else u[mask.rows[part.rows]]
            noise = self.sigma * torch.randn_like(values)
            if self.kind == "add":
                noise = noise + (values.detach() if self.stop_gradient else values)
            return insert(mask, part, u, noise)

        return self.activations.run(x, edit)


class Dropout(Regulariser):
    """Dropout of the hidden units, on by sampling too (MC dropout).

    It acts on the raw activations; before a ReLU, that is the same as after it.
    """

    samples = True

    def __init__(self, network: nn.Module, layers: Sequence[str], example: Tensor, *, rate: float = 0.5):
        super().__init__(network)
        self.activations = Activations(network, layers, example)
        self.rate = rate

    def training_logits(self, x: Tensor) -> Tensor:
        def edit(layer: int, u: Tensor) -> Tensor:
            if layer == 0:
                return u
            kept = bernoulli(len(u), u[0].numel(), 1 - self.rate, u.device)
            return u * kept.view(u.shape).mul_(1 / (1 - self.rate)).to(u.dtype)

        return self.activations.run(x, edit)
