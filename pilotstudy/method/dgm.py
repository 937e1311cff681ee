"""The deep generative model over all activations of a network (the paper's section 4 and appendix A).

b = 1 means unobserved. The posterior q_φ(z | a, b) sees everything; the prior p_θ(z | a₁₋b, b) and the decoder
p_θ(a_b | z, a₁₋b, b) see what is observed. All nets are MLPs; the decoder shares the prior's trunk.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pilotstudy.method.masks import Mask, Part

SIGMA_MIN = 1e-3

Total = tuple[Tensor, float | Tensor]  # a sum and what it is a sum over


def split_gaussian(parameters: Tensor) -> tuple[Tensor, Tensor]:
    """[.., 2 z] → mean and standard deviation, σ = max(softplus(s), σ_min)."""
    mu, s = parameters.chunk(2, dim=-1)
    return mu, F.softplus(s).clamp_min(SIGMA_MIN)


def gaussian_kl(mu_q: Tensor, sigma_q: Tensor, mu_p: Tensor, sigma_p: Tensor) -> Tensor:
    """KL(q‖p) of diagonal Gaussians, summed over the last dimension."""
    return (
        torch.log(sigma_p / sigma_q) + (sigma_q.square() + (mu_q - mu_p).square()) / (2 * sigma_p.square()) - 0.5
    ).sum(-1)


def normal_gamma(mu_p: Tensor, sigma_p: Tensor, sigma_mu: float, sigma_sigma: float) -> Tensor:
    """The hyperprior's penalty (appendix A, with the square on μ that it drops), summed over the last dimension."""
    return (sigma_sigma * (sigma_p.log() - sigma_p) - mu_p.square() / (2 * sigma_mu**2)).sum(-1)


