"""Noise at the input along differences of images: what pilot-star does, without a DGM."""

import torch
from torch import Tensor, nn

from pilotstudy.method.checks import check_number
from pilotstudy.method.regulariser import Loss, Regulariser


class Difference(Regulariser):
    """x̃ = x + (t/√2) ε (x_j − x_k), where x_j and x_k are a random pair of one class of the batch, ε ~ N(0, 1).

    The noise has the covariance t² Σ, Σ being that of images within their class. It needs labels, so that it acts in
    training alone. A batch in which no two images are of one class stays as it is.
    """

    samples_predictions = False
    gives_logits = True

    def __init__(self, network: nn.Module, *, t: float = 0.3):
        super().__init__(network)
        check_number("t", t, least=0)
        self.t: float | Tensor = t

    def loss(self, x: Tensor, y: Tensor) -> Loss:
        with self.changed_inputs(x) as changed:
            logits = self.training_logits(self.moved(changed, y))
        cross_entropy = self.cross_entropy(logits, y)
        return Loss(cross_entropy, cross_entropy, logits=logits)

    def moved(self, x: Tensor, y: Tensor) -> Tensor:
        """x̃ of x [n, ...]."""
        first, second, weights = draw_pairs(y)
        scales = self.t / 2**0.5 * torch.randn(len(x), device=x.device) * weights
        differences = x.index_select(0, first) - x.index_select(0, second)
        return x + scales.view(-1, *[1] * (x.ndim - 1)).to(x.dtype) * differences


def draw_pairs(y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For each of n samples the rows of a random pair of one class, and 1, or 0 where the batch has no such pair.

    Within its class each image is followed by one other, in a random order, and the samples draw among these pairs. No
    shape depends on the labels, so that the host never waits for the device.
    """
    n = len(y)
    order = (y.double() + torch.rand(n, device=y.device, dtype=torch.float64)).argsort()
    following = order.roll(-1)
    same = y[order] == y[following]
    pairs = same.logical_not().to(torch.uint8).argsort(stable=True)  # those of one class first
    count = same.sum()
    drawn = (torch.rand(n, device=y.device, dtype=torch.float64) * count).long().minimum((count - 1).clamp_min(0))
    chosen = pairs.index_select(0, drawn)
    weights = same.index_select(0, chosen).to(torch.get_default_dtype())
    return following.index_select(0, chosen), order.index_select(0, chosen), weights
