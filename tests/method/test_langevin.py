"""SGLD: its law on a posterior that is known, a step by hand, and the weights that it keeps."""

import copy
import math

import pytest
import torch

from pilotstudy.method.langevin import DAMPING, Langevin, LangevinOptimiser
from pilotstudy.networks.mlp import mlp


@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_the_posterior_of_a_linear_regression(temperature, double):
    """Mean and covariance over many chains at once, each on the mean loss over all images."""
    torch.manual_seed(0)
    n, chains, noise, prior = 30, 4000, 0.5, 0.7
    x = torch.randn(n, 2) @ torch.tensor([[1.0, 0.4], [0.0, 0.8]])
    y = x @ torch.tensor([1.0, -2.0]) + noise * torch.randn(n)
    precision = x.T @ x / noise**2 + torch.eye(2) / prior**2
    mean = torch.linalg.solve(precision, x.T @ y / noise**2)
    theta = torch.nn.Parameter(torch.zeros(chains, 2))
    optimiser = LangevinOptimiser(
        [theta], lr=0.02, train_size=n, prior_deviation=prior, temperature=temperature, preconditioner="none"
    )
    for _ in range(600):
        optimiser.zero_grad()
        ((y - theta @ x.T).square().mean(1) / (2 * noise**2)).sum().backward()
        optimiser.step()
    found = theta.detach()
    covariance = temperature * torch.linalg.inv(precision)
    deviations = covariance.diag().sqrt()
    assert ((found.mean(0) - mean) / deviations).abs().max() < 5 / math.sqrt(chains)
    scaled = torch.cov(found.T) / torch.outer(deviations, deviations)
    torch.testing.assert_close(scaled, covariance / torch.outer(deviations, deviations), rtol=0, atol=0.12)


@pytest.mark.parametrize("preconditioner", ["none", "rmsprop"])
def test_steps_by_hand(preconditioner, double):
    torch.manual_seed(0)
    start, gradients = torch.randn(5), torch.randn(3, 5)
    theta = torch.nn.Parameter(start.clone())
    optimiser = LangevinOptimiser(
        [{"params": [theta], "lr": 0.1, "weight_decay": 0.2}],
        train_size=50,
        prior_deviation=2.0,
        temperature=0.3,
        preconditioner=preconditioner,
    )
    torch.manual_seed(1)
    for gradient in gradients:
        theta.grad = gradient.clone()
        optimiser.step()
    torch.manual_seed(1)
    expected, square = start.clone(), None
    for gradient in gradients:
        drift = gradient + (0.2 + 1 / (50 * 4.0)) * expected
        square = drift**2 if square is None else 0.99 * square + 0.01 * drift**2
        g = 1 / (DAMPING + square.sqrt()) if preconditioner == "rmsprop" else torch.ones(5)
        expected = expected - 0.1 * g * drift + (2 * 0.1 * 0.3 * g / 50).sqrt() * torch.randn(5)
    torch.testing.assert_close(theta.detach(), expected)


def kept_after(steps: int, *, snapshots: int, start: float = 0.7) -> tuple[Langevin, list[torch.Tensor]]:
    """Trained so many steps, and the weights before each step and after the last."""
    torch.manual_seed(0)
    x, y = torch.randn(8, 1, 3, 3), torch.arange(8) % 4
    langevin = Langevin(mlp((1, 3, 3), 4, hidden=(5,), batchnorm=True), train_size=8, start=start, snapshots=snapshots)
    optimiser = langevin.make_optimiser(langevin.parameter_groups(1e-3))
    weights = []
    for step in range(steps):
        langevin.progress = step / steps
        weights.append(langevin.vector.of(langevin.network))
        optimiser.zero_grad()
        langevin.loss(x, y).total.backward()
        optimiser.step()
    langevin.progress = 1.0
    langevin.after_epoch([])
    return langevin, [*weights, langevin.vector.of(langevin.network)]


def test_weights_of_the_last_part_are_kept_at_equal_distances():
    langevin, weights = kept_after(100, snapshots=5, start=0.5)
    assert langevin.is_kept.all()
    for place, step in enumerate((59, 69, 79, 89, 100)):  # the last of each part
        assert torch.equal(langevin.kept[place], weights[step])


def test_few_steps_keep_few_weights_and_none_before_the_start():
    langevin, weights = kept_after(10, snapshots=20)
    assert langevin.is_kept.sum() == 4  # 0.7, 0.8, 0.9 and the end
    assert torch.equal(langevin.kept[langevin.is_kept], torch.stack(weights[7:]))
    langevin, _ = kept_after(0, snapshots=20)
    fresh = copy.deepcopy(langevin)
    fresh.is_kept.fill_(False)
    x = torch.randn(3, 1, 3, 3)
    torch.testing.assert_close(fresh.predict(x, 2), fresh.predict(x).log_softmax(1))


def test_a_sampled_prediction_is_the_mean_over_the_kept_networks():
    langevin, _ = kept_after(10, snapshots=20)
    x = torch.randn(6, 1, 3, 3)
    networks = []
    for vector in langevin.kept[langevin.is_kept]:
        network = copy.deepcopy(langevin.network).eval()
        langevin.vector.put(network, vector)
        networks.append(network(x).softmax(1))
    assert langevin.sampling_cost(10) == (len(networks), len(networks))
    torch.testing.assert_close(langevin.predict(x, 10), torch.stack(networks).mean(0).log())
    torch.testing.assert_close(langevin.predict(x), langevin.network.eval()(x))


def test_at_no_temperature_it_is_descent():
    theta = torch.nn.Parameter(torch.ones(3))
    options = {"prior_deviation": 1e9, "temperature": 0.0, "preconditioner": "none", "train_size": 3}
    optimiser = LangevinOptimiser([theta], lr=0.5, **options)
    theta.grad = torch.tensor([1.0, 2.0, 3.0])
    optimiser.step()
    torch.testing.assert_close(theta.detach(), torch.tensor([0.5, 0.0, -0.5]))
