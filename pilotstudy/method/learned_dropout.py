"""Dropout whose rates are learnt: concrete dropout, and variational Gaussian dropout with two fits of its KL."""

import math
from typing import Literal, Self, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pilotstudy.method.checks import check_choice, check_number
from pilotstudy.method.regulariser import Inputs, Loss, ParameterGroup, Regulariser, Settings
from pilotstudy.method.weights import WeightLayer, WeightLayers, by_channel, input_channels

Per = Literal["layer", "unit"]

CUBIC = (1.16145124, -1.50204118, 0.58629921)
SIGMOID = (0.63576, 1.87320, 1.48695)
RATE = 0.01  # of the amounts
TEMPERATURE, TEMPERATURE_OF_CHANNELS = 0.1, 2 / 3  # of the concrete distribution


class LearnedDropout(Regulariser):
    """Noise on what goes into every linear or convolutional layer but the first, whose amount is learnt.

    Feature maps have one draw for each channel. The amounts are parameters of the regulariser's own. As a DGM they have
    an Adam of their own, whose steps are as long as its rate whatever the gradients are. So the rate is fixed: at that
    of a network under SGD, rates of dropout would jump to 0 or 1. It is ten times Adam's usual rate: amounts are
    logarithms, which have further to go than weights, and trainings here are short. `penalty` is what the loss has for
    them. N is the number of training images.
    """

    def __init__(self, network: nn.Module, example: Tensor, *, train_size: int):
        super().__init__(network)
        check_number("train_size", train_size, least=1, whole=True)
        self.layers = WeightLayers(network, example)
        self.train_size = train_size
        del self.layers.names[0]  # it sees the image
        if not self.layers.names:
            raise ValueError("the network has one linear or convolutional layer: there are no hidden units to drop")
        self.amounts = nn.ParameterList()  # of each layer

    @classmethod
    def build(cls, settings: Settings, network: nn.Module, inputs: Inputs) -> Self:
        return cls(network, inputs.example, train_size=inputs.train_size, **settings.model_dump())

    def parameter_groups(self, learning_rate: float) -> list[ParameterGroup]:
        own: ParameterGroup = {"params": list(self.amounts), "lr": RATE}
        return [*super().parameter_groups(learning_rate), own]

    def noise(self, index: int, module: WeightLayer, h: Tensor) -> Tensor:
        """What the samples' channels are multiplied by, [n, channels]."""
        raise NotImplementedError

    def penalty(self) -> Tensor:
        """What the loss has for the amounts of noise."""
        raise NotImplementedError

    def training_logits(self, x: Tensor) -> Tensor:
        def edit(index: int, module: WeightLayer, h: Tensor) -> Tensor:
            return h * by_channel(self.noise(index, module, h), module, h).to(h.dtype)

        return self.layers.run(self.network, x, before=edit)

    def loss(self, x: Tensor, y: Tensor) -> Loss:
        loss, penalty = super().loss(x, y), self.penalty()
        return Loss(loss.total + penalty, loss.cross_entropy, {**loss.terms, "penalty": (penalty.detach(), 1)})


class ConcreteDropout(LearnedDropout):
    """Concrete dropout (Gal, Hron and Kendall, 2017): the dropout rate p of each layer is learnt.

    A unit is multiplied by m/(1 − p), where m = 1 − sigmoid((log p − log(1 − p) + log u − log(1 − u))/t), u ~ U(0, 1)
    and t = 0.1, for channels of feature maps 2/3. The loss has, for each layer with weights W and K units (channels)
    going into it, (ℓ²/2N) ‖W‖²/(1 − p) + (K/N) (p log p + (1 − p) log(1 − p)), where ℓ is `length_scale`. Biases are
    left out. `first_rate`: p before training.
    """

    def __init__(
        self,
        network: nn.Module,
        example: Tensor,
        *,
        train_size: int,
        length_scale: float = 0.01,
        first_rate: float = 0.1,
    ):
        super().__init__(network, example, train_size=train_size)
        check_number("length_scale", length_scale, least=0)
        check_number("first_rate", first_rate, above=0, below=1)
        self.length_scale = length_scale
        self.amounts.extend(
            nn.Parameter(torch.tensor(math.log(first_rate) - math.log1p(-first_rate))) for _ in self.layers.names
        )

    def rates(self) -> list[float]:
        """p of each layer, as it is now."""
        return [logit.detach().sigmoid().item() for logit in self.amounts]

    def noise(self, index: int, module: WeightLayer, h: Tensor) -> Tensor:
        logit: Tensor = self.amounts[index]
        temperature = TEMPERATURE if isinstance(module, nn.Linear) else TEMPERATURE_OF_CHANNELS
        u = torch.rand(len(h), input_channels(module), device=h.device, dtype=logit.dtype)
        tiny = torch.finfo(u.dtype).eps
        u = u.clamp(tiny, 1 - tiny)
        dropped = torch.sigmoid((logit + u.log() - (-u).log1p()) / temperature)
        return (1 - dropped) / (1 - logit.sigmoid())

    def penalty(self) -> Tensor:
        total = torch.zeros((), device=self.amounts[0].device)
        for module, logit in zip(self.layers.of(self.network), self.amounts, strict=True):
            p = logit.sigmoid()
            weights = self.length_scale**2 / 2 * module.weight.square().sum() / (1 - p)
            entropy = -(p * F.logsigmoid(logit) + (1 - p) * F.logsigmoid(-logit))
            total = total + (weights - input_channels(module) * entropy) / self.train_size
        return total


