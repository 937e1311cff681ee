"""Every arm around networks that are not ours, what is refused, and what a look at a network may not change."""

import copy
import re
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pilotstudy import Dropout, Noise, Pilot
from pilotstudy.method.activations import Activations
from pilotstudy.method.augmentation import DataAugmentation
from pilotstudy.method.isda import ISDA
from pilotstudy.method.losses import ConfidencePenalty, Focal, LabelSmoothing
from pilotstudy.method.masks import MASK_KINDS
from pilotstudy.method.mixup import ManifoldMixup, Mixup, RegMixup
from pilotstudy.method.modes import couples_samples
from pilotstudy.method.multi_sample import MultiSampleDropout
from pilotstudy.method.r_drop import RDrop
from pilotstudy.method.regulariser import Regulariser
from pilotstudy.method.sam import SAM
from pilotstudy.networks.layers import found_layers
from pilotstudy.networks.mlp import mlp
from pilotstudy.networks.resnet import resnet

SMALL = {"dgm_width": 8, "z": 2}


class Tokens(nn.Module):
    """A small transformer: its linear layers give [n, places, channels]."""

    def __init__(self, classes: int):
        super().__init__()
        self.embed = nn.Linear(16, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
        self.out = nn.Linear(8, classes)

    def forward(self, x):
        return self.out(self.block(self.embed(x.flatten(2).view(len(x), -1, 16))).mean(1))


NETWORKS = {
    "resnet, colour": (lambda: resnet((3, 8, 8), 5, depth=8, width=2), (3, 8, 8), 5),
    "resnet, grey, 2 classes": (lambda: resnet((1, 8, 8), 2, depth=8, width=2), (1, 8, 8), 2),
    "resnet without norm": (lambda: resnet((1, 8, 8), 3, depth=8, width=2, batchnorm=False), (1, 8, 8), 3),
    "transformer": (lambda: Tokens(4), (1, 8, 8), 4),
    "instance norm": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3),
            nn.InstanceNorm2d(4, track_running_stats=True),
            nn.ReLU(inplace=True),
            nn.Conv2d(4, 4, 3),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(64, 3),
        ),
        (1, 8, 8),
        3,
    ),
}


def arms(network: nn.Module, layers: list[str], x: torch.Tensor):
    for mask in MASK_KINDS:
        for view in "auto", "units", "pooled", "projected":
            yield Pilot(network, layers, x, mask=mask, dgm_view=view, **SMALL)
        yield Noise(network, layers, x, kind="add", mask=mask)
        yield Noise(network, layers, x, kind="sub", mask=mask, stop_gradient=True)
    yield Dropout(network, layers, x)
    yield DataAugmentation(network, mean=torch.zeros(x.shape[1]), deviation=torch.ones(x.shape[1]), rate=0.5)
    yield from (LabelSmoothing(network), Focal(network), ConfidencePenalty(network), Mixup(network), RegMixup(network))
    yield from (ManifoldMixup(network, layers, x), RDrop(network, layers, x))
    yield from (MultiSampleDropout(network, x), ISDA(network, x), SAM(network))


@pytest.mark.parametrize("which", NETWORKS)
def test_every_arm_trains_and_predicts(which):
    make, shape, classes = NETWORKS[which]
    torch.manual_seed(0)
    network, x, y = make(), torch.randn(16, *shape), torch.arange(16) % classes
    for regulariser in arms(network, found_layers(network, x), x[:1]):
        network.zero_grad()
        loss = regulariser.loss(x, y)
        loss.total.backward()
        regulariser.clip_gradients()
        assert torch.isfinite(loss.total)
        assert all(p.grad is None or torch.isfinite(p.grad).all() for p in regulariser.parameters())
        sampled = regulariser.predict(x, 2)
        assert sampled.shape == (16, classes)
        assert sampled.exp().sum(1).allclose(torch.ones(16), atol=1e-5)


@pytest.mark.parametrize("kind", MASK_KINDS)
@pytest.mark.parametrize("norm", [nn.BatchNorm1d, nn.InstanceNorm1d])
def test_running_statistics_move_once_a_step(kind, norm):
    """As in one pass over the whole batch with the insertions: the recording leaves no trace."""
    torch.manual_seed(0)
    first = norm(6, track_running_stats=True)
    network = nn.Sequential(
        nn.Linear(4, 6), nn.Unflatten(1, (6, 1)), nn.Upsample(3), first, nn.Flatten(), nn.Linear(18, 3)
    )
    x, y = torch.randn(12, 4), torch.arange(12) % 3
    pilot = Pilot(network, ["0"], x[:1], mask=kind, mask_rate=1e-9, dgm_view="units", **SMALL)
    pilot.mask_prior.dense = True  # so that it records, though nothing is masked
    alone = copy.deepcopy(network)
    pilot.loss(x, y)
    alone(x)
    for name, value in alone.state_dict().items():
        torch.testing.assert_close(network.state_dict()[name], value)
    assert first.num_batches_tracked == (1 if norm is nn.BatchNorm1d else 0)
    assert (first.track_running_stats, first.momentum, first.training) == (True, 0.1, True)


