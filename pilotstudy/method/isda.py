"""ISDA: implicit semantic data augmentation."""

import torch
from torch import Tensor, nn

from pilotstudy.method.checks import check_number
from pilotstudy.method.last_layer import LastLayer
from pilotstudy.method.regulariser import Loss, Regulariser


class ISDA(Regulariser):
    """ISDA (Wang et al., 2019): features are augmented along the directions in which those of their class vary.

    With f̃ ~ N(f, λ Σ_y), the expected cross-entropy is at most that of the logits
    z_j + (λ/2)(w_j − w_y)ᵀ Σ_y (w_j − w_y), in closed form: f are the inputs of the last layer, w_j the rows of its
    weights. Σ_y is the covariance of the features of class y over all batches so far, the batch's own among them;
    no gradient passes through it. λ = λ₀ · progress grows over the training; `strength` is λ₀.
    """

    count: Tensor  # of each class, how many samples there were so far
    mean: Tensor  # [classes, features]
    covariance: Tensor  # [classes, features, features]

    def __init__(self, network: nn.Module, example: Tensor, *, strength: float = 0.5):
        super().__init__(network)
        check_number("strength", strength, least=0)
        self.last_layer = LastLayer(network, example)
        self.strength = strength
        self.strength_on_device: Tensor | None = None
        weight = self.last_layer.of(network).weight
        classes, features = weight.shape
        self.register_buffer("count", weight.new_zeros(classes))
        self.register_buffer("mean", weight.new_zeros(classes, features))
        self.register_buffer("covariance", weight.new_zeros(classes, features, features))

    def strength_now(self) -> float:
        """λ."""
        return self.strength * self.progress

    def loss(self, x: Tensor, y: Tensor) -> Loss:
        seen: list[Tensor] = []

        def keep(features: Tensor) -> Tensor:
            seen.append(features)
            return features

        logits = self.last_layer.run(self.network, x, keep)
        with torch.autocast(x.device.type, enabled=False):  # moments need more digits than bf16 has
            self.learn(seen[0].detach().to(self.mean.dtype), y)
            strength = self.strength_now() if self.strength_on_device is None else self.strength_on_device
            augmented = logits.to(self.mean.dtype) + strength / 2 * self.spread()[y]
            cross_entropy = self.cross_entropy(augmented, y)
        return Loss(cross_entropy, cross_entropy)

    def spread(self) -> Tensor:
        """(w_j − w_y)ᵀ Σ_y (w_j − w_y), [classes y, classes j]."""
        weight = self.last_layer.of(self.network).weight
        differences = weight - weight[:, None]
        return ((differences @ self.covariance) * differences).sum(2)

    @torch.no_grad()
    def learn(self, features: Tensor, y: Tensor) -> None:
        """Moves the moments of each class to those of all its samples so far. Shapes do not depend on the labels."""
        own = (y[:, None] == torch.arange(len(self.count), device=y.device)).to(features.dtype).T  # [classes, n]
        number = own.sum(1)
        share = number / (self.count + number).clamp_min(1)
        mean = own @ features / number.clamp_min(1)[:, None]
        centred = own[:, :, None] * (features - mean[:, None])
        covariance = centred.mT @ centred / number.clamp_min(1)[:, None, None]
        moved = mean - self.mean
        between = (share * (1 - share))[:, None, None] * moved[:, :, None] * moved[:, None]
        self.covariance.lerp_(covariance, share[:, None, None]).add_(between)
        self.mean.lerp_(mean, share[:, None])
        self.count += number

    def capture(self, device: torch.device) -> None:
        super().capture(device)
        self.strength_on_device = torch.full((), self.strength_now(), device=device)

    def before_step(self) -> None:
        super().before_step()
        if self.strength_on_device is not None:
            self.strength_on_device.fill_(self.strength_now())
