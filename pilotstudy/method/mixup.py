"""Mixup and its relatives: pairs of samples are mixed, and so are their labels."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributions import Beta

from pilotstudy.method.activations import Activations
from pilotstudy.method.checks import check_number
from pilotstudy.method.regulariser import Loss, Regulariser


@dataclass(frozen=True)
class Mix:
    """One draw for a batch: sample i is mixed with `partners[i]`, of which it takes the share 1 − λ."""

    share: Tensor  # λ, a number on the device
    partners: Tensor

    def __call__(self, values: Tensor) -> Tensor:
        """λ v + (1 − λ) v', of v [n, ...]."""
        return self.share * values + (1 - self.share) * values[self.partners]


class Mixup(Regulariser):
    """Mixup (Zhang et al., 2018): x̃ = λ x + (1 − λ) x' and ỹ = λ y + (1 − λ) y', with λ ~ Beta(α, α).

    As in the authors' code there is one λ a batch, and x' are the batch's own images in another order. λ and the order
    are drawn on the device. What arms within do to images, they do before these are mixed.
    """

    def __init__(self, network: nn.Module, *, alpha: float = 0.2):
        super().__init__(network)
        check_number("alpha", alpha, above=0)
        self.alpha = alpha

    def draw_mix(self, x: Tensor) -> Mix:
        alpha = torch.full((), self.alpha, device=x.device)
        # To check its arguments it would wait for the device.
        share = Beta(alpha, alpha, validate_args=False).sample()
        return Mix(share, torch.rand(len(x), device=x.device).argsort())

    def mixed_cross_entropy(self, logits: Tensor, y: Tensor, mix: Mix) -> Tensor:
        """With the targets ỹ, in which cross-entropy is linear."""
        own, partners = self.cross_entropy(logits, y), self.cross_entropy(logits, y[mix.partners])
        return mix.share * own + (1 - mix.share) * partners

    def loss(self, x: Tensor, y: Tensor) -> Loss:
        with self.changed_inputs(x) as changed:
            cross_entropy = self._cross_entropy(changed, y, self.draw_mix(x))
        return Loss(cross_entropy, cross_entropy)

    def _cross_entropy(self, x: Tensor, y: Tensor, mix: Mix) -> Tensor:
        return self.mixed_cross_entropy(self.training_logits(mix(x)), y, mix)


class ManifoldMixup(Mixup):
    """Manifold mixup (Verma et al., 2019): one layer is mixed as mixup mixes the input, drawn anew for each batch.

    It is the input or one of the named layers (see `Activations`), each as likely; what is mixed is its raw activation.
    The default α is the one that the authors train with on CIFAR.
    """

    def __init__(self, network: nn.Module, layers: Sequence[str], example: Tensor, *, alpha: float = 2.0):
        super().__init__(network, alpha=alpha)
        self.activations = Activations(network, layers, example)

    def _cross_entropy(self, x: Tensor, y: Tensor, mix: Mix) -> Tensor:
        chosen = torch.randint(len(self.activations.layers) + 1, (), device=x.device)

        def edit(layer: int, u: Tensor) -> Tensor:
            # Every layer runs through it, the others with a share of 1: which one it is only the device knows.
            return Mix(torch.where(chosen == layer, mix.share, 1.0), mix.partners)(u)

        return self.mixed_cross_entropy(self.activations.run(self.network, x, edit), y, mix)


class RegMixup(Mixup):
    """RegMixup (Pinto et al., 2022): CE(x, y) + η CE(x̃, ỹ), mixup beside the clean loss, with λ near ½ (α 20).

    As in the authors' code the images and the mixed ones run as one batch.
    """

    def __init__(self, network: nn.Module, *, alpha: float = 20.0, eta: float = 1.0):
        super().__init__(network, alpha=alpha)
        check_number("eta", eta, least=0)
        self.eta = eta

    def _cross_entropy(self, x: Tensor, y: Tensor, mix: Mix) -> Tensor:
        clean, mixed = self.training_logits(torch.cat([x, mix(x)])).chunk(2)
        return self.cross_entropy(clean, y) + self.eta * self.mixed_cross_entropy(mixed, y, mix)
