"""Pilot's loss and its Monte Carlo prediction, against sums over single samples and models that can be read off."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pilotstudy.method.activations import Activations
from pilotstudy.method.dgm import DGM
from pilotstudy.method.masks import MASK_KINDS, Mask, MaskPrior, Part
from pilotstudy.method.normaliser import Normaliser
from pilotstudy.method.pilot import Pilot
from pilotstudy.networks.mlp import mlp

SIZES = [6, 5, 4, 3]  # the last are the logits


def small_mlp():
    return mlp((3, 2, 2), 4, hidden=(9, 7))


def batch(n: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(n, 3, 2, 2), torch.randint(4, (n,))


@pytest.fixture
def no_noise(monkeypatch):
    """Every Gaussian draw is its mean."""
    monkeypatch.setattr(torch, "randn_like", torch.zeros_like)


def rows_of(mask: Mask, n: int) -> list[int]:
    return list(range(n)) if mask.rows is None else mask.rows.tolist()


def alone(mask: Mask, at: int) -> Mask:
    """What the mask says of one of its samples, as a mask of a batch of one."""
    parts = tuple(
        Part(part.layer, slice(0, 1), None if part.units is None else part.units[at : at + 1])
        for part in mask.parts
        if part.rows.start <= at < part.rows.stop
    )
    rows, others = (None, None) if mask.rows is None else (torch.arange(1), torch.arange(0))
    return Mask(rows, others, mask.seen[at : at + 1], parts)


@pytest.mark.parametrize("kind", MASK_KINDS)
def test_the_loss_is_that_of_its_samples_one_by_one(kind, double, no_noise):
    """The cross-entropy is a mean over all of them, the bound one over those with anything masked."""
    torch.manual_seed(1)
    net = small_mlp()
    x, y = batch()
    pilot = Pilot(
        net, net.layers, x[:1], mask=kind, mask_rate=0.4, dgm_width=8, z=2, normalise=False, variance_in="raw"
    )
    torch.manual_seed(2)
    mask = pilot.draw_mask(x)
    rows = rows_of(mask, 16)
    assert len(rows) == 16 if kind.endswith("drop") else 0 < len(rows) < 16
    torch.manual_seed(2)
    loss = pilot.loss(x, y)

    bounds, entropies = [], []
    for row in range(16):
        one, label, masked = x[row : row + 1], y[row : row + 1], None
        if row in rows:
            masked = alone(mask, rows.index(row))
            bounds.append(pilot.dgm.bound(pilot.record(one), masked))
        logits = pilot.with_insertions(one, masked, bounds[-1].imputations) if masked else net(one)
        entropies.append(F.cross_entropy(logits, label))
    torch.testing.assert_close(loss.cross_entropy, torch.stack(entropies).mean())
    # What is minimised falls as the bound rises.
    torch.testing.assert_close(loss.cross_entropy - loss.total, torch.stack([bound.total for bound in bounds]).mean())
    for name in "reconstruction", "kl", "hyperprior":
        total, number = loss.terms[name]
        torch.testing.assert_close(total / number, torch.stack([getattr(bound, name) for bound in bounds]).mean())


def knows_nothing(mask_rate: float, x: torch.Tensor, kind: str = "x-aug", **settings) -> Pilot:
    """A Pilot whose DGM answers 0 to everything: as it is normalised, the mean of what it has seen."""
    net = small_mlp()
    pilot = Pilot(net, net.layers, x[:1], mask=kind, mask_rate=mask_rate, dgm_width=8, z=2, **settings)
    with torch.no_grad():
        for parameter in pilot.dgm.parameters():
            parameter.zero_()
    return pilot


def test_imputations_are_inserted_in_the_networks_own_units(double, no_noise):
    torch.manual_seed(3)
    x, y = batch()
    x = 100 * x + 1000
    pilot = knows_nothing(1.0, x)
    mean_image = pilot.network(x.mean(0, keepdim=True))
    expected = F.cross_entropy(mean_image.expand(16, -1), y)
    torch.testing.assert_close(pilot.loss(x, y).cross_entropy, expected)
    torch.testing.assert_close(pilot.predict(x, samples=3), mean_image.log_softmax(1).expand(16, -1))


def test_monte_carlo_replaces_the_prediction_of_masked_samples_alone(double, no_noise):
    torch.manual_seed(4)
    x, y = batch(40)
    pilot = knows_nothing(0.5, x)
    pilot.loss(x, y)  # the normaliser learns a mean, of the samples that were masked
    filler = pilot.normaliser.mean[:12].view(1, 3, 2, 2)
    torch.manual_seed(5)
    masks = [pilot.draw_mask(x) for _ in range(3)]
    torch.manual_seed(5)
    found = pilot.predict(x, samples=3).exp()
    draws = []
    for mask in masks:
        inputs = x.clone()
        inputs[mask.rows] = filler
        draws.append(pilot.network(inputs).softmax(1))
    torch.testing.assert_close(found, torch.stack(draws).mean(0))


@pytest.mark.parametrize("kind", ["a-aug", "a-drop"])
def test_the_dgm_sees_normalised_activations_when_it_predicts_too(kind, double, monkeypatch):
    torch.manual_seed(6)
    x, y = batch(64)
    x = 10 * x + 5
    pilot = knows_nothing(1.0, x, kind)
    pilot.loss(x, y)  # the first update takes the moments of this batch, whose samples are all masked
    given = []
    sample = pilot.dgm.sample
    monkeypatch.setattr(pilot.dgm, "sample", lambda a, *rest: given.append(a) or sample(a, *rest))
    pilot.predict(x, samples=2)
    inputs = x.flatten(1)
    spread = inputs.var(0, unbiased=False).mean().sqrt()
    for a in given:
        torch.testing.assert_close(a[:, :12], (inputs - inputs.mean(0)) / spread)


def test_predicting_changes_nothing():
    torch.manual_seed(7)
    net = mlp((3, 2, 2), 4, hidden=(9, 7), batchnorm=True)
    x, y = batch()
    pilot = Pilot(net, net.layers, x[:1], mask_rate=0.9, dgm_width=8, z=2)
    pilot.loss(x, y)
    before = copy.deepcopy(pilot.state_dict())
    other = 3 * torch.randn(16, 3, 2, 2) + 2
    for samples in 0, 4:
        pilot.predict(other, samples)
        assert pilot.training
        assert net.training
        after = pilot.state_dict()
        assert all(torch.equal(torch.as_tensor(after[name]), torch.as_tensor(before[name])) for name in before)


def test_a_prediction_does_not_depend_on_what_it_is_batched_with():
    """Batch normalisation predicts with what it learnt, not with the batch at hand."""
    torch.manual_seed(8)
    net = mlp((3, 2, 2), 4, hidden=(9, 7), batchnorm=True)
    x, y = batch()
    pilot = Pilot(net, net.layers, x[:1], dgm_width=8, z=2)
    pilot.loss(x, y)
    torch.testing.assert_close(pilot.predict(x)[3:4], pilot.predict(x[3:4]))


def test_each_model_has_its_own_learning_rate():
    net = small_mlp()
    pilot = Pilot(net, net.layers, batch()[0][:1], dgm_width=8, z=2, dgm_learning_rate=0.03)
    rate = {id(p): group["lr"] for group in pilot.parameter_groups(0.5) for p in group["params"]}
    assert {rate[id(p)] for p in net.parameters()} == {0.5}
    assert {rate[id(p)] for p in pilot.dgm.parameters()} == {0.03}
    assert len(rate) == len(list(pilot.parameters()))


@pytest.mark.parametrize("kind", MASK_KINDS)
def test_imputation_errors_are_over_the_masked_units(kind, double, no_noise):
    torch.manual_seed(9)
    prior = MaskPrior(kind, SIZES[:-1])
    dgm = DGM(SIZES, prior.layers, prior.features, width=8, z=2)
    with torch.no_grad():
        for parameter in dgm.parameters():
            parameter.zero_()
    mask = prior.draw(20, 0.6)
    a = torch.randn(mask.size(), sum(SIZES))
    found = dgm.bound(a, mask).squared_errors
    for part in mask.parts:
        values = a[part.rows, dgm.slices[part.layer]]
        masked = values.flatten() if part.units is None else values[part.units == 1]
        total, number = found[part.layer]
        torch.testing.assert_close(torch.as_tensor(total), masked.square().sum())  # what it imputes is 0
        assert int(number) == masked.numel()


@pytest.mark.parametrize("kind", MASK_KINDS)
def test_what_is_masked_does_not_reach_what_is_inserted(kind, double):
    """While it trains, the DGM sees everything, but its imputations come from the prior."""
    torch.manual_seed(10)
    prior = MaskPrior(kind, SIZES[:-1])
    dgm = DGM(SIZES, prior.layers, prior.features, width=8, z=2)
    mask = prior.draw(20, 0.6)
    a = torch.randn(mask.size(), sum(SIZES))
    other = a.clone()
    for part in mask.parts:
        other[part.rows, dgm.slices[part.layer]] += 10 if part.units is None else 10 * part.units
    drawn = []
    for values in a, other:
        torch.manual_seed(11)
        drawn.append(dgm.bound(values, mask).imputations)
    for first, second in zip(*drawn, strict=True):
        torch.testing.assert_close(first, second)


def test_imputations_vary_as_the_prior_does(double):
    """A decoder that hands z on: what is imputed is then N(μ, σ²) and the decoder's own noise."""
    torch.manual_seed(12)
    dgm = DGM([1, 2], [0], 1, width=1, z=1, decoder_variance=0.25)
    with torch.no_grad():
        dgm.decoder[0].weight.copy_(torch.tensor([[1.0, 0.0]]))
        dgm.decoder[0].bias.fill_(1000.0)  # far from where its ReLU bends
        dgm.heads["0"].weight.fill_(1.0)
        dgm.heads["0"].bias.fill_(-1000.0)
    mask = MaskPrior("x-aug", [1]).draw(20_000, 1.0)
    mu, sigma, trunk = torch.full((20_000, 1), 3.0), torch.full((20_000, 1), 2.0), torch.zeros(20_000, 1)
    (means,), (draws,) = dgm.impute(mask, mu, sigma, trunk)
    assert means.mean().item() == pytest.approx(3, abs=0.06)
    assert means.std().item() == pytest.approx(2, rel=0.02)
    assert draws.std().item() == pytest.approx((4 + 0.25) ** 0.5, rel=0.02)


