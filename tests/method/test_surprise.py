"""Surprise: the DGM's negative bound, image by image, against slow and obvious versions of it."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import Independent, Normal, kl_divergence
from torch.nn import functional as F

from pilotstudy.method.blind import Blind
from pilotstudy.method.masks import MASK_KINDS
from pilotstudy.method.pilot import Pilot
from pilotstudy.method.regulariser import Regulariser
from pilotstudy.method.star import Star
from pilotstudy.method.surprise import surprise, with_dgm

LAYERS, SIZES = ["first", "second"], [6, 5, 4, 3]  # the logits are among the sizes
STARTS = [0, 6, 11, 15]
SMALL = {"dgm_width": 8, "z": 2}


class Net(nn.Module):
    """Whose dropout is seen only if it is not in evaluation mode."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 5), nn.Linear(5, 4), nn.Linear(4, 3)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return self.last(self.dropout(F.relu(self.second(F.relu(self.first(self.dropout(x.flatten(1))))))))


@pytest.fixture
def x(double):
    torch.manual_seed(0)
    return torch.randn(7, 1, 2, 3)


def trained(regulariser):
    """A few steps on, so that running moments are not what they began with; in training mode."""
    optimiser = torch.optim.Adam(regulariser.parameter_groups(1e-2))
    for _ in range(5):
        optimiser.zero_grad()
        regulariser.loss(3 * torch.randn(40, 1, 2, 3) + 1, torch.arange(40) % 3).total.backward()
        optimiser.step()
    return regulariser


def gaussian(mean, sigma) -> Independent:
    return Independent(Normal(mean, sigma), 1)


def masks(pilot: Pilot) -> list[torch.Tensor]:
    """What the law may hide, a number for each unit; of units four draws."""
    sizes = SIZES[:1] if pilot.mask_prior.kind.startswith("x") else SIZES[:3]
    if not pilot.mask_prior.whole_layers:
        drawn = torch.rand(4, sum(sizes), generator=torch.Generator().manual_seed(0))
        return list((drawn < pilot.mask_rate).double())
    of_units = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return [(of_units == layer).double() for layer in range(len(sizes))]


def slow(pilot: Pilot, image: torch.Tensor) -> torch.Tensor:
    """Of one image, unit by unit."""
    net, dgm, normaliser = pilot.network, pilot.dgm, pilot.normaliser
    first = net.first(image.flatten())
    second = net.second(F.relu(first))
    layers = [image.flatten(), first, second, net.last(F.relu(second))]
    variances = [dgm.decoder_variance] * 4
    if normaliser:
        scales = normaliser.variance.sqrt()
        layers = [
            (u - normaliser.mean[s : s + len(u)]) / scale for u, s, scale in zip(layers, STARTS, scales, strict=True)
        ]
        if pilot.variance_in == "raw":
            variances = [variance / scale**2 for variance, scale in zip(variances, scales, strict=True)]
    a, bounds = torch.cat(layers), []
    for b in masks(pilot):
        every = torch.cat([b, torch.zeros(len(a) - len(b))])
        seen = b[STARTS[: pilot.mask_prior.features]] if pilot.mask_prior.whole_layers else b
        observed = 0 * a if isinstance(pilot, Blind) else a * (1 - every)
        trunk = F.relu(dgm.prior_trunk(observed) + dgm.mask_trunk(seen))
        mu_p, s_p = dgm.prior(trunk).chunk(2)
        mu_q, s_q = dgm.posterior(F.relu(dgm.posterior_trunk(a) + dgm.mask_trunk(seen))).chunk(2)
        bound = -kl_divergence(gaussian(mu_q, F.softplus(s_q)), gaussian(mu_p, F.softplus(s_p)))
        hidden = dgm.decoder(torch.cat([mu_q, trunk]))
        for k, (start, size) in enumerate(zip(STARTS, SIZES, strict=True)):
            for unit in range(size):
                if every[start + unit]:
                    mean = dgm.heads[str(k)](hidden)[unit]
                    bound = bound + Normal(mean, variances[k] ** 0.5).log_prob(a[start + unit])
        bounds.append(bound)
    return -torch.stack(bounds).mean()


