"""Several passes a step, around any arm: held to the formula written out, and to what it must leave alone."""

import pytest
import torch
from torch.nn import functional as F

from pilotstudy.arms.catalogue import arm_named
from pilotstudy.errors import InputError
from pilotstudy.method.augmentation import DataAugmentation
from pilotstudy.method.dropout import Dropout
from pilotstudy.method.mixup import Mixup
from pilotstudy.method.noise import Noise
from pilotstudy.method.passes import Passes
from pilotstudy.method.pilot import Pilot
from pilotstudy.method.regulariser import Regulariser
from pilotstudy.method.swag import Swag
from pilotstudy.networks.mlp import mlp
from pilotstudy.study.reading import validate_study


@pytest.fixture
def net(double):
    torch.manual_seed(0)
    return mlp((1, 2, 3), 3, hidden=(8, 7))


def layers(net):
    return [name for name, module in net.named_modules() if isinstance(module, torch.nn.Linear)][:-1]


def batch(n=12):
    torch.manual_seed(1)
    return torch.randn(n, 1, 2, 3, dtype=torch.float64), torch.arange(n) % 3


def test_the_loss_is_its_formula(net):
    x, y = batch()
    dropout = Dropout(net, layers(net), x[:1], rate=0.4)
    torch.manual_seed(7)
    loss = Passes(dropout, draws=3, disturbed=0.3, consistency=0.8).loss(x, y)
    torch.manual_seed(7)
    disturbed = dropout.training_logits(x.repeat(3, 1, 1, 1)).log_softmax(1)
    own = net(x).log_softmax(1)
    expected = 0.7 * F.nll_loss(own, y) + 0.3 * F.nll_loss(disturbed, y.repeat(3))
    assert loss.cross_entropy.item() == pytest.approx(expected.item(), rel=1e-12)
    for k in range(3):
        q = disturbed[12 * k : 12 * (k + 1)]
        both = (
            F.kl_div(q, own, log_target=True, reduction="batchmean"),
            F.kl_div(own, q, log_target=True, reduction="batchmean"),
        )
        expected = expected + 0.8 * sum(both) / (2 * 3)
    assert loss.total.item() == pytest.approx(expected.item(), rel=1e-12)


def test_the_undisturbed_pass_learns_nothing_from_consistency(net):
    x, y = batch()
    model = Passes(Dropout(net, layers(net), x[:1], rate=0.4), disturbed=1.0, consistency=0.8)
    torch.manual_seed(7)
    model.loss(x, y).total.backward()
    found = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    torch.manual_seed(7)
    disturbed, own = model.inner.training_logits(x), net(x).detach()
    p, q = own.softmax(1), disturbed.softmax(1)
    (F.cross_entropy(disturbed, y) + 0.4 * ((p - q) * (p.log() - q.log())).sum(1).mean()).backward()
    for own, expected in zip(found, net.parameters(), strict=True):
        torch.testing.assert_close(own, expected.grad)


@pytest.mark.parametrize("make", [Dropout, lambda *a: Noise(*a, kind="add"), lambda *a: Pilot(*a, dgm_width=9, z=4)])
def test_one_disturbed_pass_alone_is_the_arm_itself(net, make):
    x, y = batch()
    arm = make(net, layers(net), x[:1])
    torch.manual_seed(3)
    expected = arm.loss(x, y)
    torch.manual_seed(3)
    found = Passes(arm, disturbed=1.0).loss(x, y)
    assert (found.total, found.cross_entropy) == (expected.total, expected.cross_entropy)


def test_pilots_logits_are_in_the_order_given_and_its_bound_stays(net):
    x, y = batch()
    pilot = Pilot(net, layers(net), x[:1], mask_rate=0.5, dgm_width=9, z=4)
    torch.manual_seed(3)
    loss = pilot.loss(x, y)
    assert F.cross_entropy(loss.logits, y).item() == pytest.approx(loss.cross_entropy.item(), rel=1e-12)
    torch.manual_seed(3)
    wrapped = Passes(pilot, disturbed=0.25).loss(x, y)
    bound = (loss.total - loss.cross_entropy).item()
    assert (wrapped.total - wrapped.cross_entropy).item() == pytest.approx(bound, rel=1e-9)
    assert wrapped.terms.keys() == loss.terms.keys()


def test_annealed_it_begins_undisturbed(net):
    x, y = batch()
    model = Passes(Dropout(net, layers(net), x[:1], rate=0.4), disturbed=0.8, disturbed_schedule="annealed")
    assert model.loss(x, y).total.item() == pytest.approx(F.cross_entropy(net(x), y).item(), rel=1e-12)
    model.progress = 0.5
    assert model.share_now() == pytest.approx(0.4)
    model.capture(torch.device("cpu"))
    model.progress = 1.0
    model.before_step()
    assert model.share_on_device.item() == pytest.approx(0.8)


def test_all_passes_of_a_step_have_the_same_augmented_images(net):
    x, y = batch()
    augmentation = DataAugmentation(net, mean=torch.zeros(1), deviation=torch.ones(1), rate=1.0)
    seen = []
    net.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    Passes(Dropout(augmentation, [f"network.{name}" for name in layers(net)], x[:1], rate=0.4), draws=2).loss(x, y)
    seen = seen[-2:]
    torch.testing.assert_close(seen[0], torch.cat([seen[1], seen[1]]))
    assert not torch.equal(seen[1], x)
    assert not augmentation.done


def test_sampled_predictions_are_those_of_the_arm_within(net):
    swag = Swag(net, start=0.0)
    passes, (x, y) = Passes(swag), batch()
    for _ in range(3):
        with torch.no_grad():
            net.logits.weight.add_(torch.randn_like(net.logits.weight))
        passes.after_epoch([(x, y)])
    passes.prepare_sampling([(x, y)], 4)
    assert torch.equal(passes.predict(x, samples=4), swag.predict(x, samples=4))
    assert not torch.allclose(passes.predict(x, samples=4), passes.predict(x).log_softmax(1))


def test_what_has_an_objective_of_its_own_is_refused(net):
    with pytest.raises(ValueError, match="Mixup has an objective of its own"):
        Passes(Mixup(net))
    assert Passes(net).loss(*batch()).total == Regulariser(net).loss(*batch()).total


def test_as_an_arm_it_stands_before_another():
    composed = arm_named("passes+pilot-a-aug+dropout")
    assert (composed.role, composed.modes) == ("method", ("point", "mc"))
    assert composed.label == "Passes + pilot a-aug + dropout"
    assert {"draws", "mask_rate", "rate"} <= set(composed.settings.model_fields)
    for wrong in "dropout+passes", "passes+mixup+pilot-a-aug":
        with pytest.raises(InputError):
            arm_named(wrong)


def test_in_a_study_it_cannot_stand_alone():
    study = {"title": "t", "data": {"name": "fashion"}, "network": {"name": "mlp-512"}, "training": {"epochs": 1}}
    with pytest.raises(InputError, match=r'it acts on another arm: method = \["passes", "dropout"\]'):
        validate_study({**study, "arms": {"passes": {}}}, "here")
    validate_study({**study, "arms": {"both": {"method": ["passes", "dropout"], "draws": 2}}}, "here")
