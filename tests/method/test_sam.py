"""SAM against the gradient at the moved weights, taken without it."""

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

from pilotstudy.method.augmentation import DataAugmentation
from pilotstudy.method.dropout import Dropout
from pilotstudy.method.regulariser import Regulariser
from pilotstudy.method.sam import SAM
from pilotstudy.networks.mlp import mlp
from pilotstudy.networks.resnet import resnet

Y = torch.arange(12) % 4


def weights_of(network: nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in network.named_parameters()}


def moved_weights(network: nn.Module, x: torch.Tensor, rho: float) -> dict[str, torch.Tensor]:
    weights = weights_of(network)
    gradient = torch.func.grad(lambda w: F.cross_entropy(functional_call(network, w, (x,)), Y))(weights)
    norm = sum((g**2).sum() for g in gradient.values()).sqrt()
    return {name: weight + rho * gradient[name] / norm for name, weight in weights.items()}


@pytest.mark.parametrize("rho", [0.0, 0.05, 0.5])
def test_the_gradient_is_that_of_the_moved_weights_and_they_come_back(double, rho):
    torch.manual_seed(0)
    net, x = mlp((3, 4, 4), 4, hidden=(9, 7)), torch.randn(12, 3, 4, 4)
    before, moved = weights_of(net), moved_weights(net, x, rho)
    expected = torch.func.grad(lambda w: F.cross_entropy(functional_call(net, w, (x,)), Y))(moved)
    sam = SAM(net, rho=rho)
    loss = sam.loss(x, Y)
    loss.total.backward()
    assert sam.clip_gradients() is None
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name])
        assert torch.equal(parameter, before[name])
    torch.testing.assert_close(loss.cross_entropy, F.cross_entropy(functional_call(net, moved, (x,)), Y))


def test_the_loss_rises_by_rho_times_the_gradients_norm(double):
    torch.manual_seed(0)
    net, x = mlp((3, 4, 4), 4, hidden=(9, 7)), torch.randn(12, 3, 4, 4)
    plain = F.cross_entropy(net(x), Y)
    norm = nn.utils.get_total_norm(torch.autograd.grad(plain, list(net.parameters()), retain_graph=True)).item()
    rise = SAM(net, rho=1e-5).loss(x, Y).total.item() - plain.item()
    assert rise == pytest.approx(1e-5 * norm, rel=1e-3)


def test_a_loss_that_is_left_alone_moves_nothing_further():
    torch.manual_seed(0)
    net, x = mlp((3, 4, 4), 4, hidden=(9, 7)), torch.randn(12, 3, 4, 4)
    before, sam = weights_of(net), SAM(net)
    assert torch.equal(sam.loss(x, Y).total, sam.loss(x, Y).total)
    sam.clip_gradients()
    assert all(torch.equal(p, before[name]) for name, p in net.named_parameters())


def test_running_statistics_move_once_a_step_at_the_weights_themselves():
    torch.manual_seed(0)
    net, x = resnet((3, 8, 8), 4, depth=8, width=2), torch.randn(12, 3, 8, 8)
    alone = copy.deepcopy(net)
    sam = SAM(net, rho=0.5)
    sam.loss(x, Y).total.backward()
    sam.clip_gradients()
    alone(x)
    for name, value in alone.state_dict().items():
        assert torch.equal(net.state_dict()[name], value), name


def test_under_autocast_the_second_pass_has_the_moved_weights():
    torch.manual_seed(0)
    net, x = mlp((3, 4, 4), 4, hidden=(9, 7)), torch.randn(12, 3, 4, 4)
    sam = SAM(net, rho=2.0)
    with torch.autocast("cpu", torch.bfloat16):
        loss = sam.loss(x, Y).total
    with torch.autocast("cpu", torch.bfloat16):  # the weights are still where they were moved to
        assert torch.equal(Regulariser(net).loss(x, Y).total, loss)
    sam.clip_gradients()
    with torch.autocast("cpu", torch.bfloat16):
        assert Regulariser(net).loss(x, Y).total < loss - 0.5


def test_an_arm_within_changes_images_once_and_draws_for_each_pass():
    torch.manual_seed(0)
    net, x = mlp((3, 4, 4), 4, hidden=(9, 7)), torch.randn(12, 3, 4, 4)
    images, hidden = [], []
    inner = DataAugmentation(net, mean=torch.zeros(3), deviation=torch.ones(3), rate=0.9)
    sam = SAM(Dropout(inner, ["network.layer1", "network.layer2"], x[:1], rate=0.5), rho=1e-9)
    net.register_forward_pre_hook(lambda module, args: images.append(args[0]))
    net.logits.register_forward_pre_hook(lambda module, args: hidden.append(args[0]))
    sam.loss(x, Y)
    first, second = images
    assert torch.equal(first, second)
    assert not torch.equal(first, x)
    assert not torch.equal(*hidden)


def test_weights_that_the_loss_does_not_reach_or_that_are_frozen_stay():
    torch.manual_seed(0)
    net, x = mlp((3, 4, 4), 4, hidden=(9, 7)), torch.randn(12, 3, 4, 4)
    net.layer1.requires_grad_(False)
    net.register_parameter("unused", nn.Parameter(torch.ones(3)))
    sam = SAM(net, rho=1.0)
    before = weights_of(net)
    sam.loss(x, Y)
    stayed = {name for name, p in net.named_parameters() if torch.equal(p, before[name])}
    assert stayed == {"layer1.weight", "layer1.bias", "unused"}


def test_what_is_out_of_bounds_is_refused():
    with pytest.raises(ValueError, match="rho = -1"):
        SAM(nn.Linear(3, 4), rho=-1)
