import math

import pytest
import torch
from torch.distributions import Gamma, Normal, kl_divergence
from torch.nn import functional as F

from pilotstudy.method.dgm import DGM, gaussian_kl, gaussian_log_likelihood, normal_gamma, split_gaussian
from pilotstudy.method.masks import MASK_KINDS, MaskPrior

SIZES = [6, 5, 4, 3]  # the last are the logits


def sine_layer(outputs: int, inputs: int, phase: float) -> tuple[torch.Tensor, torch.Tensor]:
    o, i = torch.arange(outputs)[:, None], torch.arange(inputs)[None]
    return 0.3 * torch.sin(o * inputs + i + phase).double(), 0.1 * torch.cos(torch.arange(outputs) + phase).double()


def test_worked_example(double):
    """The one in notes/calibration.md."""
    a = torch.tensor([[0.5, -1, 2, 0.25], [-0.3, 0.7, 0, 1.5]])
    b = torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 0]])
    mu_q, sigma_q = split_gaussian(F.linear(torch.cat([a, b], 1), *sine_layer(4, 8, 1)))
    mu_p, sigma_p = split_gaussian(F.linear(torch.cat([a * (1 - b), b], 1), *sine_layer(4, 8, 2)))
    kl = gaussian_kl(mu_q, sigma_q, mu_p, sigma_p)
    hyperprior = normal_gamma(mu_p, sigma_p, 10.0, 1.0)
    reconstruction = gaussian_log_likelihood(a, F.linear(mu_q, *sine_layer(4, 2, 3)), 0.1, b)
    expected = {
        "mu_q": (mu_q, [[-0.1552078, -0.1356912], [-0.2551355, -0.1372254]]),
        "sigma_q": (sigma_q, [[0.7643201, 0.6732773], [0.8192050, 0.6598133]]),
        "mu_p": (mu_p, [[0.0571128, 0.4433216], [-0.3578714, 0.3341242]]),
        "sigma_p": (sigma_p, [[0.5450910, 0.4974285], [0.7575212, 0.4893244]]),
        "kl": (kl, [1.0116513, 0.5897810]),
        "hyperprior": (hyperprior, [-2.3486244, -2.2404775]),
        "reconstruction": (reconstruction, [-22.0460592, -2.0828078]),
        "bound": (reconstruction - kl + hyperprior, [-25.4063349, -4.9130663]),
    }
    for name, (found, wanted) in expected.items():
        torch.testing.assert_close(found, torch.tensor(wanted), atol=6e-8, rtol=0, msg=name)


def test_terms_agree_with_closed_forms(double):
    torch.manual_seed(0)
    mu_q, mu_p, a = torch.randn(3, 5, 4)
    sigma_q, sigma_p = torch.rand(2, 5, 4) + 0.1
    expected = kl_divergence(Normal(mu_q, sigma_q), Normal(mu_p, sigma_p)).sum(-1)
    torch.testing.assert_close(gaussian_kl(mu_q, sigma_q, mu_p, sigma_p), expected)
    assert gaussian_kl(mu_q, sigma_q, mu_q, sigma_q).abs().max() < 1e-15
    b = (torch.rand(5, 4) < 0.5).double()
    likelihood = (b * Normal(mu_p, math.sqrt(0.3)).log_prob(a)).sum(-1)
    torch.testing.assert_close(gaussian_log_likelihood(a, mu_p, 0.3, b), likelihood)
    # N(μ | 0, σ_μ) and, at σ_σ = 1, Gamma(σ | 2, 1), up to constants
    log_prior = Normal(0.0, 3.0).log_prob(mu_p) + Gamma(2.0, 1.0).log_prob(sigma_p)
    penalty = normal_gamma(mu_p, sigma_p, 3.0, 1.0)
    difference = log_prior.sum(-1) - penalty
    torch.testing.assert_close(difference, difference[:1].expand(5))


def test_the_deviation_has_a_floor():
    assert split_gaussian(torch.tensor([0.0, -100.0]))[1].item() == pytest.approx(1e-3)


