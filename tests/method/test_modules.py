"""Regularisers as modules: called, copied, pickled, averaged, and two around one network."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel

from pilotstudy import Dropout, Noise, Pilot
from pilotstudy.method.augmentation import DataAugmentation
from pilotstudy.method.isda import ISDA
from pilotstudy.method.masks import MASK_KINDS
from pilotstudy.method.mixup import ManifoldMixup
from pilotstudy.method.multi_sample import MultiSampleDropout
from pilotstudy.method.r_drop import RDrop
from pilotstudy.method.regulariser import Regulariser
from pilotstudy.method.sam import SAM
from pilotstudy.networks.layers import found_layers
from pilotstudy.networks.mlp import mlp
from pilotstudy.networks.resnet import resnet

LAYERS = ["layer1", "layer2"]
SMALL = {"dgm_width": 8, "z": 2}


def net(**options) -> nn.Module:
    return mlp((3, 4, 4), 4, hidden=(9, 7), **options)


def images(n: int = 12) -> torch.Tensor:
    return torch.randn(n, 3, 4, 4)


def augmented(network: nn.Module, rate: float = 0.9) -> DataAugmentation:
    return DataAugmentation(network, mean=torch.full((3,), 0.5), deviation=torch.full((3,), 0.25), rate=rate)


MAKERS = {
    "pilot": lambda: Pilot(net(), LAYERS, images(1), mask_rate=0.9, **SMALL),
    "pilot projected": lambda: Pilot(
        resnet((3, 8, 8), 4, depth=8, width=2), ["first"], torch.zeros(1, 3, 8, 8), dgm_view="projected", **SMALL
    ),
    "noise": lambda: Noise(net(), LAYERS, images(1), kind="add", variance=1.0),
    "dropout": lambda: Dropout(net(), LAYERS, images(1)),
    "data-aug": lambda: augmented(net()),
    "r-drop": lambda: RDrop(net(), LAYERS, images(1)),
    "multi-sample dropout": lambda: MultiSampleDropout(net(), images(1)),
    "isda around dropout": lambda: ISDA(Dropout(net(), LAYERS, images(1)), images(1)),
    "sam around dropout": lambda: SAM(Dropout(net(), LAYERS, images(1))),
    "manifold mixup around noise": lambda: ManifoldMixup(
        Noise(net(), LAYERS, images(1), kind="add", variance_in="raw"), NESTED, images(1)
    ),
}


def saved(regulariser):
    file = io.BytesIO()
    torch.save(regulariser, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("how", [copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r)), saved])
@pytest.mark.parametrize("which", MAKERS)
def test_a_copy_is_a_regulariser_of_its_own(which, how):
    torch.manual_seed(0)
    original = MAKERS[which]()
    copied = how(original)
    x, y = torch.randn(12, 3, 8, 8) if "projected" in which else images(), torch.arange(12) % 4
    outcomes = []
    for regulariser in original, copied:
        torch.manual_seed(1)
        loss = regulariser.loss(x, y)
        loss.total.backward()
        outcomes.append([loss.total, regulariser.predict(x, 3), *(p.grad for p in regulariser.parameters())])
    for first, second in zip(*outcomes, strict=True):
        assert (first is None and second is None) or torch.equal(first, second)
    assert len({copied.loss(x, y).total.item() for _ in range(4)}) > 1  # it draws
    before = original.predict(x)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.zero_()
    assert torch.equal(original.predict(x), before)
    assert not copied.predict(x).any()


def test_averaged_weights_draw_too():
    torch.manual_seed(0)
    dropout = MAKERS["dropout"]()
    average = AveragedModel(dropout)
    average.update_parameters(dropout)
    x = images()
    assert not torch.equal(average(x), average(x))
    assert torch.equal(average.eval()(x), dropout.network(x))


@pytest.mark.parametrize("which", MAKERS)
def test_called_it_is_a_training_pass_in_train_mode_and_the_network_in_eval_mode(which):
    torch.manual_seed(0)
    regulariser = MAKERS[which]()
    x = torch.randn(12, 3, 8, 8) if "projected" in which else images()
    assert not torch.equal(regulariser(x), regulariser(x))
    copied = copy.deepcopy(regulariser)  # a training pass may move running moments
    torch.manual_seed(1)
    called = regulariser(x)
    torch.manual_seed(1)
    assert torch.equal(called, copied.training_logits(x))
    regulariser.eval()
    assert torch.equal(regulariser(x), regulariser.network(x))
    assert torch.equal(regulariser(x), regulariser.predict(x))


@pytest.mark.parametrize("kind", MASK_KINDS)
@pytest.mark.parametrize("chain", [True, False])
def test_pilots_training_pass_keeps_the_samples_in_order_and_is_that_of_its_loss(kind, chain, double, monkeypatch):
    """With a decoder that knows nothing, and no noise, what is inserted depends on the mask alone."""
    monkeypatch.setattr(torch, "randn_like", torch.zeros_like)
    torch.manual_seed(0)
    pilot = Pilot(net(), LAYERS, images(1), mask=kind, mask_rate=0.6, **SMALL)
    with torch.no_grad():
        for parameter in pilot.dgm.parameters():
            parameter.zero_()
    pilot.activations.chain = chain
    x, y = images(20), torch.arange(20) % 4
    pilot.loss(x, y)  # the normaliser learns its moments
    pilot.eval()
    torch.manual_seed(2)
    logits = pilot.training_logits(x)
    torch.manual_seed(2)
    torch.testing.assert_close(pilot.predict(x, 1), logits.log_softmax(1))
    torch.manual_seed(2)
    mask = pilot.draw_mask(x)
    if mask.others is not None:
        torch.testing.assert_close(logits[mask.others], pilot.network(x)[mask.others])


def test_regularisers_around_one_network_do_not_meet():
    torch.manual_seed(0)
    network, x = net(), images()
    dropout = Dropout(network, LAYERS, x[:1])
    pilot = Pilot(network, LAYERS, x[:1], **SMALL)
    noise = Noise(network, LAYERS, x[:1], kind="sub")
    before = network(x)
    for regulariser in dropout, pilot, noise:
        regulariser.loss(x, torch.arange(12) % 4)
        assert torch.equal(network(x), before)
    a = pilot.record(x)
    assert torch.equal(a[:, -4:], before)
    assert not any(module._forward_hooks for module in network.modules())


def test_a_pass_that_fails_leaves_no_hook():
    dropout = MAKERS["dropout"]()
    with pytest.raises(RuntimeError):
        dropout(torch.randn(2, 5))
    assert not any(module._forward_hooks for module in dropout.network.modules())


# -- nested ----------------------------------------------------------------------------------------------------------

NESTED = [f"network.{layer}" for layer in LAYERS]


def test_in_training_both_act_and_in_a_point_prediction_neither_does():
    torch.manual_seed(0)
    network, x = net(), images(400)
    inner = Dropout(network, LAYERS, x[:1], rate=0.5)
    outer = Noise(inner, NESTED, x[:1], kind="sub", mask="a-aug", mask_rate=0.5, variance=1e6)
    seen = []
    hook = network.layer1_relu.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    outer.training_logits(x)
    hook.remove()
    dropped = (seen[0] == 0).float().mean().item()
    noisy = (seen[0].abs() > 50).float().mean().item()
    assert dropped == pytest.approx(0.5, abs=0.05)  # of what was substituted too: the outer one is first
    assert noisy == pytest.approx(0.5 * (1 / 6 + 1 / 6), abs=0.06)  # layer 1's own share, and what came by the input
    assert torch.equal(outer.predict(x), network.eval()(x))


@pytest.mark.parametrize("batchnorm", [False, True])
def test_a_sampled_prediction_draws_from_both(batchnorm):
    """And batch normalisation predicts with what it has learnt: no sample depends on the others."""
    torch.manual_seed(0)
    x = images()
    pilot = Pilot(Dropout(net(batchnorm=batchnorm), LAYERS, x[:1]), NESTED, x[:1], mask_rate=1e-9, **SMALL)
    pilot.loss(x, torch.arange(12) % 4)
    assert not torch.equal(pilot.predict(x, 1), pilot.predict(x, 1))  # dropout's, as Pilot masks nothing
    statistics = {name: value.clone() for name, value in pilot.named_buffers()}
    alone = Pilot(Dropout(pilot.network.network, LAYERS, x[:1], rate=0.0), NESTED, x[:1], **SMALL)
    assert not torch.equal(alone.predict(x, 1), alone.predict(x, 1))  # Pilot's, as dropout drops nothing
    one = copy.deepcopy(alone)
    one.mask_rate = 1e-9
    torch.testing.assert_close(one.predict(x[:5], 2), one.predict(x, 2)[:5])
    torch.testing.assert_close(one.predict(x, 2), one.predict(x).log_softmax(1))
    assert all(torch.equal(value, statistics[name]) for name, value in pilot.named_buffers())
    assert not any(m.sampling for m in pilot.modules() if isinstance(m, Regulariser))


def test_monte_carlo_of_nested_regularisers_is_the_mean_of_passes():
    torch.manual_seed(0)
    x = images()
    pilot = Pilot(Dropout(net(), LAYERS, x[:1]), NESTED, x[:1], **SMALL)
    torch.manual_seed(1)
    many = pilot.predict(x, 3).exp()
    torch.manual_seed(1)
    torch.testing.assert_close(many, torch.stack([pilot.predict(x, 1).exp() for _ in range(3)]).mean(0))


def test_images_are_augmented_in_training_alone_and_once_a_step(monkeypatch):
    torch.manual_seed(0)
    x, y = images(), torch.arange(12) % 4
    pilot = Pilot(augmented(net()), NESTED, x[:1], mask="a-drop", **SMALL)
    given, calls = [], []
    hook = pilot.network.network.register_forward_pre_hook(lambda module, args: given.append(args[0]))
    augment = pilot.network.augment
    monkeypatch.setattr(pilot.network, "augment", lambda x: calls.append(1) or augment(x))
    pilot.mask_rate = 1e-9
    pilot.loss(x, y)
    assert len(calls) == 1
    assert torch.equal(given[0], given[1])  # what is recorded is what is trained on
    assert not torch.equal(given[0], x)
    pilot(x)
    assert len(calls) == 2
    given.clear()
    pilot.predict(x)
    pilot.predict(x, 2)
    pilot.eval()(x)
    assert all(torch.equal(seen, x) for seen in given)
    assert len(calls) == 2
    hook.remove()
    plain = augmented(net())
    assert torch.equal(plain.predict(x, 2), plain.predict(x).softmax(1).log())


def test_what_the_trainer_says_reaches_the_inner_one():
    torch.manual_seed(0)
    x = images()
    inner = Noise(net(), LAYERS, x[:1], kind="add", mask_rate=0.5, mask_schedule="annealed")
    outer = Pilot(Regulariser(inner, weight_decay=0.25), [f"network.{name}" for name in NESTED], x[:1], **SMALL)
    outer.progress = 0.5
    assert inner.rate_now() == 0.25
    outer.capture(torch.device("cpu"))
    outer.progress = 1.0
    outer.before_step()
    assert inner.rate_on_device.item() == 0.5
    groups = outer.parameter_groups(0.1)
    decay = {id(p): (group["lr"], group.get("weight_decay", 0.0)) for group in groups for p in group["params"]}
    assert {decay[id(p)] for p in inner.network.parameters() if p.ndim > 1} == {(0.1, 0.25)}
    assert {decay[id(p)] for p in inner.network.parameters() if p.ndim == 1} == {(0.1, 0.0)}
    assert {decay[id(p)] for p in outer.dgm.parameters()} == {(1e-3, 0.0)}
    assert len(decay) == sum(len(group["params"]) for group in groups) == len(list(outer.parameters()))
    twice = Regulariser(Regulariser(net(), weight_decay=0.25), weight_decay=0.5).parameter_groups(0.1)
    assert sorted({group.get("weight_decay", 0.0) for group in twice if group["params"]}) == [0.0, 0.75]
    other = copy.deepcopy(outer)
    other.progress = 0.0
    other.load_state_dict(outer.state_dict())
    assert other.network.network.progress == 1.0


class Smoothed(Regulariser):
    """As a user would write an arm."""

    def __init__(self, network, *, smoothing=0.1):
        super().__init__(network)
        self.smoothing = smoothing

    def cross_entropy(self, logits, y):
        return F.cross_entropy(logits, y, label_smoothing=self.smoothing)


class Given:
    """Settings and inputs, as arms have them."""

    def __init__(self, **settings):
        self.settings = settings
        self.example, self.layers = images(1), LAYERS
        self.mean, self.deviation = torch.zeros(3), torch.ones(3)

    def model_dump(self):
        return self.settings


def test_an_arm_of_ones_own_says_only_what_is_its_own():
    torch.manual_seed(0)
    x, y = images(), torch.arange(12) % 4
    given = Given(smoothing=0.3)
    arm = Smoothed.build(given, net(), given)
    expected = F.cross_entropy(arm.network(x), y, label_smoothing=0.3)
    torch.testing.assert_close(arm.loss(x, y).total, expected)
    pilot = Pilot(arm, NESTED, x[:1], mask_rate=1e-9, **SMALL)
    torch.testing.assert_close(pilot.loss(x, y).cross_entropy, expected)
    assert Pilot.build(Given(mask_rate=0.25, **SMALL), net(), given).mask_rate == 0.25
    assert Dropout.build(Given(rate=0.25), net(), given).rate == 0.25
    assert DataAugmentation.build(Given(rate=0.25), net(), given).rate == 0.25
    assert Regulariser.build(Given(weight_decay=0.25), net(), given).weight_decay == 0.25


def test_layers_of_a_nested_network_may_be_named_as_its_own():
    x = images(1)
    pilot = Pilot(Dropout(net(), LAYERS, x), NESTED, x, dgm_layers="layer2", **SMALL)
    assert pilot.seen == [2, 3]
    assert pilot.views.every_unit
    assert found_layers(pilot.network, x) == NESTED


def test_what_the_inner_one_has_to_say_or_to_clip_is_not_lost():
    class Clipping(Regulariser):
        def clip_gradients(self):
            self.clipped = True

    inner, x = Clipping(net()), images(1)
    inner.notes.append("a note")
    outer = Regulariser(Pilot(inner, NESTED, x, **SMALL))
    assert outer.notes == ["a note"]
    assert outer.clip_gradients() is not None  # the DGM's
    assert inner.clipped


def test_pilot_draws_one_mask_a_step_also_where_it_masks_nothing(monkeypatch):
    torch.manual_seed(0)
    x, y = images(), torch.arange(12) % 4
    pilot = Pilot(net(), LAYERS, x[:1], mask_rate=1e-9, **SMALL)
    drawn, draw = [], pilot.draw_mask
    monkeypatch.setattr(pilot, "draw_mask", lambda x: drawn.append(1) or draw(x))
    assert torch.equal(pilot.loss(x, y).total, F.cross_entropy(pilot.network(x), y))
    assert len(drawn) == 1


@pytest.mark.parametrize("samples", [0, 2])
@pytest.mark.parametrize("which", MAKERS)
def test_no_images_have_no_predictions(which, samples):
    none = torch.zeros(0, 3, 8, 8) if "projected" in which else images(0)
    assert MAKERS[which]().predict(none, samples).shape == (0, 4)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("kind", MASK_KINDS)
def test_pilot_in_double_precision(kind, dense):
    torch.manual_seed(0)
    pilot = Pilot(net(), LAYERS, images(1), mask=kind, mask_rate=0.9, **SMALL).double()
    pilot.mask_prior.dense = dense
    x, y = images().double(), torch.arange(12) % 4
    for _ in range(3):
        pilot.loss(x, y).total.backward()
    assert {p.grad.dtype for p in pilot.parameters() if p.grad is not None} == {torch.float64}
    sampled = pilot.predict(x, samples=5)
    torch.testing.assert_close(sampled.exp().sum(1), torch.ones(12, dtype=torch.float64))
    assert not torch.allclose(sampled, pilot.predict(x).log_softmax(1))