def test_masked_samples_are_recorded_among_the_others_where_those_have_a_say(double):
    torch.manual_seed(0)
    network = mlp((3, 2, 2), 4, hidden=(9, 7), batchnorm=True)
    x = torch.randn(20, 3, 2, 2)
    pilot = Pilot(network, network.layers, x[:1], mask_rate=0.5, **SMALL)
    mask = pilot.draw_mask(x)
    first = network.layer1(x.flatten(1))
    normed = F.batch_norm(first, None, None, network.layer1_norm.weight, network.layer1_norm.bias, training=True)
    expected = network.layer2(normed.relu())[mask.rows]
    found = pilot.record_masked(x, mask)
    torch.testing.assert_close(found[:, pilot.dgm.slices[2]], expected.detach())
    assert couples_samples(network)
    assert not couples_samples(network.eval())
    torch.testing.assert_close(pilot.record_masked(x, mask), pilot.record(x[mask.rows]))


def test_batch_norm_that_keeps_no_statistics_predicts_by_whole_batches(double):
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(6, track_running_stats=False)
    network = nn.Sequential(nn.Linear(4, 6), norm, nn.ReLU(), nn.Linear(6, 3))
    x = torch.randn(20, 4)
    pilot = Pilot(network, ["0"], x[:1], mask="x-aug", mask_rate=0.5, dgm_view="units", **SMALL)
    torch.manual_seed(1)
    found = pilot.predict(x, 1)
    torch.manual_seed(1)
    torch.testing.assert_close(found, pilot.eval().training_logits(x).log_softmax(1))
    assert norm.running_mean is None


def test_layers_may_be_named_in_any_order():
    torch.manual_seed(0)
    network, x, y = mlp((3, 2, 2), 4, hidden=(9, 7)), torch.randn(12, 3, 2, 2), torch.arange(12) % 4
    losses = []
    for layers in ["layer1", "layer2"], ["layer2", "layer1"]:
        torch.manual_seed(1)
        pilot = Pilot(network, layers, x[:1], **SMALL)
        assert pilot.activations.layers == ["layer1", "layer2"]
        losses.append(pilot.loss(x, y).total.item())
    assert losses[0] == losses[1]


@pytest.mark.parametrize("change", [nn.ReLU, nn.Dropout])
def test_activations_that_are_overwritten_are_recorded_as_they_were(change):
    torch.manual_seed(0)
    x = torch.randn(12, 4)
    raw = []
    for inplace in False, True:
        torch.manual_seed(1)
        network = nn.Sequential(nn.Linear(4, 6), change(inplace=inplace), nn.Linear(6, 3))
        pilot = Pilot(network, ["0"], x[:1], dgm_view="units", **SMALL)
        raw.append(pilot.record(x)[:, 4:10])
    assert (raw[0] < 0).any()
    assert torch.equal(*raw)


def test_a_layer_that_is_left_out_of_a_pass_is_named():
    class Sometimes(nn.Sequential):
        def forward(self, x):
            return self[2](x if self.training else self[1](x))

    network = Sometimes(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3))
    pilot = Pilot(network, ["1"], torch.zeros(1, 4), mask_rate=1.0, **SMALL)
    with pytest.raises(ValueError, match="layer '1' did not run in this pass"):
        pilot.loss(torch.randn(5, 4), torch.arange(5) % 3)


def test_samples_enter_late_only_into_chains_of_torchs_own_modules():
    class Backwards(nn.Sequential):
        def forward(self, x):
            return super().forward(x.flip(0))

    class Centred(nn.Module):
        def forward(self, x):
            return x - x.mean(0)

    x, parts = torch.randn(6, 4), (nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    assert Activations(nn.Sequential(*parts), ["0"], x).chain
    assert not Activations(Backwards(*parts), ["0"], x).chain
    assert not Activations(nn.Sequential(parts[0], Centred(), parts[2]), ["0"], x).chain


def test_a_look_and_a_prediction_leave_frozen_modules_frozen_and_draw_nothing():
    network = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(), nn.Linear(5, 5), nn.Linear(5, 2))
    network[1].eval()
    network[2].forward = F.dropout  # it draws in eval mode too
    modes, state = [m.training for m in network.modules()], torch.get_rng_state()
    dropout = Dropout(network, ["0", "3"], torch.zeros(1, 4))
    assert torch.equal(torch.get_rng_state(), state)
    for samples in 0, 2:
        dropout.predict(torch.randn(3, 4), samples)
        assert [m.training for m in network.modules()] == modes
    dropout.loss(torch.randn(3, 4), torch.arange(3) % 2)
    assert network[1].num_batches_tracked == 0


class Odd(nn.Module):
    def __init__(self, what):
        super().__init__()
        self.lstm, self.first, self.out, self.what = (
            nn.LSTM(4, 4, batch_first=True),
            nn.Linear(4, 4),
            nn.Linear(4, 3),
            what,
        )

    def forward(self, x):
        return self.what(self.out(self.first(self.lstm(x[:, None])[0][:, 0])))