@pytest.mark.parametrize("kind", MASK_KINDS)
def test_the_bound_is_that_of_a_slow_obvious_version(kind, double):
    torch.manual_seed(3)
    prior = MaskPrior(kind, SIZES[:-1])
    dgm = DGM(SIZES, prior.layers, prior.features, width=8, z=2, decoder_variance=0.2, sigma_mu=2.0, sigma_sigma=0.5)
    mask = prior.draw(12, 0.6)
    a = mask.select(torch.randn(12, sum(SIZES)))
    torch.manual_seed(4)
    found = dgm.bound(a, mask)
    torch.manual_seed(4)
    noise = torch.randn(len(a), 2)

    reconstruction = kl = hyperprior = 0.0
    for row in range(len(a)):
        b = torch.zeros(sum(SIZES))
        for part in mask.parts:
            start = sum(SIZES[: part.layer])
            if part.rows.start <= row < part.rows.stop:
                b[start : start + SIZES[part.layer]] = 1 if part.units is None else part.units[row]
        seen = dgm.mask_trunk(mask.seen[row])
        trunk = F.relu(dgm.prior_trunk(a[row] * (1 - b)) + seen)
        mu_p, s_p = dgm.prior(trunk).chunk(2)
        mu_q, s_q = dgm.posterior(F.relu(dgm.posterior_trunk(a[row]) + seen)).chunk(2)
        sigma_p, sigma_q = (F.softplus(s).clamp_min(1e-3) for s in (s_p, s_q))
        z = mu_q + sigma_q * noise[row]
        hidden = dgm.decoder(torch.cat([z, trunk]))
        for layer in prior.layers:
            start = sum(SIZES[:layer])
            mean = dgm.heads[str(layer)](hidden)
            for unit in range(SIZES[layer]):
                if b[start + unit]:
                    reconstruction += Normal(mean[unit], math.sqrt(0.2)).log_prob(a[row, start + unit])
        kl += kl_divergence(Normal(mu_q, sigma_q), Normal(mu_p, sigma_p)).sum()
        hyperprior += (-(mu_p**2) / (2 * 2.0**2) + 0.5 * (sigma_p.log() - sigma_p)).sum()
    torch.testing.assert_close(found.reconstruction, reconstruction)
    torch.testing.assert_close(found.kl, kl)
    torch.testing.assert_close(found.hyperprior, hyperprior)
    torch.testing.assert_close(found.total, reconstruction - kl + hyperprior)


def test_what_is_masked_does_not_reach_the_prior(double):
    torch.manual_seed(0)
    for kind in MASK_KINDS:
        prior = MaskPrior(kind, SIZES[:-1])
        dgm = DGM(SIZES, prior.layers, prior.features, width=8, z=2)
        mask = prior.draw(20, 0.5)
        a = torch.randn(20, sum(SIZES))
        other = a.clone()
        rows = torch.arange(20) if mask.rows is None else mask.rows
        for part in mask.parts:
            units = other[:, dgm.slices[part.layer]]
            b = torch.zeros(20, SIZES[part.layer])
            b[rows[part.rows]] = 1.0 if part.units is None else part.units
            units += b * 1000
        torch.manual_seed(1)
        first = dgm.sample(a, mask)
        torch.manual_seed(1)
        second = dgm.sample(other, mask)
        for x, y in zip(first, second, strict=True):
            torch.testing.assert_close(x, y)


def test_draws_from_shares_are_the_same_draws(double):
    torch.manual_seed(0)
    prior = MaskPrior("a-aug", SIZES[:-1])
    dgm = DGM(SIZES, prior.layers, prior.features, width=8, z=2)
    a, mask = torch.randn(20, sum(SIZES)), prior.draw(20, 0.7)
    torch.manual_seed(1)
    slow = dgm.sample(a, mask)
    torch.manual_seed(1)
    fast = dgm.sample(a, mask, dgm.shares(a))
    for x, y in zip(slow, fast, strict=True):
        torch.testing.assert_close(x, y)


def test_the_sample_carries_the_decoders_noise():
    torch.manual_seed(0)
    prior = MaskPrior("x-aug", [2000, 5])
    dgm = DGM([2000, 5, 3], prior.layers, prior.features, width=8, z=2, decoder_variance=4.0)
    mask = prior.draw(50, 1.0)
    means, draws = dgm.impute(mask, torch.zeros(50, 2), torch.zeros(50, 2), torch.zeros(50, 8))
    assert (draws[0] - means[0]).std().item() == pytest.approx(2.0, rel=0.02)
