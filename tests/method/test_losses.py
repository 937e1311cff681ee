"""Losses in the place of cross-entropy, held to their formulas."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from pilotstudy.method.losses import ConfidencePenalty, Focal, LabelSmoothing

ANY = nn.Linear(2, 4)


@pytest.fixture
def batch(double):
    torch.manual_seed(0)
    return 3 * torch.randn(20, 4), torch.arange(20) % 4


def probabilities(logits: torch.Tensor) -> np.ndarray:
    powers = np.exp(logits.numpy())
    return powers / powers.sum(1, keepdims=True)


def test_label_smoothing_leaves_a_part_to_all_classes(batch):
    logits, y = batch
    targets = 0.8 * np.eye(4)[y] + 0.2 / 4
    expected = -(targets * np.log(probabilities(logits))).sum(1).mean()
    assert LabelSmoothing(ANY, smoothing=0.2).cross_entropy(logits, y).item() == pytest.approx(expected, rel=1e-12)


def test_the_focal_loss_weighs_by_what_is_missing(batch):
    logits, y = batch
    p = probabilities(logits)[np.arange(20), y]
    for gamma in 0.5, 3.0:
        expected = -((1 - p) ** gamma * np.log(p)).mean()
        assert Focal(ANY, gamma=gamma).cross_entropy(logits, y).item() == pytest.approx(expected, rel=1e-12)


def test_the_confidence_penalty_rewards_entropy(batch):
    logits, y = batch
    p = probabilities(logits)
    entropy = -(p * np.log(p)).sum(1).mean()
    expected = F.cross_entropy(logits, y).item() - 0.3 * entropy
    assert ConfidencePenalty(ANY, beta=0.3).cross_entropy(logits, y).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "made", [LabelSmoothing(ANY, smoothing=0), Focal(ANY, gamma=0), ConfidencePenalty(ANY, beta=0)]
)
def test_at_zero_they_are_cross_entropy(made, batch):
    torch.testing.assert_close(made.cross_entropy(*batch), F.cross_entropy(*batch))


@given(
    logits=st.lists(st.lists(st.floats(-300, 300, width=32), min_size=3, max_size=3), min_size=1, max_size=4),
    gamma=st.floats(0.1, 5),
)
def test_the_focal_loss_is_less_than_cross_entropy_and_has_gradients_however_sure_a_network_is(logits, gamma):
    z = torch.tensor(logits, requires_grad=True)
    y = torch.zeros(len(z), dtype=torch.long)
    loss = Focal(ANY, gamma=gamma).cross_entropy(z, y)
    loss.backward()
    assert 0 <= loss.item() <= F.cross_entropy(z, y).item() * (1 + 1e-5) + 1e-6
    assert torch.isfinite(z.grad).all()


@given(st.lists(st.floats(-300, 300, width=32), min_size=3, max_size=3))
def test_the_confidence_penalty_is_finite_however_sure_a_network_is(logits):
    z = torch.tensor([logits], requires_grad=True)
    loss = ConfidencePenalty(ANY, beta=1.0).cross_entropy(z, torch.tensor([1]))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: LabelSmoothing(ANY, smoothing=1.5), "smoothing = 1.5: must be a number at least 0 and at most 1"),
        (lambda: Focal(ANY, gamma=-1.0), "gamma = -1.0"),
        (lambda: ConfidencePenalty(ANY, beta=float("nan")), "beta = nan"),
    ],
)
def test_what_is_out_of_bounds_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