def gaussian_log_likelihood(a: Tensor, mean: Tensor, variance: float | Tensor, units: Tensor | None) -> Tensor:
    """Σ_i b_i log N(a_i; mean_i, variance) over the last dimension; `units` None means every unit is masked."""
    squares = (a - mean).square()
    if units is None:
        count: float | Tensor = float(a.shape[-1])
    else:
        squares = squares * units
        count = units.sum(-1) * (a.shape[-1] // units.shape[-1])  # a column of `units` may stand for a whole layer
    area = 2 * math.pi * variance
    log_area = area.log() if isinstance(area, Tensor) else math.log(area)
    return -squares.sum(-1) / (2 * variance) - count * (0.5 * log_area)


def root(variance: float | Tensor) -> float | Tensor:
    return variance.sqrt() if isinstance(variance, Tensor) else math.sqrt(variance)


@dataclass(frozen=True)
class Bound:
    """Sums over the masked samples of a batch, and the imputations ã_b of each part of the mask."""

    reconstruction: Tensor
    kl: Tensor
    hyperprior: Tensor
    imputations: list[Tensor]
    squared_errors: dict[int, Total]  # by layer: Σ (imputed mean − a)² over the imputed units, and their number

    @property
    def total(self) -> Tensor:
        return self.reconstruction - self.kl + self.hyperprior


def dgm_parameters(sizes: Sequence[int], masked: Sequence[int], features: int, width: int, z: int) -> int:
    """How many parameters a DGM has; `masked`: units of the layers that can be masked."""
    trunks = (features + 2 * sum(sizes) + 2) * width
    latent = 2 * (width + 1) * 2 * z
    return trunks + latent + (width + z + 1) * width + (width + 1) * sum(masked)


class DGM(nn.Module):
    """`sizes`: units of the layers 0..L; `masked`: the layers that can be masked; `features`: columns of b as seen.

    `decoder_variance` is in units of what the DGM sees. Where methods are given `scales`, one for each layer, it is in
    units of what was divided by them.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        masked: Sequence[int],
        features: int,
        *,
        width: int = 256,
        z: int = 32,
        decoder_variance: float = 0.1,
        sigma_mu: float = 10.0,
        sigma_sigma: float = 1.0,
    ):
        super().__init__()
        self.decoder_variance, self.sigma_mu, self.sigma_sigma = decoder_variance, sigma_mu, sigma_sigma
        starts = [sum(sizes[:layer]) for layer in range(len(sizes))]
        self.slices = [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]
        # q sees [a, b] and p sees [a ⊙ (1 − b), b]. Multiplying a and b apart saves copying them side by side, and
        # with b's part common to both it is computed once.
        self.mask_trunk = nn.Linear(features, width, bias=False)
        self.posterior_trunk = nn.Linear(sum(sizes), width)
        self.posterior = nn.Linear(width, 2 * z)
        self.prior_trunk = nn.Linear(sum(sizes), width)
        self.prior = nn.Linear(width, 2 * z)
        self.decoder = nn.Sequential(nn.Linear(width + z, width), nn.ReLU())
        # One head a layer, so that only what is masked needs to be decoded.
        self.heads = nn.ModuleDict({str(layer): nn.Linear(width, sizes[layer]) for layer in masked})

    def variance_of(self, layer: int, scales: Tensor | None) -> float | Tensor:
        """The decoder's variance of a layer, in units of what the DGM sees."""
        return self.decoder_variance if scales is None else self.decoder_variance / scales[layer].square()

    def see_mask(self, mask: Mask) -> Tensor:
        """What b adds to both trunks, [m, width], whatever the type of the DGM's numbers."""
        b: Tensor = self.mask_trunk(mask.seen.to(self.mask_trunk.weight.dtype))
        return b

    def hide(self, a: Tensor, mask: Mask) -> Tensor:
        """a ⊙ (1 − b)."""
        observed = a.clone()
        for part in mask.parts:
            hidden = observed[part.rows, self.slices[part.layer]]
            if part.units is None:
                hidden.zero_()
            else:
                hidden.mul_(1 - part.units)
        return observed

    def mean(self, z: Tensor, trunk: Tensor, parts: Sequence[Part]) -> list[Tensor]:
        """The decoder's mean for each part of the mask, [rows of the part, units of its layer]."""
        hidden = self.decoder(torch.cat([z, trunk], dim=1))
        return [self.heads[str(part.layer)](hidden[part.rows]) for part in parts]

    @torch.no_grad()
    def impute(
        self, mask: Mask, mu_p: Tensor, sigma_p: Tensor, trunk: Tensor, scales: Tensor | None = None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Means and draws of ã_b ~ p_θ(ã_b | a₁₋b, b): z from the prior, then the decoder with its noise."""
        means = self.mean(mu_p + sigma_p * torch.randn_like(mu_p), trunk, mask.parts)
        sigmas = [root(self.variance_of(part.layer, scales)) for part in mask.parts]
        return means, [mean + sigma * torch.randn_like(mean) for mean, sigma in zip(means, sigmas, strict=True)]

    def shares(self, a: Tensor) -> Tensor:
        """What each layer adds to the prior's trunk, [layers, n, width]: many draws for the same a can reuse it."""
        W = self.prior_trunk.weight
        return torch.stack([F.linear(a[:, units], W[:, units]) for units in self.slices])

    def sample(self, a: Tensor, mask: Mask, shares: Tensor | None = None, scales: Tensor | None = None) -> list[Tensor]:
        """ã_b for the masked samples among a [n, D], one tensor for each part of the mask."""
        if shares is None:
            observed = self.prior_trunk(self.hide(mask.select(a), mask))
        elif mask.rows is None:  # the same as below, for all samples: those with no mask have no share to leave out
            hidden = torch.einsum("nl,lnw->nw", mask.seen.to(shares.dtype), shares[: mask.seen.shape[1]])
            observed = shares.sum(0) - hidden + self.prior_trunk.bias
        else:  # whole layers are masked: leave the masked layer's share out
            hidden = shares[mask.seen.argmax(1), mask.rows]
            observed = shares.sum(0)[mask.rows] - hidden + self.prior_trunk.bias
        trunk = F.relu(observed + self.see_mask(mask))
        return self.impute(mask, *split_gaussian(self.prior(trunk)), trunk, scales)[1]

    def bound(self, a: Tensor, mask: Mask, scales: Tensor | None = None) -> Bound:
        """Λ(a, b; θ, φ) with the hyperprior, for the masked samples a [m, D], detached from the classifier."""
        b = self.see_mask(mask)
        trunk = F.relu(self.prior_trunk(self.hide(a, mask)) + b)
        mu_p, sigma_p = split_gaussian(self.prior(trunk))
        mu_q, sigma_q = split_gaussian(self.posterior(F.relu(self.posterior_trunk(a) + b)))
        z = mu_q + sigma_q * torch.randn_like(mu_q)
        reconstruction = a.new_zeros(())
        for part, mean in zip(mask.parts, self.mean(z, trunk, mask.parts), strict=True):
            target = a[part.rows, self.slices[part.layer]]
            variance = self.variance_of(part.layer, scales)
            reconstruction = reconstruction + gaussian_log_likelihood(target, mean, variance, part.units).sum()
        means, imputations = self.impute(mask, mu_p, sigma_p, trunk, scales)
        return Bound(
            reconstruction=reconstruction,
            kl=mask.total(gaussian_kl(mu_q, sigma_q, mu_p, sigma_p)),
            hyperprior=mask.total(normal_gamma(mu_p, sigma_p, self.sigma_mu, self.sigma_sigma)),
            imputations=imputations,
            squared_errors={
                part.layer: self.squared_error(a[part.rows, self.slices[part.layer]], mean, part)
                for part, mean in zip(mask.parts, means, strict=True)
            },
        )

    @staticmethod
    @torch.no_grad()
    def squared_error(a: Tensor, imputed: Tensor, part: Part) -> Total:
        """Σ (imputed − a)² over the imputed units, and their number."""
        squares = (a - imputed).square_()
        if part.units is None:
            return squares.sum(), float(squares.numel())
        return squares.mul_(part.units).sum(), part.units.sum() * (a.shape[1] // part.units.shape[1])
