"""Augmentation of the training images that belongs to the recipe: the same draws for every arm of a seed."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pilotstudy.arms.arm import Inputs
from pilotstudy.method.augmentation import DataAugmentation


class Augmenting:
    """`paper`: its colour shifts, rotations and flips; `flips-and-crops`: half are mirrored, all shifted a little.

    What is drawn depends on seed, epoch and step only, and leaves the training's own draws alone.
    """

    def __init__(self, kind: Literal["none", "paper", "flips-and-crops"], inputs: Inputs, where: torch.device):
        self.kind, self.where = kind, where
        self.black = (-inputs.mean / inputs.deviation).view(1, -1, 1, 1).to(where)
        self.paper = DataAugmentation(nn.Identity(), mean=inputs.mean, deviation=inputs.deviation).to(where)

    def __call__(self, x: Tensor, seed: int, epoch: int, step: int) -> Tensor:
        if self.kind == "none":
            return x
        with torch.random.fork_rng([self.where] if self.where.type == "cuda" else []):
            torch.manual_seed((seed * 1_000_003 + epoch) * 1_000_003 + step & 0x7FFF_FFFF_FFFF_FFFF)
            return self.paper.augment(x) if self.kind == "paper" else flipped_and_cropped(x, self.black)


def flipped_and_cropped(x: Tensor, black: Tensor) -> Tensor:
    """x [n, C, H, W]: each mirrored with probability ½ and shifted by up to an eighth of its size, black outside."""
    n, _, height, width = x.shape
    down, right = max(1, height // 8), max(1, width // 8)
    mirrored = torch.rand(n, 1, 1, 1, device=x.device) < 0.5
    padded = F.pad(torch.where(mirrored, x.flip(-1), x) - black, (right, right, down, down)) + black
    tops = torch.randint(0, 2 * down + 1, (n, 1), device=x.device)
    lefts = torch.randint(0, 2 * right + 1, (n, 1), device=x.device)
    rows = (tops + torch.arange(height, device=x.device))[:, None, :, None]
    columns = (lefts + torch.arange(width, device=x.device))[:, None, None, :]
    every = torch.arange(n, device=x.device)[:, None, None, None]
    channels = torch.arange(x.shape[1], device=x.device)[None, :, None, None]
    return padded[every, channels, rows, columns]
