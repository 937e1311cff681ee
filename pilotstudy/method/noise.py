"""The noise baselines: noisy addition (Add) and substitution (Sub) under Pilot's masks."""

import math
from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from pilotstudy.method.checks import check_choice, check_flag, check_number
from pilotstudy.method.masked import Masked, Schedule
from pilotstudy.method.masks import Mask, MaskKind, Part, insert
from pilotstudy.method.normaliser import Normaliser, VarianceIn

Kind = Literal["add", "sub"]


class Noise(Masked):
    """add: a + ε on the masked units; sub: ε in their place; ε ~ N(0, variance).

    `variance_in`: the units of the variance, as in Pilot: `relative` to the layer's running variance, or `raw`. The
    running one is of samples into which nothing was inserted before; where units are masked, of all samples.

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
        variance_in: VarianceIn = "relative",
        stop_gradient: bool = False,
    ):
        super().__init__(network, layers, example, mask=mask, mask_rate=mask_rate, mask_schedule=mask_schedule)
        check_choice("kind", kind, get_args(Kind))
        check_number("variance", variance, above=0)
        check_choice("variance_in", variance_in, get_args(VarianceIn))
        check_flag("stop_gradient", stop_gradient)
        self.kind, self.sigma, self.stop_gradient = kind, math.sqrt(variance), stop_gradient
        masked = self.mask_prior.layers if variance_in == "relative" else ()
        self.normalisers = nn.ModuleList(Normaliser([self.activations.sizes[layer]]) for layer in masked)

    def training_logits(self, x: Tensor) -> Tensor:
        mask = self.draw_mask(x)
        parts = {part.layer: part for part in mask.parts}
        untouched = torch.ones(len(x), device=x.device) if self.mask_prior.whole_layers else None

        def edit(layer: int, u: Tensor) -> Tensor:
            nonlocal untouched
            self._learn(layer, u, untouched)
            if layer not in parts:
                return u
            part = parts[layer]
            values = u if mask.rows is None else u[mask.rows[part.rows]]
            noise = self._sigma(layer) * torch.randn_like(values)
            if self.kind == "add":
                noise = noise + (values.detach() if self.stop_gradient else values)
            if untouched is not None:
                untouched = without(untouched, mask, part)
            return insert(mask, part, u, noise)

        return self.activations.run(self.network, x, edit)

    def _normaliser(self, layer: int) -> Normaliser | None:
        if layer >= len(self.normalisers):
            return None
        normaliser = self.normalisers[layer]
        assert isinstance(normaliser, Normaliser)
        return normaliser

    def _sigma(self, layer: int) -> float | Tensor:
        normaliser = self._normaliser(layer)
        return self.sigma if normaliser is None else self.sigma * normaliser.layer_scales[0]

    def _learn(self, layer: int, u: Tensor, weights: Tensor | None) -> None:
        """Moves the layer's running variance, in training steps alone: a pass that records leaves no trace."""
        normaliser = self._normaliser(layer)
        if normaliser is not None and self.training and torch.is_grad_enabled():
            normaliser.update(u.detach().flatten(1).to(normaliser.mean.dtype), weights)


def without(untouched: Tensor, mask: Mask, part: Part) -> Tensor:
    """[n] of 0 and 1, with 0 for the samples that a part of a mask of whole layers is about, too."""
    if part.units is not None:
        return untouched * (1 - part.units[:, 0])
    assert mask.rows is not None
    return untouched.index_fill(0, mask.rows[part.rows], 0.0)
