"""Last-layer Laplace, held to the exact Hessian where Kronecker factors are exact, and to a slow obvious version."""

import math

import pytest
import torch
from scipy.optimize import minimize_scalar
from torch import nn
from torch.nn import functional as F

from pilotstudy.method.laplace import Laplace
from pilotstudy.networks.mlp import mlp


def made(n: int, *, classes: int = 3, bias: bool = True, **settings) -> tuple[Laplace, torch.Tensor, torch.Tensor]:
    """Fitted to n images, with what goes into the last layer for them."""
    torch.manual_seed(0)
    body = [nn.Flatten(), nn.Linear(9, 4), nn.Tanh()]
    network = nn.Sequential(*body, nn.Linear(4, classes, bias=bias))
    x = torch.randn(n, 1, 3, 3)
    laplace = Laplace(network, x[:1], **settings)
    laplace.prepare_sampling([(part, torch.zeros(len(part), dtype=torch.long)) for part in x.split(7)], 10)
    return laplace, x, network[:3](x).detach()


def covariance_of_logits(laplace: Laplace, h: torch.Tensor) -> torch.Tensor:
    """As its draws have it."""
    along = (h @ laplace.inputs_basis).square() @ laplace.variances
    return laplace.outputs_basis @ along.diag() @ laplace.outputs_basis.T


def best_prior(curvature: torch.Tensor, squares: float) -> float:
    """The τ of the largest marginal likelihood, by a search along its logarithm."""

    def negative(log_tau: float) -> float:
        ratio = (curvature / math.exp(log_tau)).log1p().sum().item()  # log (λ + τ) − log τ keeps its digits
        return 0.5 * (ratio + math.exp(log_tau) * squares)

    best = minimize_scalar(negative, bounds=(-40, 8), method="bounded", options={"xatol": 1e-10})
    return math.exp(best.x)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("classes", [2, 5])
def test_the_exact_hessian_of_one_image(classes, bias, double):
    laplace, _, h = made(1, classes=classes, bias=bias, prior_precision=0.3)
    layer = laplace.network[3]
    theta = torch.cat([layer.weight, layer.bias[:, None]], 1) if bias else layer.weight
    one = torch.cat([h, torch.ones(1, 1)], 1) if bias else h

    def loss(flat: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(one @ flat.view(classes, -1).T, torch.tensor([1]), reduction="sum")

    hessian = torch.autograd.functional.hessian(loss, theta.detach().flatten())
    covariance = torch.linalg.inv(hessian + 0.3 * torch.eye(len(hessian)))
    test = torch.randn(one.shape[1])
    jacobian = torch.kron(torch.eye(classes), test)
    torch.testing.assert_close(covariance_of_logits(laplace, test), jacobian @ covariance @ jacobian.T)


def test_a_slow_version_of_many_images(double):
    laplace, x, h = made(40, prior_precision=2.0)
    h = torch.cat([h, torch.ones(40, 1)], 1)
    p = laplace.network(x).softmax(1).detach()
    a = sum(torch.outer(each, each) for each in h) / 40
    b = sum(each.diag() - torch.outer(each, each) for each in p) / 40
    covariance = torch.linalg.inv(40 * torch.kron(b, a) + 2.0 * torch.eye(15))
    test = torch.randn(5)
    jacobian = torch.kron(torch.eye(3), test)
    torch.testing.assert_close(covariance_of_logits(laplace, test), jacobian @ covariance @ jacobian.T)


def test_draws_have_that_covariance(double):
    laplace, x, h = made(40, prior_precision=2.0)
    laplace.sampling = True
    laplace.eval()
    logits = laplace(x[:1].expand(20_000, -1, -1, -1))
    expected = covariance_of_logits(laplace, torch.cat([h[0], torch.ones(1)]))
    torch.testing.assert_close(torch.cov(logits.T), expected, rtol=0, atol=0.05 * expected.diag().max().item())
    torch.testing.assert_close(
        logits.mean(0), laplace.network(x[:1])[0], rtol=0, atol=5 * (expected.diag().max() / 20_000).sqrt().item()
    )


def test_the_prior_is_fitted_by_the_marginal_likelihood(double):
    laplace, _, _ = made(40)
    given, _, _ = made(40, prior_precision=1.0)
    curvature = 1 / given.variances - 1.0
    squares = sum(p.square().sum().item() for p in laplace.network[3].parameters())
    found = (1 / laplace.variances - curvature).mean().item()
    assert found == pytest.approx(best_prior(curvature, squares), rel=1e-5)


@pytest.mark.parametrize("size", [1e6, 1.0, 1e-3, 1e-8, 1e-16])
def test_the_prior_is_found_however_sure_the_network_is(size, double):
    """Of training images that it is sure of, the curvature is next to nothing."""
    laplace, _, _ = made(40)
    curvature = size * torch.rand(5, 3)
    squares = sum(p.square().sum().item() for p in laplace.network[3].parameters())
    assert laplace._fitted_precision(curvature).item() == pytest.approx(best_prior(curvature, squares), rel=1e-3)


def test_training_and_points_are_the_networks_own():
    laplace, x, _ = made(12)
    y = torch.arange(12) % 3
    torch.testing.assert_close(laplace.loss(x, y).total, F.cross_entropy(laplace.network(x), y))
    assert torch.equal(laplace.predict(x), laplace.network(x))
    assert not torch.equal(laplace.predict(x, 3), laplace.predict(x, 3))


def test_predictions_that_are_not_prepared_are_refused():
    laplace, x, _ = made(12)
    laplace.predict(x, 1)
    laplace.load_state_dict(laplace.state_dict())
    with pytest.raises(ValueError, match="call prepare_sampling"):
        laplace.predict(x, 1)
    with pytest.raises(ValueError, match="was given no images"):
        laplace.prepare_sampling([], 1)
    assert not any(module._forward_hooks for module in laplace.network.modules())


class Softened(nn.Sequential):
    def forward(self, x):
        return super().forward(x) / 2


@pytest.mark.parametrize(
    "network",
    [
        nn.Sequential(nn.Flatten(), nn.Linear(9, 4), nn.ReLU()),
        Softened(nn.Flatten(), nn.Linear(9, 4)),
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten()),
    ],
)
def test_networks_whose_logits_are_no_linear_layers_are_refused(network):
    with pytest.raises(ValueError, match="laplace needs a network whose logits are"):
        Laplace(network, torch.zeros(1, 1, 3, 3))


def test_it_is_found_within_a_nested_network():
    from pilotstudy.method.dropout import Dropout

    network = mlp((1, 3, 3), 4, hidden=(8, 6))
    x = torch.randn(9, 1, 3, 3)
    assert Laplace(Dropout(network, network.layers, x[:1]), x[:1]).last == "network.logits"
