"""The data augmentation baseline: colour shifts, rotations and flips, on whole batches."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pilotstudy.method.checks import check_number
from pilotstudy.method.regulariser import Inputs, Regulariser, Settings


class DataAugmentation(Regulariser):
    """Each of the three changes is made to each image independently with probability `rate`.

    `mean` and `deviation` (a value a channel) say how the inputs were scaled, so that shifts are in units of the
    original [0, 1] range and what a rotation brings in from outside is black.
    """

    samples_predictions = False  # what is augmented is the training data

    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        network: nn.Module,
        *,
        mean: Tensor,
        deviation: Tensor,
        rate: float = 0.1,
        colour_shift: float = 0.2,
        degrees: float = 15.0,
    ):
        super().__init__(network)
        check_number("rate", rate, least=0, most=1)
        check_number("colour_shift", colour_shift, least=0, most=1)
        check_number("degrees", degrees, least=0, most=180)
        self.rate, self.colour_shift, self.degrees = rate, colour_shift, degrees
        self.done = False  # in this step
        self.register_buffer("mean", mean.view(-1, 1, 1))
        self.register_buffer("deviation", deviation.view(-1, 1, 1))

    @classmethod
    def build(cls, settings: Settings, network: nn.Module, inputs: Inputs) -> Self:
        return cls(network, mean=inputs.mean, deviation=inputs.deviation, **settings.model_dump())

    @contextmanager
    def changed_inputs(self, x: Tensor) -> Iterator[Tensor]:
        before = self.done
        with super().changed_inputs(self.augment(x) if self.training and not before else x) as changed:
            self.done = True
            try:
                yield changed
            finally:
                self.done = before

    def training_logits(self, x: Tensor) -> Tensor:
        return super().training_logits(x if self.done else self.augment(x))

    def augment(self, x: Tensor) -> Tensor:
        """x [n, C, H, W], scaled as the network takes it."""
        chosen = torch.rand(3, len(x), device=x.device) < self.rate
        images = x * self.deviation + self.mean
        images = self._by_rows(images, chosen) if x.device.type == "cpu" else self._dense(images, chosen)
        return (images - self.mean) / self.deviation

    def _by_rows(self, images: Tensor, chosen: Tensor) -> Tensor:
        """Only the chosen images are changed: the quickest on a CPU."""
        shifted, rotated, flipped = (c.nonzero().flatten() for c in chosen)
        images[shifted] = self._shift(images[shifted])
        images[rotated] = rotate(images[rotated], self._angles(len(rotated), images))
        images[flipped] = images[flipped].flip(-1)
        return images

    def _dense(self, images: Tensor, chosen: Tensor) -> Tensor:
        """Every image is changed, and the chosen ones are taken: no shape depends on the draw (see `masks`)."""
        shifted, rotated, flipped = chosen.view(3, -1, 1, 1, 1)
        images = torch.where(shifted, self._shift(images), images)
        images = torch.where(rotated, rotate(images, self._angles(len(images), images)), images)
        return torch.where(flipped, images.flip(-1), images)

    def _shift(self, images: Tensor) -> Tensor:
        shift = torch.empty(len(images), images.shape[1], 1, 1, device=images.device, dtype=images.dtype)
        return (images + shift.uniform_(-self.colour_shift, self.colour_shift)).clamp_(0, 1)

    def _angles(self, n: int, like: Tensor) -> Tensor:
        limit = math.radians(self.degrees)
        return torch.empty(n, device=like.device, dtype=like.dtype).uniform_(-limit, limit)


def rotate(images: Tensor, angles: Tensor) -> Tensor:
    """Rotate each image [n, C, H, W] about its centre by its own angle (radians), bilinear, black outside."""
    if not len(images):
        return images
    height, width = images.shape[-2:]
    cos, sin, zero = angles.cos(), angles.sin(), torch.zeros_like(angles)
    # affine_grid works in coordinates of −1 to 1 on both axes, so a picture that is not square needs its aspect.
    rows = [cos, -sin * height / width, zero], [sin * width / height, cos, zero]
    theta = torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)
