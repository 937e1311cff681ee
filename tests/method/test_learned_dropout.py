"""Concrete dropout, and Gaussian dropout with its KL held to numerical integration."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from torch import nn
from torch.nn import functional as F

from pilotstudy.method.learned_dropout import ConcreteDropout, GaussianDropout, LearnedDropout, VariationalDropout
from pilotstudy.networks.mlp import mlp
from pilotstudy.study.recipe import Training
from pilotstudy.trial.optimising import Optimising

CONSTANT = -(np.euler_gamma + math.log(2)) / 2  # −KL is 0 where α is infinite


def net() -> nn.Module:
    return mlp((1, 3, 3), 4, hidden=(8, 6))


def convolutions() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 6, 3, groups=2), nn.Flatten(), nn.Linear(96, 3))


def concrete(network=None, shape=(1, 3, 3), **settings) -> ConcreteDropout:
    return ConcreteDropout(network or net(), torch.zeros(1, *shape), train_size=50, **settings)


def exact_kl(alpha: float) -> float:
    """KL of N(θ, αθ²) to the log-uniform prior, by integration."""
    deviation = math.sqrt(alpha)

    def integrand(t: float) -> float:
        """Of E log|w| for w ~ N(1, α), over t = log|w|: both signs of w."""
        w = math.exp(t)
        densities = math.exp(-(((w - 1) / deviation) ** 2) / 2) + math.exp(-(((w + 1) / deviation) ** 2) / 2)
        return t * w * densities / (deviation * math.sqrt(2 * math.pi))

    mean = quad(integrand, -40, math.log(1 + 12 * deviation), limit=1000, points=[0.0])[0]
    return -(0.5 * math.log(alpha) - mean + CONSTANT)


@given(st.floats(-6, 0))
def test_kingmas_kl_is_that_of_the_integral_for_alpha_up_to_1(log_alpha):
    dropout = GaussianDropout(net(), torch.zeros(1, 1, 3, 3), train_size=1)
    found = dropout.kl(torch.tensor(log_alpha, dtype=torch.float64)).item() - CONSTANT
    assert found == pytest.approx(exact_kl(math.exp(log_alpha)), abs=0.045)  # 0.04 at α = 0.14


@given(st.floats(-6, 8))
def test_molchanovs_kl_is_that_of_the_integral_for_all_alpha(log_alpha):
    dropout = VariationalDropout(net(), torch.zeros(1, 1, 3, 3), train_size=1)
    found = dropout.kl(torch.tensor(log_alpha, dtype=torch.float64)).item()
    assert found == pytest.approx(exact_kl(math.exp(log_alpha)), abs=0.01)


@pytest.mark.parametrize("per", ["layer", "unit"])
@pytest.mark.parametrize("kind", [GaussianDropout, VariationalDropout])
def test_the_kl_is_summed_over_the_weights_of_all_layers_but_the_first(kind, per, double):
    dropout = kind(convolutions(), torch.zeros(1, 1, 8, 8), train_size=50, kl_weight=0.5, per=per)
    torch.manual_seed(0)
    with torch.no_grad():
        for amount in dropout.amounts:
            amount.copy_(-torch.rand_like(amount))
    weights = [module.weight for module in (dropout.network[2], dropout.network[4])]
    assert [len(amount) for amount in dropout.amounts] == ([4, 96] if per == "unit" else [1, 1])
    total = 0.0
    for amount, weight, channels in zip(dropout.amounts, weights, (4, 96), strict=True):
        for channel in range(channels):
            each = dropout.kl(amount[channel if per == "unit" else 0])
            total += each.item() * weight.numel() / channels
    assert dropout.penalty().item() == pytest.approx(0.5 * total / 50)


def test_gaussian_noise_has_its_variance_and_a_channel_one_draw():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Conv2d(4, 2, 1, bias=False), nn.Flatten(), nn.Linear(72, 3))
    dropout = GaussianDropout(network, torch.zeros(1, 1, 8, 8), train_size=1, first_alpha=0.25)
    nn.init.dirac_(network[1].weight)  # it gives the first two channels that go into it
    x, seen = torch.randn(1, 1, 8, 8).expand(3000, -1, -1, -1), []
    network[1].register_forward_hook(lambda module, args, output: seen.append(output))
    dropout.training_logits(x)
    ratio = (seen[0] / network[0](x)[:, :2]).flatten(2).detach()
    torch.testing.assert_close(ratio, ratio[:, :, :1].expand_as(ratio), rtol=1e-3, atol=1e-3)
    assert ratio.mean().item() == pytest.approx(1, abs=0.03)
    assert ratio[:, :, 0].var().item() == pytest.approx(0.25, rel=0.08)


@pytest.mark.parametrize(("kind", "most"), [(GaussianDropout, 0.0), (VariationalDropout, 8.0)])
def test_alpha_is_bounded_and_comes_back(kind, most):
    dropout = kind(net(), torch.zeros(1, 1, 3, 3), train_size=1, kl_weight=0.0, per="layer")
    with torch.no_grad():
        dropout.amounts[0].fill_(50.0)
    assert dropout.log_alpha(0).item() == most
    x, y = torch.randn(20, 1, 3, 3), torch.arange(20) % 4
    dropout.loss(x, y).total.backward()
    assert dropout.amounts[0].item() == most
    assert dropout.amounts[0].grad.any()


def test_concrete_dropout_by_hand(double):
    dropout, x = concrete(first_rate=0.3), torch.randn(5, 1, 3, 3)
    torch.manual_seed(1)
    found = dropout.training_logits(x)
    torch.manual_seed(1)
    p, h = 0.3, x.flatten(1)
    for layer in dropout.network.layer1, dropout.network.layer2, dropout.network.logits:
        if layer is not dropout.network.layer1:
            u = torch.rand(5, layer.in_features).numpy()
            raised = (math.log(p) - math.log(1 - p) + np.log(u) - np.log(1 - u)) / 0.1
            kept = 1 - 1 / (1 + np.exp(-raised))
            h = h.relu() * torch.from_numpy(kept) / (1 - p)
        h = layer(h)
    torch.testing.assert_close(found, h)


def test_a_unit_is_dropped_at_the_rate():
    torch.manual_seed(0)
    dropout = concrete(first_rate=0.2)
    noise = dropout.noise(0, dropout.network.layer2, torch.zeros(5000, 8))
    assert (noise < 0.5 / 0.8).float().mean().item() == pytest.approx(0.2, abs=0.01)
    assert noise.mean().item() == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(("network", "shape"), [(net, (1, 3, 3)), (convolutions, (1, 8, 8))])
def test_concrete_penalty_by_hand(network, shape, double):
    dropout = concrete(network(), shape, first_rate=0.3, length_scale=0.7)
    modules = [m for m in dropout.network if isinstance(m, nn.Linear | nn.Conv2d)][1:]
    total = 0.0
    for module in modules:
        units = module.in_features if isinstance(module, nn.Linear) else module.in_channels
        total += 0.7**2 / (2 * 50) * module.weight.square().sum().item() / 0.7
        total += units / 50 * (0.3 * math.log(0.3) + 0.7 * math.log(0.7))
    assert dropout.penalty().item() == pytest.approx(total)
    x, y = torch.randn(6, *shape), torch.arange(6) % 3
    loss = dropout.loss(x, y)
    assert (loss.total - loss.cross_entropy).item() == pytest.approx(total)


def test_without_data_the_rates_go_to_a_half():
    dropout = concrete(length_scale=0.0)
    optimiser = torch.optim.Adam(dropout.amounts, lr=0.1)
    for _ in range(300):
        optimiser.zero_grad()
        dropout.penalty().backward()
        optimiser.step()
    assert dropout.rates() == pytest.approx([0.5, 0.5], abs=1e-3)


@pytest.mark.parametrize("kind", [ConcreteDropout, GaussianDropout, VariationalDropout])
def test_gradients_of_the_amounts_are_finite_differences(kind, double):
    torch.manual_seed(0)
    dropout = kind(
        net(), torch.zeros(1, 1, 3, 3), train_size=50, **({} if kind is ConcreteDropout else {"per": "layer"})
    )
    x, y = torch.randn(30, 1, 3, 3), torch.arange(30) % 4

    def loss() -> torch.Tensor:
        torch.manual_seed(3)
        return dropout.loss(x, y).total

    loss().backward()
    amount = dropout.amounts[1]
    with torch.no_grad():
        amount += 1e-5
        above = loss().item()
        amount -= 2e-5
        below = loss().item()
    assert amount.grad.item() == pytest.approx((above - below) / 2e-5, rel=1e-5)


def test_without_noise_or_penalty_it_is_vanilla(double):
    x, y = torch.randn(6, 1, 3, 3), torch.arange(6) % 4
    dropout = GaussianDropout(net(), x[:1], train_size=9, kl_weight=0.0)
    with torch.no_grad():
        for amount in dropout.amounts:
            amount.fill_(-80.0)
    torch.testing.assert_close(dropout.loss(x, y).total, F.cross_entropy(dropout.network(x), y))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"train_size": 0}, "train_size = 0: must be a whole number at least 1"),
        ({"train_size": 5, "per": "weight"}, "per = 'weight': choose one of layer, unit"),
        ({"train_size": 5, "kl_weight": -1}, "kl_weight = -1"),
        ({"train_size": 5, "first_alpha": 2}, "first_alpha = 2"),
    ],
)
def test_what_is_refused(settings, says):
    with pytest.raises(ValueError, match=says):
        GaussianDropout(net(), torch.zeros(1, 1, 3, 3), **settings)


def test_a_network_without_hidden_units_is_refused():
    with pytest.raises(ValueError, match="no hidden units to drop"):
        LearnedDropout(nn.Sequential(nn.Flatten(), nn.Linear(9, 2)), torch.zeros(1, 1, 3, 3), train_size=1)


@pytest.mark.parametrize("kind", [ConcreteDropout, GaussianDropout, VariationalDropout])
def test_amounts_take_short_steps_whatever_the_networks_rate(kind):
    """A step of their Adam is as long as its rate: with that of SGD, a dropout rate would be 0 or 1 in a few steps."""
    dropout = kind(net(), torch.zeros(1, 1, 3, 3), train_size=50)
    recipe = Training.model_validate({"epochs": 1, "optimiser": "sgd", "learning_rate": 0.5})
    optimising = Optimising(dropout, recipe, captured=False)
    before = [amount.detach().clone() for amount in dropout.amounts]
    dropout.loss(torch.randn(20, 1, 3, 3), torch.arange(20) % 4).total.backward()
    optimising.step()
    for amount, was in zip(dropout.amounts, before, strict=True):
        assert 0 < (amount - was).abs().max().item() <= 0.01 + 1e-6
