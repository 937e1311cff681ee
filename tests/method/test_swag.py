"""SWAG: its moments, its draws, and batch normalisation fitted to them."""

import copy

import pytest
import torch
from torch import nn

from pilotstudy.method.swag import Swag
from pilotstudy.networks.mlp import mlp


def batches(n: int = 60) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(n, 1, 3, 3, generator=generator)
    return [(part, torch.arange(len(part)) % 4) for part in x.split(25)]


def moved(epochs: int, *, rank: int = 4, batchnorm: bool = False) -> tuple[Swag, list[torch.Tensor]]:
    """After so many epochs, half of which count, and the parameters that did."""
    torch.manual_seed(0)
    swag = Swag(mlp((1, 3, 3), 4, hidden=(3,), batchnorm=batchnorm), rank=rank)
    counted = []
    for epoch in range(1, epochs + 1):
        with torch.no_grad():
            for parameter in swag.network.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
        swag.progress = epoch / epochs
        swag.after_epoch(batches())
        if epoch >= epochs / 2:
            counted.append(torch.cat([p.detach().flatten() for p in swag.network.parameters()]))
    return swag, counted


def test_moments_and_deviations_are_the_papers(double):
    swag, counted = moved(12)
    weights = torch.stack(counted)
    assert swag.count == len(weights) == 7
    torch.testing.assert_close(swag.mean[: weights.shape[1]], weights.mean(0))
    torch.testing.assert_close(swag.variance, (weights**2).mean(0) - weights.mean(0) ** 2)
    running = [w - weights[: i + 1].mean(0) for i, w in enumerate(weights)]
    expected = torch.stack(running[-4:])
    found = swag.deviations[torch.tensor([3, 0, 1, 2])]  # the oldest of the kept comes first
    torch.testing.assert_close(found, expected)


def test_draws_have_the_papers_mean_and_covariance(double):
    swag, _ = moved(12)
    torch.manual_seed(1)
    drawn = torch.stack([swag.draw() for _ in range(20_000)])
    covariance = (swag.variance.diag() + swag.deviations.T @ swag.deviations / 3) / 2
    scale = covariance.diag().sqrt()
    assert ((drawn.mean(0) - swag.mean) / scale).abs().max() < 0.04
    correlations = (torch.cov(drawn.T) - covariance) / torch.outer(scale, scale)
    assert correlations.abs().max() < 0.06


def test_the_point_is_that_of_the_mean_once_there_is_one():
    torch.manual_seed(0)
    x = torch.randn(5, 1, 3, 3)
    swag, counted = moved(6)
    network = copy.deepcopy(swag.network)
    nn.utils.vector_to_parameters(torch.stack(counted).mean(0), network.parameters())
    torch.testing.assert_close(swag.predict(x), network(x))
    assert not torch.equal(swag.predict(x), swag.network(x))
    fresh = Swag(network)
    assert torch.equal(fresh.predict(x), network(x))
    fresh.prepare_sampling(batches(), 2)
    torch.testing.assert_close(fresh.predict(x, 2), network(x).log_softmax(1))


def test_batch_normalisation_is_fitted_to_the_mean_and_to_each_draw(double):
    swag, _ = moved(6, batchnorm=True)
    before = copy.deepcopy(swag.network.state_dict())
    swag.prepare_sampling(batches(), 3)
    assert all(torch.equal(value, before[name]) for name, value in swag.network.state_dict().items())
    for vector in swag.mean, *swag.draws:
        named = swag.vector.named(vector)
        means = [
            nn.functional.linear(x.flatten(1), named["layer1.weight"], named["layer1.bias"]).mean(0)
            for x, _ in batches()
        ]
        torch.testing.assert_close(named["layer1_norm.running_mean"], torch.stack(means).mean(0))
    x = torch.randn(5, 1, 3, 3)
    networks = []
    for vector in swag.draws:
        network = copy.deepcopy(swag.network).eval()
        swag.vector.put(network, vector)
        networks.append(network(x).softmax(1))
    torch.testing.assert_close(swag.predict(x, 3), torch.stack(networks).mean(0).log())


def test_predictions_that_are_not_prepared_are_refused():
    swag, _ = moved(4)
    with pytest.raises(ValueError, match=r"call prepare_sampling\(batches, 3\) first"):
        swag.predict(torch.zeros(2, 1, 3, 3), 3)
    swag.prepare_sampling(batches(), 3)
    swag.predict(torch.zeros(2, 1, 3, 3), 3)
    swag.load_state_dict(swag.state_dict())
    with pytest.raises(ValueError, match="call prepare_sampling"):
        swag.predict(torch.zeros(2, 1, 3, 3), 3)
