"""Pilot: a classifier trained together with a DGM over its activations, draws from which are inserted into it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pilotstudy.method.dgm import DGM
from pilotstudy.method.masks import Mask, MaskKind, insert
from pilotstudy.method.normaliser import Normaliser
from pilotstudy.method.regulariser import Loss, Masked, Schedule


class Pilot(Masked):
    """Put Pilot around a network by naming its layers (see `Activations`).

    `loss(x, y).total` holds both objectives. They share no parameter and no gradient: the activations are recorded
    detached, and the imputations are constants to the classifier.
    """

    def __init__(
        self,
        network: nn.Module,
        layers: Sequence[str],
        example: Tensor,
        *,
        mask: MaskKind = "a-aug",
        mask_rate: float = 0.5,
        mask_schedule: Schedule = "constant",
        decoder_variance: float = 0.1,
        sigma_mu: float = 10.0,
        sigma_sigma: float = 1.0,
        dgm_width: int = 256,
        z: int = 32,
        dgm_learning_rate: float = 1e-3,
        gradient_clip: float = 1000.0,
        normalise: bool = True,
    ):
        super().__init__(network, layers, example, mask=mask, mask_rate=mask_rate, mask_schedule=mask_schedule)
        sizes = self.activations.sizes
        self.dgm = DGM(
            sizes,
            self.mask_prior.layers,
            self.mask_prior.features,
            width=dgm_width,
            z=z,
            decoder_variance=decoder_variance,
            sigma_mu=sigma_mu,
            sigma_sigma=sigma_sigma,
        )
        self.normaliser = Normaliser(sizes) if normalise else None
        self.dgm_learning_rate, self.gradient_clip = dgm_learning_rate, gradient_clip

    def parameter_groups(self, learning_rate: float) -> list[dict[str, Any]]:
        dgm = {"params": list(self.dgm.parameters()), "lr": self.dgm_learning_rate}
        return [*super().parameter_groups(learning_rate), dgm]

    def record(self, x: Tensor) -> Tensor:
        """The activations of x side by side, [n, D]."""
        return torch.cat([a.flatten(1) for a in self.activations.record(x)], dim=1)

    def with_insertions(self, x: Tensor, mask: Mask, imputations: list[Tensor]) -> Tensor:
        """Logits with ã_b inserted, samples as in `mask.reorder(x)`; units downstream follow from it."""
        parts = {part.layer: (part, values) for part, values in zip(mask.parts, imputations, strict=True)}
        entering = self.activations.chain and mask.others is not None

        def edit(layer: int, u: Tensor) -> Tensor:
            if layer not in parts:
                return u
            part, values = parts[layer]
            if self.normaliser is not None:
                values = self.normaliser.inverse(values, self.dgm.slices[layer])
            values = values.view(-1, *u.shape[1:]).to(u.dtype)
            return torch.cat([u, values]) if entering else insert(mask, part, u, values)

        if entering:
            return self.activations.run(x[mask.others], edit)
        return mask.reorder(self.activations.run(x, edit))

    def loss(self, x: Tensor, y: Tensor) -> Loss:
        mask = self.draw_mask(x)
        if not mask.parts:  # log p(a_b) of nothing is 0 exactly: a sample with no mask adds nothing to the bound
            return super().loss(x, y)
        a = self.record(mask.select(x))
        if self.normaliser is not None:
            self.normaliser.update(a, mask.weights)
            a = self.normaliser(a)
        bound = self.dgm.bound(a, mask)
        cross_entropy = F.cross_entropy(self.with_insertions(x, mask, bound.imputations), mask.reorder(y))
        count = mask.count()
        terms = {
            "reconstruction": (bound.reconstruction.detach(), count),
            "kl": (bound.kl.detach(), count),
            "hyperprior": (bound.hyperprior.detach(), count),
        }
        errors = {f"imputation_error_{layer}": error for layer, error in bound.squared_errors.items()}
        return Loss(cross_entropy - bound.total / count, cross_entropy, terms | errors)

    def clip_gradients(self) -> Tensor | None:
        gradients = [p.grad for p in self.dgm.parameters() if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        # Clipping what is short enough multiplies it by 1. Only a CPU can be asked whether it is, without waiting.
        if norm.device.type != "cpu" or norm > self.gradient_clip:
            nn.utils.clip_grads_with_norm_(self.dgm.parameters(), self.gradient_clip, norm)
        return norm

    def sampled_probabilities(self, x: Tensor, samples: int) -> Tensor:
        a = self.record(x)
        point = a[:, self.dgm.slices[-1]].softmax(1)
        if self.normaliser is not None:
            a = self.normaliser(a)
        shares = self.dgm.shares(a) if self.mask_prior.whole_layers else None
        total = samples * point
        for _ in range(samples):
            mask = self.draw_mask(x)
            if not mask.parts:
                continue
            # Samples with no mask keep the point prediction, so only the others run again.
            imputations = self.dgm.sample(a, mask, shares)
            probabilities = self.with_insertions(mask.select(x), mask.among_selected(), imputations).softmax(1)
            if mask.rows is None:
                total += probabilities - point
            else:
                total.index_add_(0, mask.rows, probabilities - point[mask.rows])
        return total / samples