def test_units_that_never_change_are_normalised_to_zero():
    normaliser = Normaliser([3, 2])
    a = torch.cat([torch.randn(50, 3), torch.full((50, 2), 7.0)], 1)
    normaliser.update(a)
    scaled = normaliser(a)
    assert torch.isfinite(scaled).all()
    assert scaled[:, 3:].abs().max() < 1e-2
    torch.testing.assert_close(normaliser.inverse(scaled[:, 3:], slice(3, 5)), a[:, 3:])


def test_the_normalisers_moments_move_by_the_momentum(double):
    """Old and new moments in the ratio 4 to 1 (at one half, either could be the other)."""
    torch.manual_seed(13)
    normaliser = Normaliser([3, 2], momentum=0.2)
    first, second = torch.randn(40, 5), 5 * torch.randn(40, 5) + 3
    normaliser.update(first)
    torch.testing.assert_close(normaliser.mean, first.mean(0))
    normaliser.update(second)
    torch.testing.assert_close(normaliser.mean, 0.8 * first.mean(0) + 0.2 * second.mean(0))
    for layer, units in enumerate((slice(0, 3), slice(3, 5))):
        old, new = (a[:, units].var(0, unbiased=False).mean() for a in (first, second))
        torch.testing.assert_close(normaliser.variance[layer], 0.8 * old + 0.2 * new)
        torch.testing.assert_close(
            normaliser.scale[units], (0.8 * old + 0.2 * new).sqrt().expand(units.stop - units.start)
        )


def test_looking_at_a_network_leaves_it_as_it_was():
    net = mlp((3, 2, 2), 4, hidden=(9, 7), batchnorm=True)
    before = copy.deepcopy(net.state_dict())
    Activations(net, net.layers, torch.randn(4, 3, 2, 2))
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(9, 9)

    def forward(self, x):
        return x + F.relu(self.inner(F.relu(x)))


def test_samples_enter_late_only_where_nothing_else_links_layers_or_samples(double):
    x, y = batch()
    assert Activations(small_mlp(), ["layer1", "layer2"], x[:1]).chain
    normed = mlp((3, 2, 2), 4, hidden=(9, 7), batchnorm=True)
    assert not Activations(normed, normed.layers, x[:1]).chain
    skipping = nn.Sequential(nn.Flatten(), nn.Linear(12, 9), Residual(), nn.ReLU(), nn.Linear(9, 4))
    torch.manual_seed(0)
    pilot = Pilot(skipping, ["1", "2.inner"], x[:1], mask_rate=0.9, dgm_width=8, z=2)
    assert torch.isfinite(pilot.loss(x, y).total)
