import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from pilotstudy.networks.cnn import cnn
from pilotstudy.networks.layers import found_layers
from pilotstudy.networks.mlp import mlp

ROW = torch.zeros(1, 4)


class Shuffled(nn.Module):
    """Layers that run as often as `plan` says, and in its order, whatever the order of their names."""

    def __init__(self, number: int, plan: list[int]):
        super().__init__()
        self.deep = nn.ModuleDict({f"layer{i}": nn.Linear(4, 4) for i in range(number)})
        self.out, self.plan = nn.Linear(4, 3), plan

    def forward(self, x):
        for i in self.plan:
            x = self.deep[f"layer{i}"](x)
        return self.out(x)


@given(st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n - 1), max_size=8))))
def test_layers_are_found_in_the_order_in_which_they_run(made):
    number, plan = made
    once = [i for i in plan if plan.count(i) == 1]
    network = Shuffled(number, plan)
    if once:
        assert found_layers(network, ROW) == [f"deep.layer{i}" for i in once]
    else:
        with pytest.raises(ValueError, match="no linear or convolutional layer"):
            found_layers(network, ROW)


@pytest.mark.parametrize("make", [cnn, lambda shape, classes: mlp(shape, classes, hidden=(5, 6))])
def test_what_is_found_is_what_our_networks_name(make):
    network = make((3, 8, 8), 4)
    assert found_layers(network, torch.zeros(1, 3, 8, 8)) == network.layers


class Folding(nn.Module):
    """Runs a layer on all places of all samples: its rows are not samples."""

    def __init__(self):
        super().__init__()
        self.each, self.mixed, self.out = nn.Linear(2, 2), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.mixed(self.each(x.view(-1, 2)).view(-1, 4)))


def test_layers_that_do_not_keep_the_samples_are_left_out():
    assert found_layers(Folding(), ROW) == ["mixed"]


def test_looking_leaves_no_trace():
    """Modes of each module, running statistics and the generator are as before, also where it fails."""
    network = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(), nn.Linear(5, 5), nn.Linear(5, 2))
    network[1].eval()
    network[2].forward = nn.functional.dropout  # it draws in eval mode too
    state, generator = copy.deepcopy(network.state_dict()), torch.get_rng_state()
    assert found_layers(network, torch.ones(1, 4)) == ["0", "3"]
    with pytest.raises(ValueError, match=r"does not take an input of shape \[2, 7\]"):
        found_layers(network, torch.ones(1, 7))
    assert [module.training for module in network.modules()] == [True, True, False, True, True, True]
    assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())
    assert torch.equal(torch.get_rng_state(), generator)
    assert not any(module._forward_hooks for module in network.modules())


class Returning(nn.Module):
    def __init__(self, what):
        super().__init__()
        self.first, self.out, self.what = nn.Linear(4, 4), nn.Linear(4, 3), what

    def forward(self, x):
        return self.what(self.out(self.first(x)))


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 3)

    def forward(self, image, mask, scale=1.0):
        return self.out(image * mask)


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (nn.Flatten(), "no parameters"),
        (Two(), "takes image, mask: wrap it"),
        (Returning(lambda y: (y, y)), "returns a tuple"),
        (Returning(lambda y: {"logits": y}), "returns a dict"),
        (Returning(lambda y: y[:, 0]), r"logits of shape \[2, classes\], not \[2\]"),
        (Returning(lambda y: y[:1]), r"not \[1, 3\]"),
        (Returning(lambda y: y[:, :1]), "one logit"),
        (nn.Linear(4, 3), "no linear or convolutional layer"),
        (nn.Sequential(nn.Linear(4, 3)), "no linear or convolutional layer"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(network, said):
    with pytest.raises(ValueError, match=said) as error:
        found_layers(network, ROW)
    assert "\n" not in str(error.value)
