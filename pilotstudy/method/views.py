"""What the DGM sees of a layer, and how what it imputes enters the layer.

A view is a fixed linear map P with a right inverse P⁺: it sees P u, and an imputation ã enters as
h = u + P⁺(b ⊙ (ã − P u)). What P does not see stays as it is, and gradients pass through it.
"""

from collections.abc import Iterable
from typing import Literal, get_args

import torch
from torch import Size, Tensor, nn

from pilotstudy.method.masks import Mask, Part, insert

ViewKind = Literal["units", "pooled", "projected"]
VIEW_KINDS: tuple[ViewKind, ...] = get_args(ViewKind)
PROJECTED = 64  # dimensions of a projection, at most


class View(nn.Module):
    """Every unit: P = I."""

    def __init__(self, shape: Size):
        super().__init__()
        self.size = shape.numel()

    def see(self, u: Tensor) -> Tensor:
        """P u, [n, size], of u [n, ...]."""
        return u.flatten(1)

    def enter(self, mask: Mask, part: Part, u: Tensor, values: Tensor) -> Tensor:
        """h, of u [n, ...] and ã [rows of the part, size]."""
        return insert(mask, part, u, values.view(-1, *u.shape[1:]).to(u.dtype))


class PartialView(View):
    """Sees less than all of a layer."""

    def spread(self, values: Tensor, shape: Size) -> Tensor:
        """P⁺ v, [n, *shape], of v [n, size]."""
        raise NotImplementedError

    def enter(self, mask: Mask, part: Part, u: Tensor, values: Tensor) -> Tensor:
        if part.units is not None:
            return u + self.spread(part.units * (values - self.see(u)), u.shape[1:]).to(u.dtype)
        assert mask.rows is not None
        rows = mask.rows[part.rows]
        return u.index_add(0, rows, self.spread(values - self.see(u[rows]), u.shape[1:]).to(u.dtype))


class Pooled(PartialView):
    """The channels' means. An imputed mean replaces a channel's own, and the rest of the feature map stays."""

    def __init__(self, shape: Size, *, channels_last: bool = False):
        super().__init__(shape)
        self.channel = len(shape) if channels_last else 1  # as a dimension of u [n, *shape]
        self.size = shape[self.channel - 1]

    def see(self, u: Tensor) -> Tensor:
        return u.movedim(self.channel, 1).flatten(2).mean(2)

    def spread(self, values: Tensor, shape: Size) -> Tensor:
        ones = [1] * (len(shape) - 1)
        return values.view(*values.shape, *ones).movedim(1, self.channel).expand(-1, *shape)


class Projected(PartialView):
    """A random projection with orthonormal rows, each over its own share of the units: P⁺ = Pᵀ.

    It costs memory in proportion to the units. Order and signs come from a hash of the units' numbers: they are the
    same everywhere, are no parameters, and draw nothing.
    """

    order: Tensor
    place: Tensor
    weight: Tensor

    def __init__(self, shape: Size):
        super().__init__(shape)
        units, self.size = shape.numel(), min(PROJECTED, shape.numel())
        self.each = -(-units // self.size)  # of a row, the last ones perhaps one less
        hashed = hash_of(torch.arange(units))
        order = hashed.argsort(stable=True)
        row = torch.arange(units) % self.size
        sign = hash_of(hashed) % 2 * 2 - 1
        weight = sign[order] / row.bincount(minlength=self.size)[row].sqrt()
        self.register_buffer("order", order, persistent=False)
        self.register_buffer("place", order.argsort(), persistent=False)
        self.register_buffer("weight", weight.to(torch.get_default_dtype()), persistent=False)

    def see(self, u: Tensor) -> Tensor:
        sorted_ = u.flatten(1)[:, self.order] * self.weight
        missing = self.each * self.size - sorted_.shape[1]
        return nn.functional.pad(sorted_, (0, missing)).view(-1, self.each, self.size).sum(1)

    def spread(self, values: Tensor, shape: Size) -> Tensor:
        each = values.repeat(1, self.each)[:, : len(self.order)] * self.weight
        return each[:, self.place].view(-1, *shape)


def hash_of(numbers: Tensor) -> Tensor:
    """32 well-mixed bits of each whole number (the finaliser of MurmurHash3)."""
    h = numbers + 0x9E3779B9
    for multiplier, shift in (0x85EBCA6B, 16), (0xC2B2AE35, 13), (1, 16):
        h = ((h ^ (h >> shift)) * multiplier) & 0xFFFFFFFF
    return h


def view_of(kind: ViewKind, shape: Size, *, channels_last: bool = False) -> View:
    """The view of a layer of that shape; every unit, where another view would not see less."""
    if kind == "pooled" and len(shape) > 1:
        return Pooled(shape, channels_last=channels_last)
    if kind == "projected" and shape.numel() > PROJECTED:
        return Projected(shape)
    return View(shape)


class Views(nn.ModuleList):
    """Of the layers that the DGM sees, in its order, without the logits."""

    def __init__(self, views: Iterable[View]):
        super().__init__(views)
        self.every_unit = all(type(view) is View for view in self)

    def of(self, layer: int) -> View:
        view = self[layer]
        assert isinstance(view, View)
        return view
