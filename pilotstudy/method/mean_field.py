"""Mean-field variational inference."""

import math
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pilotstudy.method.checks import check_number
from pilotstudy.method.regulariser import Inputs, Loss, ParameterGroup, Regulariser, Settings
from pilotstudy.method.weights import WeightLayer, WeightLayers

LINEAR_BELOW = -20.0  # of ρ: log softplus(ρ) differs from ρ by less than 1e-8 there
SMALLEST_VARIANCE = 1e-16  # of an activation: the root has a gradient there


class MeanField(Regulariser):
    """Mean-field variational inference (Blundell et al., 2015) with local reparametrisation (Kingma et al., 2015).

    Every weight w of a linear or convolutional layer has q(w) = N(μ, σ²), with the network's own weight as μ and
    σ = softplus(ρ) learnt beside it, at the network's rate; biases and norms have no distribution. Drawn are
    activations: N(μ h + c, σ² h²), in feature maps each place for itself. The loss has (`kl_weight`/N) KL to the prior
    N(0, σₚ²), KL = Σ log(σₚ/σ) + (σ² + μ²)/(2σₚ²) − ½; a `kl_weight` below 1 is a cold posterior. The point prediction
    is that of the means.
    """

    def __init__(
        self,
        network: nn.Module,
        example: Tensor,
        *,
        train_size: int,
        kl_weight: float = 0.1,
        prior_deviation: float = 0.1,
        first_rho: float = -5.0,
    ):
        super().__init__(network)
        check_number("train_size", train_size, least=1, whole=True)
        check_number("kl_weight", kl_weight, least=0)
        check_number("prior_deviation", prior_deviation, above=0)
        check_number("first_rho", first_rho)
        self.layers = WeightLayers(network, example)
        self.train_size, self.kl_weight, self.prior_deviation = train_size, kl_weight, prior_deviation
        self.rho = nn.ParameterList(torch.full_like(m.weight, first_rho) for m in self.layers.of(network))

    @classmethod
    def build(cls, settings: Settings, network: nn.Module, inputs: Inputs) -> Self:
        return cls(network, inputs.example, train_size=inputs.train_size, **settings.model_dump())

    def parameter_groups(self, learning_rate: float) -> list[ParameterGroup]:
        own: ParameterGroup = {"params": list(self.rho), "lr": learning_rate}
        return [*super().parameter_groups(learning_rate), own]

    def training_logits(self, x: Tensor) -> Tensor:
        def edit(index: int, module: WeightLayer, h: Tensor, u: Tensor) -> Tensor:
            variance = applied(module, h.square(), F.softplus(self.rho[index]).square())
            deviation = variance.clamp_min(SMALLEST_VARIANCE).sqrt()
            return u + (deviation * torch.randn_like(deviation)).to(u.dtype)

        return self.layers.run(self.network, x, after=edit)

    def kl(self) -> Tensor:
        """Of q to the prior, summed over all weights."""
        total = torch.zeros((), device=self.rho[0].device)
        for module, rho in zip(self.layers.of(self.network), self.rho, strict=True):
            ratio = F.softplus(rho) / self.prior_deviation
            log_ratio = log_softplus(rho) - math.log(self.prior_deviation)
            each = 0.5 * (ratio.square() + (module.weight / self.prior_deviation).square() - 1) - log_ratio
            total = total + each.sum()
        return total

    def loss(self, x: Tensor, y: Tensor) -> Loss:
        loss, kl = super().loss(x, y), self.kl()
        terms = {**loss.terms, "kl": (kl.detach(), 1)}
        return Loss(loss.total + self.kl_weight / self.train_size * kl, loss.cross_entropy, terms)


def log_softplus(rho: Tensor) -> Tensor:
    """log softplus(ρ); far below 0 it is ρ itself, where softplus would be 0 and its logarithm −∞."""
    return torch.where(rho < LINEAR_BELOW, rho, F.softplus(rho.clamp_min(LINEAR_BELOW)).log())


def applied(module: WeightLayer, h: Tensor, weight: Tensor) -> Tensor:
    """The layer's map of h with another weight and no bias."""
    if isinstance(module, nn.Linear):
        return F.linear(h, weight)
    return module._conv_forward(h, weight, None)  # type: ignore[operator, no-any-return]
