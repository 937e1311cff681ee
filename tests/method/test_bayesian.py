"""What the Bayesian arms have in common: any network, copies, states, autocast, and arms within arms."""

import copy
import pickle

import pytest
import torch
from torch import nn

from pilotstudy.method.dropout import Dropout
from pilotstudy.method.langevin import Langevin
from pilotstudy.method.laplace import Laplace
from pilotstudy.method.learned_dropout import ConcreteDropout, GaussianDropout, VariationalDropout
from pilotstudy.method.mean_field import MeanField
from pilotstudy.method.modes import fit_normalisation
from pilotstudy.method.regulariser import Regulariser
from pilotstudy.method.swag import Swag
from pilotstudy.networks.cnn import cnn
from pilotstudy.networks.mlp import mlp
from tests.method.test_any_network import NETWORKS as OTHERS

NETWORKS = {name: (make, shape, classes) for name, (make, shape, classes) in OTHERS.items()} | {
    "mlp": (lambda: mlp((1, 8, 8), 3, hidden=(9, 7)), (1, 8, 8), 3),
    "mlp with norm": (lambda: mlp((1, 8, 8), 3, hidden=(9, 7), batchnorm=True), (1, 8, 8), 3),
    "cnn": (lambda: cnn((1, 16, 16), 3), (1, 16, 16), 3),
}
ARMS = {
    "concrete-dropout": lambda network, x: ConcreteDropout(network, x, train_size=16),
    "gaussian-dropout": lambda network, x: GaussianDropout(network, x, train_size=16, per="unit"),
    "variational-dropout": lambda network, x: VariationalDropout(network, x, train_size=16),
    "mfvi": lambda network, x: MeanField(network, x, train_size=16),
    "sgld": lambda network, x: Langevin(network, train_size=16, start=0.0, snapshots=3),
    "swag": lambda network, x: Swag(network, start=0.0, rank=3),
    "laplace": lambda network, x: Laplace(network, x),
}


def trained(regulariser: Regulariser, x: torch.Tensor, y: torch.Tensor, epochs: int = 3) -> Regulariser:
    """A step each epoch; then ready for two samples."""
    groups = regulariser.parameter_groups(1e-2)
    optimiser = regulariser.make_optimiser(groups) or torch.optim.Adam([dict(group) for group in groups])
    for epoch in range(epochs):
        regulariser.train().progress = epoch / epochs
        optimiser.zero_grad()
        regulariser.loss(x, y).total.backward()
        optimiser.step()
        regulariser.progress = (epoch + 1) / epochs
        regulariser.after_epoch([(x, y)])
    regulariser.prepare_sampling([(x, y)], 2)
    return regulariser


@pytest.mark.parametrize("which", NETWORKS)
@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_trains_and_predicts_on_any_network(arm, which):
    make, shape, classes = NETWORKS[which]
    torch.manual_seed(0)
    x, y = torch.randn(16, *shape), torch.arange(16) % classes
    network = make()
    state = torch.get_rng_state()
    regulariser = ARMS[arm](network, x[:1])
    assert torch.equal(torch.get_rng_state(), state)
    trained(regulariser, x, y)
    assert all(p.isfinite().all() for p in regulariser.parameters())
    assert torch.equal(regulariser.predict(x), regulariser.predict(x))
    sampled = regulariser.predict(x, 2)
    assert sampled.exp().sum(1).allclose(torch.ones(16), atol=1e-5)
    assert not sampled.allclose(regulariser.predict(x).log_softmax(1), atol=1e-6)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in regulariser.modules())


@pytest.mark.parametrize("how", [copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))])
@pytest.mark.parametrize("arm", ARMS)
def test_a_copy_is_one_of_its_own(arm, how):
    make, shape, classes = NETWORKS["mlp with norm"]
    torch.manual_seed(0)
    x, y = torch.randn(16, *shape), torch.arange(16) % classes
    original = trained(ARMS[arm](make(), x[:1]), x, y)
    copied = how(original)
    predictions = []
    for regulariser in original, copied:
        torch.manual_seed(1)
        predictions.append((regulariser.predict(x), regulariser.predict(x, 2)))
    assert all(map(torch.equal, *predictions))
    with torch.no_grad():
        for tensor in (*copied.parameters(), *copied.buffers()):
            tensor.zero_()
    assert torch.equal(original.predict(x), predictions[0][0])