class Two(nn.Module):
    def forward(self, image, mask):
        return image * mask


class Folding(nn.Module):
    """Runs a layer on all places of all samples: its rows are not samples."""

    def __init__(self):
        super().__init__()
        self.each, self.out = nn.Linear(2, 2), nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.each(x.view(-1, 2)).view(-1, 4))


@pytest.mark.parametrize(
    ("network", "layers", "said"),
    [
        (Odd(lambda y: y), [], "no layers are named"),
        (Odd(lambda y: y), ["first", "first"], "named twice"),
        (Odd(lambda y: y), ["lstm"], "'lstm' returns a tuple, not a tensor"),
        (Odd(lambda y: (y, 1)), ["first"], "the network returns a tuple"),
        (Odd(lambda y: {"a": y}), ["first"], "the network returns a dict"),
        (Odd(lambda y: y.sum(1)), ["first"], r"logits of shape \[2, classes\], not \[2\]"),
        (Odd(lambda y: y), ["first", "out"], "'out' is the network's output"),
        (Two(), ["first"], "no layer 'first'"),
        (nn.Sequential(Two()), ["0"], "does not take an input of shape"),
        (Folding(), ["each"], r"'each' gives \[4, 2\] for 2 samples"),
    ],
)
def test_what_cannot_be_regularised_is_told_in_one_line(network, layers, said):
    for make in (
        lambda: Pilot(network, layers, torch.zeros(1, 4)),
        lambda: Noise(network, layers, torch.zeros(1, 4), kind="add"),
        lambda: Dropout(network, layers, torch.zeros(1, 4)),
    ):
        with pytest.raises(ValueError, match=said) as error:
            make()
        assert "\n" not in str(error.value)


NAN, INF = float("nan"), float("inf")
WRONG = {
    "mask_rate": (0, -1, 2, NAN, INF, "0.5", None, True),
    "mask": ("b-aug", None),
    "mask_schedule": ("foo",),
    "decoder_variance": (0, -1, NAN, INF),
    "sigma_mu": (0, NAN),
    "sigma_sigma": (-1, NAN),
    "dgm_width": (0, 1.5, True),
    "z": (0, 2.0),
    "dgm_learning_rate": (0,),
    "gradient_clip": (0, NAN),
    "dgm_view": ("channels",),
    "normalise": ("no", 0, None),
    "dgm_layers": (["layer1"], 1),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_arguments_are_held_to_the_rules_of_study_files(name, value):
    network = mlp((1, 2, 2), 3, hidden=(4, 4))
    with pytest.raises(ValueError, match=f"^{re.escape(f'{name} = {value!r}: ')}") as error:
        Pilot(network, network.layers, torch.zeros(1, 1, 2, 2), **{name: value})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("layers", ["1", [1], "layer1", 1, None, ["layer1", None]])
def test_layers_are_a_list_of_names(layers):
    network, x = mlp((1, 2, 2), 3, hidden=(4, 4)), torch.zeros(1, 1, 2, 2)
    network.add_module("1", nn.Identity())
    for make in Pilot, Dropout, partial(Noise, kind="add"):
        with pytest.raises(ValueError, match=f"^{re.escape(f'layers = {layers!r}: must be a list of names')}"):
            make(network, layers, x)


@pytest.mark.parametrize("example", [None, [[0.0, 0.0]]])
def test_an_example_is_a_tensor(example):
    network = mlp((1, 2, 2), 3, hidden=(4, 4))
    for make in Pilot, Dropout, partial(Noise, kind="add"):
        with pytest.raises(ValueError, match=f"example must be a tensor .* not a {type(example).__name__}$"):
            make(network, network.layers, example)


def test_arguments_of_the_baselines_too():
    network, x = mlp((1, 2, 2), 3, hidden=(4, 4)), torch.zeros(1, 1, 2, 2)
    for rate in -0.1, 1.0, 1.5, NAN:
        with pytest.raises(ValueError, match="must be a number at least 0 and below 1"):
            Dropout(network, network.layers, x, rate=rate)
    with pytest.raises(ValueError, match="kind = 'foo': choose one of add, sub"):
        Noise(network, network.layers, x, kind="foo")
    with pytest.raises(ValueError, match="variance = 0: must be a number above 0"):
        Noise(network, network.layers, x, kind="add", variance=0)
    with pytest.raises(ValueError, match="stop_gradient = 1: must be True or False"):
        Noise(network, network.layers, x, kind="add", stop_gradient=1)
    with pytest.raises(ValueError, match="degrees = 200"):
        DataAugmentation(network, mean=torch.zeros(1), deviation=torch.ones(1), degrees=200)
    with pytest.raises(ValueError, match="weight_decay = -1"):
        Regulariser(network, weight_decay=-1)
    with pytest.raises(ValueError, match=r"samples = 1\.5: must be a whole number at least 0"):
        Regulariser(network).predict(x, samples=1.5)
