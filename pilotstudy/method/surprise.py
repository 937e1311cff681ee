"""How surprising images are to a DGM: its negative bound on their activations, or on the images themselves.

The bound's two terms are those that the DGM is trained with; the hyperprior, which is of its parameters, is left out.
Nothing is drawn that differs from image to image, so that an image has the same surprise in any batch and on any day:

- z is the posterior's mean, and KL(q‖p) is exact. What the posterior's width costs in reconstruction is left out: it
  is nearly the same for all images (of Pilot on CIFAR-10 some 15 nats, where the surprise has a deviation of 1,600).
- The mask is averaged over as its law has it, given that it hides something: each layer that it may hide in turn
  (a-aug; of x-aug the input), or units by a few draws that are the same for all images (a-drop, x-drop).
"""

import math
from collections.abc import Sequence
from itertools import repeat

import torch
from torch import Tensor
from torch.nn import functional as F

from pilotstudy.method.dgm import DGM, gaussian_kl, gaussian_log_likelihood, split_gaussian
from pilotstudy.method.masks import Mask, MaskPrior, Part
from pilotstudy.method.modes import predicting
from pilotstudy.method.pilot import Pilot
from pilotstudy.method.regulariser import Regulariser
from pilotstudy.method.star import VAE, Star

MASKS, SEED = 4, 0  # of masks of units: how many, and what they are drawn from


def with_dgm(regulariser: Regulariser | None) -> Pilot | Star | None:
    """The outermost of nested regularisers that has a DGM."""
    if regulariser is None or isinstance(regulariser, Pilot | Star):
        return regulariser
    return with_dgm(regulariser.inner)


@torch.no_grad()
def surprise(regulariser: Pilot | Star, x: Tensor) -> Tensor:
    """In nats, [n]: of the activations as the DGM sees them, in evaluation mode; of a starved Pilot, of x itself."""
    with predicting(regulariser):
        if isinstance(regulariser, Star):
            return of_inputs(regulariser.dgm, x.flatten(1))
        a = regulariser.record(x)
    if regulariser.normaliser is not None:
        a = regulariser.normaliser(a)
    masks = masks_of(regulariser.mask_prior, regulariser.mask_rate, a)
    return of_activations(regulariser.dgm, a, masks, regulariser._scales())


def masks_of(prior: MaskPrior, rate: float, a: Tensor) -> list[Mask]:
    """Those that the bound of a [n, D] is averaged over. Each is one row: it is the same for all samples."""
    every = slice(0, len(a))
    if prior.whole_layers:
        columns = torch.eye(prior.features).to(a).split(1)
        parts = [(Part(layer, every, None),) for layer in prior.layers]
        return [Mask(None, None, seen, own) for seen, own in zip(columns, parts, strict=True)]
    drawn = torch.rand(MASKS, prior.features, generator=torch.Generator().manual_seed(SEED)) < rate
    return [
        Mask(None, None, seen, tuple(map(Part, prior.layers, repeat(every), seen.split(prior.sizes, dim=1))))
        for seen in drawn.to(a).split(1)
    ]


def of_activations(dgm: DGM, a: Tensor, masks: Sequence[Mask], scales: Tensor | None = None) -> Tensor:
    """The mean over these masks of −Λ(a, b; θ, φ), for each sample of a [n, D]: see `DGM.bound`."""
    total, all_of_it = a.new_zeros(len(a)), dgm.posterior_trunk(a)
    for mask in masks:
        b = dgm.see_mask(mask)
        trunk = F.relu(dgm.prior_trunk(dgm.hide(a, mask)) + b)
        mu_q, sigma_q = split_gaussian(dgm.posterior(F.relu(all_of_it + b)))
        total += gaussian_kl(mu_q, sigma_q, *split_gaussian(dgm.prior(trunk)))
        for part, mean in zip(mask.parts, dgm.mean(mu_q, trunk, mask.parts), strict=True):
            target, variance = a[:, dgm.slices[part.layer]], dgm.variance_of(part.layer, scales)
            total -= gaussian_log_likelihood(target, mean, variance, part.units)
    return total / len(masks)


def of_inputs(dgm: VAE, x: Tensor) -> Tensor:
    """KL − log p(x | z) of each sample of x [n, D]. With a prior for each class it is held against their mixture."""
    mean, sigma = dgm.posterior_of(x)
    kl = gaussian_kl(mean[:, None], sigma[:, None], dgm.prior_mean, dgm.prior_log_sigma.exp())  # [n, priors]
    of_mixture = math.log(kl.shape[1]) - (-kl).logsumexp(1)  # at least its KL, since that is convex
    return of_mixture - gaussian_log_likelihood(x, dgm.decoder(mean), dgm.residual, None)
