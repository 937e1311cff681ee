"""Dense masks, as on CUDA: the same numbers as the lists of rows of a CPU."""

import contextlib

import pytest
import torch
from torch.nn import functional as F

from pilotstudy.method.augmentation import DataAugmentation
from pilotstudy.method.dropout import Dropout
from pilotstudy.method.masks import MaskPrior
from pilotstudy.method.noise import Noise
from pilotstudy.method.pilot import Pilot
from pilotstudy.networks.cnn import cnn
from pilotstudy.networks.mlp import mlp
from pilotstudy.networks.resnet import resnet
from tests.support.pretended import pretended


@pytest.fixture
def steady_noise(monkeypatch):
    """Every draw is the same number, so that it does not matter how many there are nor in which order."""
    monkeypatch.setattr(torch, "randn_like", lambda like: torch.full_like(like, 0.3))


@contextlib.contextmanager
def dense(regulariser):
    """The regulariser as on CUDA."""
    regulariser.mask_prior.dense = True
    yield
    regulariser.mask_prior.dense = False


def both(regulariser, x, y, seed: int):
    """Loss, terms, gradients, running moments and sampled probabilities, with lists of rows and dense."""
    outcomes = []
    start = {name: value.clone() for name, value in regulariser.state_dict().items() if torch.is_tensor(value)}
    for as_dense in False, True:
        regulariser.load_state_dict(start, strict=False)
        with dense(regulariser) if as_dense else contextlib.nullcontext():
            torch.manual_seed(seed)
            regulariser.zero_grad()
            regulariser.train()
            loss = regulariser.loss(x, y)
            loss.total.backward()
            torch.manual_seed(seed)
            sampled = regulariser.predict(x, samples=3)
        gradients = {
            name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in regulariser.named_parameters()
        }
        terms = {name: float(value) / max(float(count), 1e-12) for name, (value, count) in loss.terms.items()}
        buffers = {name: value.clone() for name, value in regulariser.named_buffers()}
        outcomes.append((loss.total.detach(), loss.cross_entropy.detach(), terms, gradients, buffers, sampled))
    return outcomes


@pytest.mark.parametrize("units", [{}, {"variance_in": "raw"}, {"normalise": False, "variance_in": "raw"}])
@pytest.mark.parametrize("kind", ["a-aug", "x-aug"])
@pytest.mark.parametrize("network", ["mlp", "cnn"])
def test_dense_pilot_is_pilot(network, kind, units, double, steady_noise):
    torch.manual_seed(0)
    net = mlp((3, 8, 8), 4, hidden=(12, 9)) if network == "mlp" else cnn((3, 8, 8), 4)
    x, y = torch.randn(24, 3, 8, 8), torch.arange(24) % 4
    pilot = Pilot(net, net.layers, x[:1], mask=kind, mask_rate=0.7, dgm_width=8, z=3, **units)
    for seed in range(2):  # the second step starts from moments that have begun
        rows, same = both(pilot, x, y, seed)
        assert set(rows[2]) == set(same[2])
        torch.testing.assert_close(rows, same, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("stop_gradient", [False, True])
@pytest.mark.parametrize("kind", ["add", "sub"])
@pytest.mark.parametrize("mask", ["a-aug", "x-aug"])
def test_dense_noise_is_noise(mask, kind, stop_gradient, double, steady_noise):
    torch.manual_seed(0)
    net = cnn((3, 8, 8), 4)
    x, y = torch.randn(24, 3, 8, 8), torch.arange(24) % 4
    noise = Noise(net, net.layers, x[:1], kind=kind, mask=mask, stop_gradient=stop_gradient)
    rows, same = both(noise, x, y, 0)
    torch.testing.assert_close(rows, same, rtol=1e-12, atol=1e-12)


def test_dense_augmentation_is_augmentation(double, monkeypatch):
    torch.manual_seed(0)
    images, chosen = torch.rand(20, 3, 8, 8), torch.rand(3, 20) < 0.4
    augmentation = DataAugmentation(torch.nn.Flatten(), mean=torch.zeros(3), deviation=torch.ones(3))
    monkeypatch.setattr(augmentation, "_shift", lambda images: (images + 0.1).clamp(0, 1))
    monkeypatch.setattr(augmentation, "_angles", lambda n, like: torch.full((n,), 0.2))
    rows, same = augmentation._by_rows(images.clone(), chosen), augmentation._dense(images.clone(), chosen)
    torch.testing.assert_close(rows, same, rtol=1e-12, atol=1e-12)
    assert not torch.equal(rows, images)


def test_a_dense_mask_with_nothing_masked_changes_nothing(double, steady_noise):
    torch.manual_seed(0)
    net = mlp((1, 4, 4), 3, hidden=(5,))
    x, y = torch.randn(8, 1, 4, 4), torch.arange(8) % 3
    pilot = Pilot(net, net.layers, x[:1], mask_rate=1.0, mask_schedule="annealed", dgm_width=4, z=2)
    with dense(pilot):
        loss = pilot.loss(x, y)
        loss.total.backward()
    torch.testing.assert_close(loss.total.detach(), F.cross_entropy(net(x), y).detach(), rtol=1e-14, atol=0)
    assert not any(p.grad.any() for p in pilot.dgm.parameters())
    assert not pilot.normaliser.started
    assert not pilot.normaliser.mean.any()


def test_dense_masks_follow_the_law():
    """A rate on the device (as a captured step has it) draws what a number does."""
    torch.manual_seed(0)
    prior, n = MaskPrior("a-aug", [7, 5, 3]), 30_000
    for rate in 0.0, 0.3, 1.0:
        mask = prior._dense(prior._draw_layers(n, torch.tensor(rate), "cpu"))
        share = mask.seen.mean(0)
        assert (share - rate / 3).abs().max() <= 4 * (rate / 3 * (1 - rate / 3) / n) ** 0.5
        assert torch.equal(mask.weights, mask.seen.sum(1))
        assert mask.weights.max() <= 1
        drop = MaskPrior("a-drop", [7, 5, 3]).draw(n, torch.tensor(rate)).seen.mean().item()
        assert drop == pytest.approx(rate, abs=4 * (rate * (1 - rate) / (15 * n)) ** 0.5 + 1e-5)


@pytest.mark.parametrize("mask", ["a-aug", "a-drop"])
@pytest.mark.parametrize("view", ["units", "pooled", "projected"])
def test_the_host_never_waits_for_a_step_with_views_and_nesting(view, mask):
    torch.manual_seed(0)
    net, example = resnet((3, 8, 8), 4, depth=8, width=2), torch.zeros(1, 3, 8, 8)
    inner = DataAugmentation(Dropout(net, net.layers, example), mean=torch.zeros(3), deviation=torch.ones(3))
    layers = [f"network.network.{name}" for name in net.layers]
    pilot = Pilot(inner, layers, example, mask=mask, dgm_view=view, dgm_width=4, z=2)
    with pretended() as gpu:
        pilot = pilot.to("cuda")
        x, y = torch.randn(8, 3, 8, 8).to("cuda"), (torch.arange(8) % 4).to("cuda")
        gpu.waits.clear()
        pilot.loss(x, y).total.backward()
        pilot.clip_gradients()
        pilot.predict(x, 2)
        assert not gpu.waits
        assert gpu.launches
