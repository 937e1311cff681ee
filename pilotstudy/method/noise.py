"""The noise baselines: noisy addition (Add) and substitution (Sub) under Pilot's masks."""

import math
from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from pilotstudy.method.checks import check_choice, check_number
from pilotstudy.method.masked import Masked, Schedule
from pilotstudy.method.masks import MaskKind, insert

Kind = Literal["add", "sub"]


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
        kind: Kind,
        mask: MaskKind = "a-aug",
        mask_rate: float = 0.5,
        mask_schedule: Schedule = "constant",
        variance: float = 0.1,
        stop_gradient: bool = False,
    ):
        super().__init__(network, layers, example, mask=mask, mask_rate=mask_rate, mask_schedule=mask_schedule)
        check_choice("kind", kind, get_args(Kind))
        check_number("variance", variance, above=0)
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

        return self.activations.run(self.network, x, edit)
