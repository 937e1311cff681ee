"""R-Drop and multi-sample dropout."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pilotstudy.method.augmentation import DataAugmentation
from pilotstudy.method.dropout import Dropout
from pilotstudy.method.last_layer import LastLayer
from pilotstudy.method.multi_sample import MultiSampleDropout
from pilotstudy.method.r_drop import RDrop
from pilotstudy.networks.mlp import mlp
from pilotstudy.networks.resnet import resnet

Y = torch.arange(12) % 4


@pytest.fixture
def net(double):
    torch.manual_seed(0)
    return mlp((3, 4, 4), 4, hidden=(9, 7))


@pytest.fixture
def x(net):
    return torch.randn(12, 3, 4, 4)


def test_r_drop_is_the_papers_loss_halved(net, x):
    r_drop = RDrop(net, net.layers, x[:1], rate=0.4, alpha=0.7)
    torch.manual_seed(1)
    loss = r_drop.loss(x, Y)
    torch.manual_seed(1)
    one, two = Dropout(net, net.layers, x[:1], rate=0.4).training_logits(torch.cat([x, x])).split(12)
    assert not torch.equal(one, two)
    log_p, log_q = one.log_softmax(1), two.log_softmax(1)
    kl = F.kl_div(log_q, log_p.exp(), reduction="batchmean") + F.kl_div(log_p, log_q.exp(), reduction="batchmean")
    nll = F.cross_entropy(one, Y) + F.cross_entropy(two, Y)
    torch.testing.assert_close(loss.total, (nll + 0.7 * kl / 2) / 2)
    torch.testing.assert_close(loss.cross_entropy, nll / 2)


def test_passes_that_agree_are_not_penalised(net, x):
    loss = RDrop(net, net.layers, x[:1], rate=0.0, alpha=5.0).loss(x, Y)
    torch.testing.assert_close(loss.total, F.cross_entropy(net(x), Y))


def test_both_passes_of_r_drop_have_the_same_image(net, x):
    seen = []
    net.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    inner = DataAugmentation(net, mean=torch.zeros(3), deviation=torch.ones(3), rate=0.9)
    RDrop(inner, [f"network.{name}" for name in net.layers], x[:1]).loss(x, Y)
    one, two = seen[-1].split(12)
    assert torch.equal(one, two)
    assert not torch.equal(one, x)


def test_multi_sample_dropout_is_the_mean_over_masks_of_the_last_layers_input(net, x):
    seen, below = [], []
    multi = MultiSampleDropout(net, x[:1], rate=0.25, masks=40)
    net.logits.register_forward_hook(lambda module, args, out: seen.append(args[0]))
    net.layer2.register_forward_hook(lambda module, args, out: below.append(len(out)))
    loss = multi.loss(x, Y).total
    assert below == [12]
    features = net.layer2(net.layer1(x.flatten(1)).relu()).relu()
    masked = seen[0].split(12)
    assert len(masked) == 40
    losses = []
    for each in masked:
        kept = each != 0
        torch.testing.assert_close(each, torch.where(kept, features / 0.75, 0.0))
        losses.append(F.cross_entropy(F.linear(each, net.logits.weight, net.logits.bias), Y))
    torch.testing.assert_close(loss, torch.stack(losses).mean())
    alive = features > 0
    share = torch.stack([each[alive] != 0 for each in masked]).double().mean().item()
    assert share == pytest.approx(0.75, abs=0.03)


def test_sampled_predictions_of_multi_sample_dropout_are_mc_dropout_of_that_layer(net, x):
    multi = MultiSampleDropout(net, x[:1], rate=0.5, masks=3)
    assert torch.equal(multi.predict(x), net(x))
    features = net.layer2(net.layer1(x.flatten(1)).relu()).relu()
    torch.manual_seed(1)
    expected = torch.stack([net.logits(F.dropout(features, 0.5)).softmax(1) for _ in range(4000)]).mean(0)
    torch.testing.assert_close(multi.predict(x, 4000).exp(), expected, atol=0.01, rtol=0)


def test_the_last_layer_is_found_in_any_network_and_else_that_is_said():
    x = torch.zeros(1, 3, 8, 8)
    residual = resnet((3, 8, 8), 5, depth=8, width=2)
    assert LastLayer(residual, x).name == "logits"
    assert LastLayer(Dropout(residual, residual.layers, x), x).name == "network.logits"
    headless = nn.Sequential(nn.Conv2d(3, 4, 8), nn.Flatten())
    for network in headless, nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.Softmax(1)):
        with pytest.raises(ValueError, match="its logits are not the output of a linear layer"):
            MultiSampleDropout(network, x)


@pytest.mark.parametrize(("options", "said"), [({"rate": 1.0}, "rate = 1.0"), ({"masks": 0}, "masks = 0")])
def test_what_is_out_of_bounds_is_refused(options, said, net, x):
    with pytest.raises(ValueError, match=said):
        MultiSampleDropout(net, x[:1], **options)
    with pytest.raises(ValueError, match="alpha = -1"):
        RDrop(net, net.layers, x[:1], alpha=-1)