@pytest.mark.parametrize("arm", ARMS)
def test_a_state_is_all_that_there_is_to_know(arm):
    make, shape, classes = NETWORKS["mlp with norm"]
    torch.manual_seed(0)
    x, y = torch.randn(16, *shape), torch.arange(16) % classes
    original = trained(ARMS[arm](make(), x[:1]), x, y)
    other = ARMS[arm](make(), x[:1])
    other.load_state_dict(original.state_dict())
    predictions = []
    for regulariser in original, other:
        torch.manual_seed(1)
        regulariser.prepare_sampling([(x, y)], 2)
        predictions.append((regulariser.predict(x), regulariser.predict(x, 2)))
    assert all(map(torch.equal, *predictions))


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("which", ["mlp", "resnet, colour"])
def test_losses_under_autocast_are_near_those_without(arm, which):
    make, shape, classes = NETWORKS[which]
    torch.manual_seed(0)
    x, y = torch.randn(16, *shape), torch.arange(16) % classes
    regulariser = ARMS[arm](make(), x[:1])
    losses = []
    for enabled in True, False:
        torch.manual_seed(1)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            losses.append(regulariser.loss(x, y).total)
        losses[-1].backward()
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=0.03, abs=0.03)


@pytest.mark.parametrize("arm", ARMS)
def test_an_arm_within_acts_and_both_draw(arm):
    torch.manual_seed(0)
    make, shape, classes = NETWORKS["mlp"]
    network, x, y = make(), torch.randn(16, *shape), torch.arange(16) % classes
    inner = Dropout(network, network.layers, x[:1], rate=0.5)
    regulariser = trained(ARMS[arm](inner, x[:1]), x, y)
    assert not torch.equal(regulariser.predict(x, 2), regulariser.predict(x, 2))
    assert torch.equal(regulariser.predict(x), regulariser.predict(x))


class Noted(Regulariser):
    """Writes down what it is told."""

    def __init__(self, network):
        super().__init__(network)
        self.told = []

    def after_epoch(self, batches):
        self.told.append("epoch")

    def prepare_sampling(self, batches, samples):
        self.told.append(samples)

    def make_optimiser(self, groups):
        return torch.optim.SGD([dict(group) for group in groups])


def test_hooks_reach_the_inner_one_and_cost_no_pass():
    def batches():
        raise AssertionError("nobody asked for images")
        yield

    inner = Noted(nn.Linear(2, 2))
    outer = Regulariser(Regulariser(inner))
    outer.after_epoch(batches())
    outer.prepare_sampling(batches(), 7)
    assert inner.told == ["epoch", 7]
    assert isinstance(outer.make_optimiser(outer.parameter_groups(0.5)), torch.optim.SGD)
    assert Regulariser(nn.Linear(2, 2)).make_optimiser([]) is None
    fit_normalisation(outer, batches())


def test_fitted_statistics_are_means_over_batches_and_modes_stay(double):
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(3)
    network = nn.Sequential(nn.Linear(2, 3), norm, nn.Linear(3, 2))
    norm.eval()
    parts = [torch.randn(5, 2), torch.randn(4, 2), torch.randn(1, 2)]
    fit_normalisation(network, parts)
    seen = [network[0](part) for part in parts[:2]]
    torch.testing.assert_close(norm.running_mean, torch.stack([each.mean(0) for each in seen]).mean(0))
    torch.testing.assert_close(norm.running_var, torch.stack([each.var(0) for each in seen]).mean(0))
    assert (norm.training, network.training, norm.momentum) == (False, True, 0.1)
