"""The data augmentation baseline and the mean of stochastic passes."""

import math

import pytest
import torch

from pilotstudy.method import augmentation
from pilotstudy.method.augmentation import DataAugmentation, rotate
from pilotstudy.method.dropout import Dropout
from pilotstudy.networks.mlp import mlp


def plain(**settings) -> DataAugmentation:
    """Of inputs that are pictures in [0, 1] as they are."""
    net = mlp((3, 6, 6), 3, hidden=(4, 4))
    return DataAugmentation(net, mean=torch.zeros(3), deviation=torch.ones(3), rate=1.0, **settings)


def test_a_shifted_picture_is_still_a_picture():
    torch.manual_seed(0)
    black_and_white = (torch.rand(200, 3, 6, 6) < 0.5).float()
    shifted = plain(colour_shift=0.3, degrees=0.0).augment(black_and_white.clone())
    assert shifted.min() >= 0
    assert shifted.max() <= 1
    assert (shifted != black_and_white).any()


def test_each_picture_has_a_shift_of_its_own():
    torch.manual_seed(0)
    shifted = plain(colour_shift=0.2, degrees=0.0).augment(torch.full((300, 3, 6, 6), 0.5))
    each = shifted.mean((2, 3))  # [pictures, channels]
    assert each.std(0).min() > 0.1  # of a uniform draw from ±0.2: 0.115
    assert torch.corrcoef(each.T).fill_diagonal_(0).abs().max() < 0.3


def test_angles_are_in_degrees(monkeypatch):
    torch.manual_seed(0)
    seen = []
    monkeypatch.setattr(augmentation, "rotate", lambda images, angles: seen.append(angles) or images)
    plain(colour_shift=0.0, degrees=15.0).augment(torch.rand(2000, 3, 6, 6))
    (angles,) = seen
    assert len(angles) == 2000
    assert angles.abs().max() <= math.pi / 12
    assert angles.min() < -0.99 * math.pi / 12
    assert angles.max() > 0.99 * math.pi / 12


def test_what_a_rotation_brings_in_is_black():
    turned = rotate(torch.ones(1, 1, 9, 9), torch.tensor([math.pi / 4]))[0, 0]
    assert turned[0, 0] == turned[0, -1] == turned[-1, 0] == turned[-1, -1] == 0
    assert turned[4, 4] == pytest.approx(1)


def test_sampling_averages_probabilities_not_logits():
    torch.manual_seed(0)
    net = mlp((1, 4, 4), 3, hidden=(20, 20))
    with torch.no_grad():
        net.logits.weight.mul_(30)
    x = torch.randn(50, 1, 4, 4)
    dropout = Dropout(net, net.layers, x[:1], rate=0.5)
    torch.manual_seed(1)
    single = torch.stack([dropout.training_logits(x).softmax(1) for _ in range(4)])
    torch.manual_seed(1)
    torch.testing.assert_close(dropout.predict(x, samples=4).exp(), single.mean(0))
