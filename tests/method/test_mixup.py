"""Mixup and its relatives, held to slow versions with soft targets."""

import collections

import pytest
import torch
from scipy import stats
from torch.nn import functional as F

from pilotstudy.method.augmentation import DataAugmentation
from pilotstudy.method.dropout import Dropout
from pilotstudy.method.mixup import ManifoldMixup, Mix, Mixup, RegMixup, draw_share, mixable_layers
from pilotstudy.networks.mlp import mlp
from pilotstudy.networks.resnet import resnet

X, Y = torch.randn(12, 3, 4, 4, generator=torch.Generator().manual_seed(1)).double(), torch.arange(12) % 4
MIX = Mix(torch.tensor(0.3, dtype=torch.float64), torch.arange(12).roll(5))


@pytest.fixture
def net(double):
    torch.manual_seed(0)
    return mlp((3, 4, 4), 4, hidden=(9, 8, 7))


def soft_cross_entropy(logits: torch.Tensor) -> torch.Tensor:
    """With the labels mixed as `MIX` says, as probabilities."""
    hot = F.one_hot(Y, 4).double()
    return F.cross_entropy(logits, torch.stack([0.3 * hot[i] + 0.7 * hot[(i - 5) % 12] for i in range(12)]))


def mixed(values: torch.Tensor) -> torch.Tensor:
    return torch.stack([0.3 * values[i] + 0.7 * values[(i - 5) % 12] for i in range(12)])


def test_mixup_is_cross_entropy_of_mixed_images_with_mixed_labels(net, monkeypatch):
    mixup = Mixup(net)
    monkeypatch.setattr(mixup, "draw_mix", lambda x: MIX)
    loss = mixup.loss(X, Y)
    torch.testing.assert_close(loss.total, soft_cross_entropy(net(mixed(X))))
    assert loss.cross_entropy is loss.total


def test_regmixup_has_the_clean_loss_beside_it(net, monkeypatch):
    regmixup = RegMixup(net, eta=0.7)
    monkeypatch.setattr(regmixup, "draw_mix", lambda x: MIX)
    expected = F.cross_entropy(net(X), Y) + 0.7 * soft_cross_entropy(net(mixed(X)))
    torch.testing.assert_close(regmixup.loss(X, Y).total, expected)


def test_manifold_mixup_mixes_one_layer_each_as_often(net, monkeypatch):
    manifold = ManifoldMixup(net, net.layers, X[:1])
    monkeypatch.setattr(manifold, "draw_mix", lambda x: MIX)
    first = net.layer1(X.flatten(1)).relu()
    second = net.layer2(first).relu()
    expected = [
        soft_cross_entropy(net(mixed(X))),
        soft_cross_entropy(net.logits(net.layer3(net.layer2(mixed(first)).relu()).relu())),
        soft_cross_entropy(net.logits(net.layer3(mixed(second)).relu())),
    ]
    times: collections.Counter[int] = collections.Counter()
    for _ in range(300):
        loss = manifold.loss(X, Y).total
        gaps = [abs((loss - each).item()) for each in expected]
        assert min(gaps) < 1e-12
        times[gaps.index(min(gaps))] += 1
    assert stats.chisquare([times[layer] for layer in range(3)]).pvalue > 1e-3


def test_only_layers_that_all_of_a_sample_passes_through_are_mixed():
    x = torch.zeros(1, 3, 8, 8)
    chain, residual = mlp((3, 8, 8), 4, hidden=(5, 5, 5)), resnet((3, 8, 8), 4, depth=8, width=2)
    assert mixable_layers(chain, chain.layers, x) == ["layer2", "layer3"]
    assert mixable_layers(residual, residual.layers, x) == ["blocks.0", "blocks.1", "blocks.2"]
    dropout = Dropout(residual, residual.layers, x)
    nested = [f"network.{name}" for name in residual.layers]
    assert mixable_layers(dropout, nested, x) == ["network.blocks.0", "network.blocks.1", "network.blocks.2"]
    flat = mlp((3, 8, 8), 4, hidden=(5,))
    with pytest.raises(ValueError, match="no hidden layer above the first that all of a sample passes through"):
        ManifoldMixup(flat, flat.layers, x)


@pytest.mark.parametrize("alpha", [0.1, 0.2, 2.0, 20.0])
def test_shares_follow_their_beta_and_partners_are_a_permutation(alpha, double):
    torch.manual_seed(0)
    mixup, x = Mixup(mlp((1, 2, 2), 3, hidden=(4,)), alpha=alpha), torch.zeros(6, 1, 2, 2)
    mixes = [mixup.draw_mix(x) for _ in range(2000)]
    shares = [mix.share.item() for mix in mixes]
    assert stats.kstest(shares, stats.beta(alpha, alpha).cdf).pvalue > 1e-3
    assert all(sorted(mix.partners.tolist()) == list(range(6)) for mix in mixes)
    firsts = collections.Counter(mix.partners[0].item() for mix in mixes)
    assert stats.chisquare([firsts[i] for i in range(6)]).pvalue > 1e-3


@pytest.mark.parametrize("alpha", [5e-324, 1e-30, 1e-6, 1e-3])
def test_with_a_tiny_alpha_a_sample_is_itself_or_its_partner(alpha):
    torch.manual_seed(0)
    shares = torch.stack([draw_share(alpha, torch.device("cpu")) for _ in range(500)])
    assert ((shares < 1e-3) | (shares > 0.999)).float().mean() > 0.97
    assert stats.binomtest(int((shares > 0.5).sum()), 500).pvalue > 1e-3


@pytest.mark.parametrize("alpha", [1e9, 1e300])
def test_with_a_huge_alpha_it_is_half_of_each(alpha):
    torch.testing.assert_close(draw_share(alpha, torch.device("cpu")), torch.tensor(0.5), rtol=1e-3, atol=0)


def test_with_itself_a_sample_is_itself(net, monkeypatch):
    """Where partners are the samples themselves, or the share is 1, all of them are cross-entropy."""
    plain = F.cross_entropy(net(X), Y)
    for mix in Mix(torch.tensor(0.3).double(), torch.arange(12)), Mix(torch.tensor(1.0).double(), MIX.partners):
        for made, times in (Mixup(net), 1), (ManifoldMixup(net, net.layers, X[:1]), 1), (RegMixup(net, eta=0.5), 1.5):
            monkeypatch.setattr(made, "draw_mix", lambda x, mix=mix: mix)
            torch.testing.assert_close(made.loss(X, Y).total, times * plain)


def test_images_are_augmented_once_and_then_mixed(double, monkeypatch):
    torch.manual_seed(0)
    seen = []
    net = mlp((3, 4, 4), 4, hidden=(9, 7))
    net.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    inner = DataAugmentation(net, mean=torch.zeros(3), deviation=torch.ones(3), rate=0.5)
    changed = []
    augment = inner.augment
    monkeypatch.setattr(inner, "augment", lambda x: changed.append(augment(x)) or changed[-1])
    regmixup = RegMixup(inner)
    monkeypatch.setattr(regmixup, "draw_mix", lambda x: MIX)
    regmixup.loss(X, Y)
    assert len(changed) == 1
    torch.testing.assert_close(seen[-1], torch.cat([changed[0], mixed(changed[0])]))


@pytest.mark.parametrize(
    ("options", "said"), [({"alpha": 0.0}, "alpha = 0.0: must be a number above 0"), ({"eta": -1.0}, "eta = -1.0")]
)
def test_what_is_out_of_bounds_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        RegMixup(mlp((1, 2, 2), 3, hidden=(4,)), **options)
