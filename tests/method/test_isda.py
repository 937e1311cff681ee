"""ISDA against its definition: draws of features, and the moments of everything seen."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from pilotstudy.method.isda import ISDA
from pilotstudy.networks.mlp import mlp


@given(batches=st.lists(st.integers(1, 9), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_moments_are_those_of_all_that_a_class_has_shown_however_it_came_in_batches(batches, seed):
    random = np.random.default_rng(seed)
    features, labels = random.normal(size=(sum(batches), 3)) + 5, random.integers(0, 3, sum(batches))
    isda = made(3)
    start = 0
    for size in batches:
        rows = slice(start, start + size)
        isda.learn(torch.from_numpy(features[rows]), torch.from_numpy(labels[rows]))
        start += size
    for k in range(4):
        own = features[labels == k]
        assert isda.count[k] == len(own)
        if len(own):
            np.testing.assert_allclose(isda.mean[k], own.mean(0), rtol=1e-12)
            np.testing.assert_allclose(isda.covariance[k], np.cov(own.T, ddof=0), atol=1e-12)
        else:
            assert not isda.covariance[k].any()


def made(features: int) -> ISDA:
    network = nn.Sequential(nn.Linear(features, 4)).double()
    return ISDA(network, torch.zeros(1, features).double(), strength=0.5)


def test_the_loss_is_the_bound_that_draws_of_features_have(double):
    """log E Σ_j exp(z̃_j − z̃_y) over f̃ ~ N(f, λ Σ_y), which is at least the expected cross-entropy."""
    torch.manual_seed(0)
    isda = made(3)
    isda.progress = 0.8
    features = torch.randn(6, 3) @ torch.randn(3, 3)
    y = torch.tensor([0, 0, 0, 1, 1, 1])
    loss = isda.loss(features, y).total.item()
    bounds, expected = [], []
    for f, label in zip(features, y.tolist(), strict=True):
        own = features[y == label]
        covariance = torch.from_numpy(np.cov(own.T.numpy(), ddof=0))
        values, vectors = torch.linalg.eigh(0.5 * 0.8 * covariance)
        draws = f + torch.randn(200_000, 3) * values.clamp_min(0).sqrt() @ vectors.T
        logits = isda.network(draws)
        bounds.append((logits - logits[:, [label]]).exp().sum(1).mean().log())
        expected.append(F.cross_entropy(logits, torch.full((len(draws),), label)))
    assert loss == pytest.approx(torch.stack(bounds).mean().item(), rel=0.01)
    assert torch.stack(expected).mean().item() < loss


def test_at_the_start_of_training_it_is_cross_entropy(double):
    torch.manual_seed(0)
    net = mlp((3, 4, 4), 4, hidden=(9, 7))
    x, y = torch.randn(12, 3, 4, 4), torch.arange(12) % 4
    isda = ISDA(net, x[:1])
    torch.testing.assert_close(isda.loss(x, y).total, F.cross_entropy(net(x), y))
    features = net.layer2(net.layer1(x.flatten(1)).relu()).relu()
    torch.testing.assert_close(isda.mean[1], features[y == 1].mean(0))
    assert not isda.covariance.requires_grad


def test_no_gradient_passes_through_the_covariance(double):
    """That of the weights is the derivative of the formula with Σ held fixed."""
    torch.manual_seed(0)
    isda, features, y = made(3), torch.randn(6, 3), torch.arange(6) % 2
    isda.progress = 1.0
    fixed = copy.deepcopy(isda)
    fixed.learn(features, y)
    isda.loss(features, y).total.backward()
    layer = isda.network[0]

    def by_hand(weight: torch.Tensor) -> torch.Tensor:
        logits = F.linear(features, weight, layer.bias.detach())
        added = [[(weight[j] - weight[k]) @ fixed.covariance[k] @ (weight[j] - weight[k]) for j in range(4)] for k in y]
        return F.cross_entropy(logits + 0.25 * torch.stack([torch.stack(row) for row in added]), y)

    torch.testing.assert_close(layer.weight.grad, torch.func.grad(by_hand)(layer.weight.detach()))


def test_what_is_out_of_bounds_is_refused():
    with pytest.raises(ValueError, match="strength = -1"):
        ISDA(nn.Linear(3, 4), torch.zeros(1, 3), strength=-1)