@pytest.mark.parametrize("kind", MASK_KINDS)
@pytest.mark.parametrize(
    ("of", "settings"),
    [(Pilot, {}), (Pilot, {"variance_in": "raw"}), (Pilot, {"variance_in": "raw", "normalise": False}), (Blind, {})],
)
def test_it_is_the_negative_bound_of_a_slow_obvious_version(kind, of, settings, x):
    pilot = trained(of(Net(), LAYERS, x[:1], mask=kind, mask_rate=0.6, dgm_view="units", **SMALL, **settings))
    expected = torch.stack([slow(pilot, image) for image in x]).detach()
    torch.testing.assert_close(surprise(pilot, x), expected)
    torch.testing.assert_close(surprise(pilot, x[3:5]), expected[3:5])  # whatever else is in the batch


@pytest.mark.parametrize("kind", MASK_KINDS)
def test_it_is_near_the_mean_of_the_bound_that_is_trained(kind, x):
    """Which draws z and the mask."""
    pilot = trained(Pilot(Net(), LAYERS, x[:1], mask=kind, mask_rate=1.0, dgm_view="units", **SMALL)).eval()
    a, drawn = pilot.normaliser(pilot.record(x)), []
    for _ in range(600):
        mask = pilot.draw_mask(x)
        bound = pilot.dgm.bound(mask.select(a), mask)
        drawn.append((bound.kl - bound.reconstruction).detach() / len(x))
    mean, deviation = torch.stack(drawn).mean(), torch.stack(drawn).std() / math.sqrt(600)
    assert abs(surprise(pilot, x).mean() - mean) < 0.05 * mean.abs() + 3 * deviation


@pytest.mark.parametrize("prior", ["common", "class"])
def test_that_of_a_starved_pilot_is_of_the_input(prior, x):
    star = trained(Star(Net(), x[:1], prior=prior, **SMALL))
    for image, told in zip(x.flatten(1), surprise(star, x), strict=True):
        mean, log_sigma = star.dgm.encoder(image).chunk(2)
        q = gaussian(mean, log_sigma.exp())
        priors = [gaussian(m, s.exp()) for m, s in zip(star.dgm.prior_mean, star.dgm.prior_log_sigma, strict=True)]
        kl = -torch.stack([-kl_divergence(q, p) for p in priors]).exp().mean().log()
        reconstruction = gaussian(star.dgm.decoder(mean), star.dgm.residual.sqrt()).log_prob(image)
        torch.testing.assert_close(told, (kl - reconstruction).detach())
        z = q.sample((5000,))
        mixture = torch.stack([p.log_prob(z) for p in priors]).exp().mean(0).log()
        assert kl > (q.log_prob(z) - mixture).mean() - 0.1  # a bound still: no less than the divergence itself


@pytest.mark.parametrize("kind", MASK_KINDS)
def test_nothing_is_drawn_and_nothing_changes(kind, x):
    pilot = trained(Pilot(Net(), LAYERS, x[:1], mask=kind, dgm_view="units", **SMALL))
    random, before = torch.get_rng_state(), {name: value.clone() for name, value in pilot.named_buffers()}
    assert torch.equal(surprise(pilot, x), surprise(pilot, x))
    assert torch.equal(random, torch.get_rng_state())
    assert pilot.training
    assert all(torch.equal(value, before[name]) for name, value in pilot.named_buffers())


def test_the_outermost_regulariser_with_a_dgm_is_asked(x):
    star = Star(Net(), x[:1])
    assert with_dgm(Regulariser(star)) is star
    assert with_dgm(Regulariser(Regulariser(Net()))) is None
