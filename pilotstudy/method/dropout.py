"""Dropout, and MC dropout."""

from collections.abc import Sequence
from typing import Self

from torch import Tensor, nn

from pilotstudy.method.activations import Activations
from pilotstudy.method.checks import check_number
from pilotstudy.method.masks import bernoulli
from pilotstudy.method.regulariser import Inputs, Regulariser, Settings


class Dropout(Regulariser):
    """Dropout of the hidden units, on by sampling too (MC dropout).

    It acts on the raw activations; before a ReLU, that is the same as after it.
    """

    def __init__(self, network: nn.Module, layers: Sequence[str], example: Tensor, *, rate: float = 0.5):
        super().__init__(network)
        check_number("rate", rate, least=0, below=1)
        self.activations = Activations(network, layers, example)
        self.rate = rate

    @classmethod
    def build(cls, settings: Settings, network: nn.Module, inputs: Inputs) -> Self:
        return cls(network, inputs.layers, inputs.example, **settings.model_dump())

    def training_logits(self, x: Tensor) -> Tensor:
        def edit(layer: int, u: Tensor) -> Tensor:
            return dropped(u, self.rate) if layer else u

        return self.activations.run(self.network, x, edit)


def dropped(u: Tensor, rate: float) -> Tensor:
    """u [n, ...], each unit 0 with probability `rate`, and else scaled so that its mean stays as it is."""
    kept = bernoulli(len(u), u.shape[1:].numel(), 1 - rate, u.device)
    return u * kept.view(u.shape).mul_(1 / (1 - rate)).to(u.dtype)
