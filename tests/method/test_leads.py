"""Difference, and blind, held-out and starved Pilot: laws that they must keep."""

import pytest
import torch

from pilotstudy.method.blind import Blind
from pilotstudy.method.difference import Difference, draw_pairs
from pilotstudy.method.held_out import HeldOut
from pilotstudy.method.pilot import Pilot
from pilotstudy.method.star import Star
from pilotstudy.networks.mlp import mlp


@pytest.fixture
def net(double):
    torch.manual_seed(0)
    return mlp((1, 2, 3), 3, hidden=(8, 7))


def layers_of(net):
    return [name for name, module in net.named_modules() if isinstance(module, torch.nn.Linear)][:-1]


def batch(n=60):
    torch.manual_seed(1)
    return torch.randn(n, 1, 2, 3, dtype=torch.float64), torch.arange(n) % 3


def test_the_noise_of_difference_has_the_covariance_within_classes(net):
    x, y = batch()
    x = x * torch.tensor([1.0, 2, 3, 0.5, 1, 1]).view(1, 2, 3) + y.view(-1, 1, 1, 1)
    arm, noise = Difference(net, t=0.4), []
    for _ in range(1500):
        noise.append((arm.moved(x, y) - x).flatten(1))
    found = torch.cat(noise).T.cov()
    within = sum(x.flatten(1)[y == k].T.cov() for k in range(3)) / 3
    torch.testing.assert_close(found, 0.16 * within, atol=0.06, rtol=0.06)


def test_pairs_are_two_images_of_one_class():
    _, y = batch(31)
    first, second, weights = draw_pairs(y)
    assert (y[first] == y[second]).all()
    assert (first != second).all()
    assert (weights == 1).all()


@pytest.mark.parametrize("y", [[0], [0, 1, 2]])
def test_without_a_pair_a_batch_stays_as_it_is(net, y):
    x = torch.randn(len(y), 1, 2, 3, dtype=torch.float64)
    torch.testing.assert_close(Difference(net, t=1.0).moved(x, torch.tensor(y)), x)


@pytest.mark.parametrize("prior", ["common", "class"])
def test_star_at_zero_is_the_image_and_its_bound_never_reaches_the_network(net, prior):
    x, y = batch()
    still = Star(net, x[:1], t=0.0, prior=prior, dgm_width=9, z=4)
    torch.testing.assert_close(still.moved(x, y)[0], x)
    star = Star(net, x[:1], t=0.5, prior=prior, dgm_width=9, z=4)
    assert (star.moved(x, y)[0] - x).abs().max() > 1e-3
    loss = star.loss(x, y)
    (loss.total - loss.cross_entropy).backward(retain_graph=True)
    assert all(p.grad is None or not p.grad.any() for p in net.parameters())
    assert all(p.grad is not None for p in star.dgm.encoder.parameters())
    star.zero_grad()
    loss.cross_entropy.backward()
    assert all(p.grad is None or not p.grad.any() for p in star.dgm.parameters())
    assert all(p.grad.any() for p in net.parameters())


def test_a_blind_dgm_imputes_the_same_whatever_the_activations(net):
    blind = Blind(net, layers_of(net), torch.zeros(1, 1, 2, 3), mask="a-aug", dgm_width=9, z=4)
    size = blind.dgm.slices[-1].stop
    hidden = [blind.dgm.hide(a, None) for a in torch.randn(2, 5, size)]
    assert torch.equal(*hidden)
    assert not blind.dgm.shares(torch.randn(5, size)).any()
    x, y = batch()
    assert torch.isfinite(blind.loss(x, y).total)


def of_seed(kind, net, **settings):
    torch.manual_seed(2)
    return kind(net, layers_of(net), torch.zeros(1, 1, 2, 3), mask="a-aug", dgm_width=9, z=4, **settings)


def gradients(module, loss):
    module.zero_grad()
    loss.backward()
    return [p.grad.clone() for p in module.parameters() if p.grad is not None]


def test_a_held_out_dgm_learns_what_pilots_would_of_those_images_alone(net):
    x, y = batch()
    held_out = torch.randn(40, 1, 2, 3, dtype=torch.float64) * 2 + 1
    pilot, arm = of_seed(Pilot, net), of_seed(HeldOut, net)
    torch.manual_seed(3)
    expected = pilot.loss(held_out, y[:40])
    expected_gradients = gradients(pilot.dgm, expected.total)
    for labels, images in ((y, x), (y.flip(0), x), (y, -3 * x)):
        arm = of_seed(HeldOut, net)
        arm.see_held_out(torch.zeros_like(held_out))
        arm.see_held_out(held_out)
        torch.manual_seed(3)
        loss = arm.loss(images, labels)
        assert loss.terms == expected.terms
        assert all(map(torch.equal, gradients(arm.dgm, loss.total), expected_gradients))
        assert torch.equal(arm.normaliser.mean, pilot.normaliser.mean)
        assert torch.equal(arm.normaliser.scale, pilot.normaliser.scale)
        assert loss.logits.shape == (60, 3)


def test_a_held_out_bound_never_reaches_the_network(net):
    arm = of_seed(HeldOut, net)
    x, y = batch()
    with pytest.raises(ValueError, match="see_held_out before each step"):
        arm.loss(x, y)
    arm.see_held_out(x[:20])
    loss = arm.loss(x[20:], y[20:])
    assert not any(g.any() for g in gradients(net, loss.total - loss.cross_entropy))
    loss = arm.loss(x[20:], y[20:])
    assert not gradients(arm.dgm, loss.cross_entropy)
    assert all(p.grad.any() for p in net.parameters())


@pytest.mark.parametrize("held_out", [0.0, 0.6, float("nan")])
def test_a_share_that_cannot_be_held_out_is_refused(net, held_out):
    with pytest.raises(ValueError, match="held_out"):
        of_seed(HeldOut, net, held_out=held_out)