class GaussianDropout(LearnedDropout):
    """Variational Gaussian dropout (Kingma, Salimans and Welling, 2015), α ≤ 1: a unit is multiplied by 1 + √α ε.

    ε ~ N(0, 1), and log α is learnt for each layer, or (`per`) for each unit going into it. The loss has
    (`kl_weight`/N) KL, summed over the weights, to the log-uniform prior: −KL ≈ ½ log α + c₁α + c₂α² + c₃α³ up to a
    constant. `first_alpha`: α before training; 1 is dropout of a half.
    """

    most = 0.0  # log α

    def __init__(
        self,
        network: nn.Module,
        example: Tensor,
        *,
        train_size: int,
        kl_weight: float = 0.01,
        per: Per = "unit",
        first_alpha: float = 0.1,
    ):
        super().__init__(network, example, train_size=train_size)
        check_number("kl_weight", kl_weight, least=0)
        check_choice("per", per, get_args(Per))
        check_number("first_alpha", first_alpha, above=0, most=1)
        self.kl_weight = kl_weight
        for module in self.layers.of(network):
            number = input_channels(module) if per == "unit" else 1
            self.amounts.append(nn.Parameter(torch.full((number,), math.log(first_alpha))))

    def log_alpha(self, index: int) -> Tensor:
        """Of a layer, or its units. At the bound it has a gradient, which torch's clamp has not."""
        amount: Tensor = self.amounts[index]
        return amount + (amount.clamp(max=self.most) - amount).detach()

    def loss(self, x: Tensor, y: Tensor) -> Loss:
        with torch.no_grad():
            for amount in self.amounts:  # none strays far beyond the bound, and all can come back
                amount.clamp_(max=self.most)
        return super().loss(x, y)

    def noise(self, index: int, module: WeightLayer, h: Tensor) -> Tensor:
        deviation = (0.5 * self.log_alpha(index)).exp()
        drawn = torch.randn(len(h), input_channels(module), device=h.device, dtype=deviation.dtype)
        return 1 + deviation * drawn

    def kl(self, log_alpha: Tensor) -> Tensor:
        """Of one weight, to the prior, up to a constant."""
        alpha = log_alpha.exp()
        powers = sum(c * alpha**k for k, c in enumerate(CUBIC, start=1))
        return -(0.5 * log_alpha + powers)

    def penalty(self) -> Tensor:
        total = torch.zeros((), device=self.amounts[0].device)
        for index, module in enumerate(self.layers.of(self.network)):
            each = self.kl(self.log_alpha(index))
            total = total + each.sum() * (module.weight.numel() / each.numel())
        return self.kl_weight / self.train_size * total


class VariationalDropout(GaussianDropout):
    """Gaussian dropout for all α (Molchanov, Ashukha and Vetrov, 2017): units that are not needed drown in noise.

    −KL ≈ k₁ sigmoid(k₂ + k₃ log α) − ½ log(1 + 1/α) − k₁. Here α is of a layer or a unit, where theirs is of a weight;
    it is bounded by e⁸, as in their code.
    """

    most = 8.0

    def kl(self, log_alpha: Tensor) -> Tensor:
        k1, k2, k3 = SIGMOID
        return -(k1 * torch.sigmoid(k2 + k3 * log_alpha) - 0.5 * F.softplus(-log_alpha) - k1)
