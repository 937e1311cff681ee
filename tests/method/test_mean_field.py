"""Mean-field variational inference, held to torch's own KL and to drawn weights."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F

from pilotstudy.method.mean_field import MeanField
from pilotstudy.networks.mlp import mlp

SHAPE = (2, 6, 6)


def convolutions(**options) -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, **options), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))


def made(network: nn.Module, **settings) -> MeanField:
    return MeanField(network, torch.zeros(1, *SHAPE), train_size=40, **settings)


def test_the_kl_is_that_of_torch(double):
    torch.manual_seed(0)
    mean_field = made(convolutions(), prior_deviation=0.3, kl_weight=0.25)
    with torch.no_grad():
        for rho in mean_field.rho:
            rho.copy_(torch.randn_like(rho))
    expected = sum(
        kl_divergence(Normal(module.weight, F.softplus(rho)), Normal(0.0, 0.3)).sum()
        for module, rho in zip((mean_field.network[0], mean_field.network[3]), mean_field.rho, strict=True)
    )
    torch.testing.assert_close(mean_field.kl(), expected)
    x, y = torch.randn(5, *SHAPE), torch.arange(5) % 3
    loss = mean_field.loss(x, y)
    torch.testing.assert_close(loss.total, loss.cross_entropy + 0.25 / 40 * expected)


@pytest.mark.parametrize("options", [{}, {"stride": 1, "padding_mode": "circular"}, {"groups": 2}])
def test_activations_have_the_moments_of_drawn_weights(options):
    """Of a first convolution and, in another network, of a linear layer."""
    torch.manual_seed(0)
    mean_field = made(convolutions(**options), first_rho=-1.0)
    layer, seen = mean_field.network[0], []
    mean_field.network[1].register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    x = torch.randn(1, *SHAPE)
    mean_field.training_logits(x.expand(4000, -1, -1, -1))
    drawn = []
    for _ in range(4000):
        weight = layer.weight + F.softplus(mean_field.rho[0]) * torch.randn_like(layer.weight)
        drawn.append(layer._conv_forward(x, weight, layer.bias)[0])
    expected = torch.stack(drawn)
    deviation = expected.std(0)
    assert ((seen[0].mean(0) - expected.mean(0)) / deviation).abs().max() < 0.12
    assert (seen[0].std(0) / deviation).log().abs().max() < 0.1


def test_a_linear_layer_has_the_variance_of_its_weights(double):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(72, 3))
    mean_field = made(network, first_rho=0.5)
    x = torch.randn(1, *SHAPE)
    logits = mean_field.training_logits(x.expand(20_000, -1, -1, -1))
    variance = x.square().sum() * F.softplus(torch.tensor(0.5)) ** 2
    torch.testing.assert_close(logits.var(0), variance.expand(3), rtol=0.05, atol=0)
    torch.testing.assert_close(logits.mean(0, keepdim=True), network(x), rtol=0, atol=4 * (variance / 20_000) ** 0.5)


def test_with_no_deviation_and_no_kl_it_is_vanilla(double):
    x, y = torch.randn(6, *SHAPE), torch.arange(6) % 4
    network = mlp(SHAPE, 4, hidden=(8, 6), batchnorm=True)
    mean_field = made(network, kl_weight=0.0, first_rho=-60.0)
    torch.testing.assert_close(mean_field.loss(x, y).total, F.cross_entropy(network(x), y))
    assert torch.equal(mean_field.predict(x), network.eval()(x))


def test_units_that_are_zero_have_finite_gradients():
    mean_field = made(convolutions())
    mean_field.loss(torch.zeros(4, *SHAPE), torch.arange(4) % 3).total.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in mean_field.parameters())


@pytest.mark.parametrize("first_rho", [-19.9, -20.1, -104.0, -1e4])
def test_the_kl_of_next_to_no_deviation_is_finite(first_rho, double):
    """It pulls ρ up at the same rate wherever it is: log(σₚ/σ) grows as −ρ."""
    mean_field = made(nn.Sequential(nn.Flatten(), nn.Linear(72, 3)), first_rho=first_rho, prior_deviation=0.5)
    kl = mean_field.kl()
    weight = mean_field.network[1].weight
    torch.testing.assert_close(kl, (math.log(0.5) - first_rho - 0.5 + weight.square() / (2 * 0.25)).sum())
    kl.backward()
    torch.testing.assert_close(mean_field.rho[0].grad, torch.full_like(weight, -1.0))


def test_biases_and_norms_have_no_distribution():
    network = mlp(SHAPE, 4, hidden=(8, 6), batchnorm=True)
    mean_field = made(network)
    assert [rho.shape for rho in mean_field.rho] == [p.shape for p in network.parameters() if p.ndim > 1]
    groups = mean_field.parameter_groups(0.1)
    assert sum(len(group["params"]) for group in groups) == len(list(mean_field.parameters()))
