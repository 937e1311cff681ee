"""A control for Pilot: its DGM is fitted on images that the classifier does not train on."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pilotstudy.method.checks import check_number
from pilotstudy.method.pilot import Pilot
from pilotstudy.method.regulariser import Loss


class HeldOut(Pilot):
    """Pilot, but its DGM learns from the activations of held-out images alone, and so does its normaliser.

    What is inserted are draws of it for the classifier's own images. Images that the network has memorised have other
    activations than new ones; these draws vary as those of new ones do. `held_out`: which share of the training images
    is set aside; before each step a batch of them is to be given to `see_held_out`. The other arguments are Pilot's.
    """

    def __init__(
        self, network: nn.Module, layers: Sequence[str], example: Tensor, *, held_out: float = 0.05, **settings: Any
    ):
        check_number("held_out", held_out, above=0, most=0.5)
        super().__init__(network, layers, example, **settings)
        self.held_out = held_out
        self.held_out_images: Tensor | None = None

    @torch.no_grad()
    def see_held_out(self, x: Tensor) -> None:
        if self.held_out_images is None:
            self.held_out_images = x.clone()
        else:
            self.held_out_images.copy_(x)

    def _loss(self, x: Tensor, y: Tensor) -> Loss:
        if self.held_out_images is None:
            raise ValueError("its DGM learns from held-out images: give it some with see_held_out before each step")
        mask = self.draw_mask(self.held_out_images)
        bound = self.bound(self.held_out_images, mask)[1] if mask.parts else None  # first: a draw needs its moments
        logits = self._stochastic_pass(x)
        cross_entropy = self.cross_entropy(logits, y)
        if bound is None:
            return Loss(cross_entropy, cross_entropy, logits=logits)
        count = mask.count()
        return Loss(cross_entropy - bound.total / count, cross_entropy, self.terms(bound, count), logits)
