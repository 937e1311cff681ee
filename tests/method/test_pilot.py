import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pilotstudy import Dropout, Noise, Pilot
from pilotstudy.method.activations import Activations
from pilotstudy.method.masks import MASK_KINDS
from pilotstudy.method.normaliser import Normaliser
from pilotstudy.networks.cnn import cnn
from pilotstudy.networks.mlp import mlp


class Own(nn.Module):
    """A user's network: not a chain, with a skip connection."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = nn.Linear(12, 9), nn.Linear(9, 9), nn.Linear(9, 4)

    def forward(self, x):
        h = F.relu(self.first(x.flatten(1)))
        return self.out(h + torch.tanh(self.second(h)))


def batch(n: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(n, 3, 2, 2), torch.arange(n) % 4


def small_mlp():
    return mlp((3, 2, 2), 4, hidden=(9, 7))


@pytest.mark.parametrize("kind", MASK_KINDS)
@pytest.mark.parametrize("units", [{}, {"variance_in": "raw"}, {"normalise": False, "variance_in": "raw"}])
def test_neither_objective_reaches_the_others_parameters(kind, units):
    torch.manual_seed(0)
    net = small_mlp()
    x, y = batch()
    pilot = Pilot(net, net.layers, x[:1], mask=kind, mask_rate=0.9, dgm_width=8, z=2, **units)
    loss = pilot.loss(x, y)
    dgm, classifier = list(pilot.dgm.parameters()), list(net.parameters())
    assert all(g is None for g in torch.autograd.grad(loss.cross_entropy, dgm, allow_unused=True, retain_graph=True))
    bound = loss.total - loss.cross_entropy
    # The difference cancels the classifier's gradients to zero exactly, so anything left came through the bound.
    for g in torch.autograd.grad(bound, classifier, allow_unused=True, retain_graph=True):
        assert g is None or not g.any()
    assert any(
        g is not None and g.any() for g in torch.autograd.grad(loss.cross_entropy, classifier, retain_graph=True)
    )
    assert any(g is not None and g.any() for g in torch.autograd.grad(bound, dgm, allow_unused=True))


@pytest.mark.parametrize("kind", MASK_KINDS)
def test_insertions_follow_the_notes(kind, double):
    """hˡ = bˡ ⊙ ãˡ + (1 − bˡ) ⊙ uˡ, uˡ = Wˡφ(hˡ⁻¹) + cˡ, sample by sample."""
    torch.manual_seed(1)
    net = small_mlp()
    x, _ = batch()
    pilot = Pilot(
        net, net.layers, x[:1], mask=kind, mask_rate=0.7, dgm_width=8, z=2, normalise=False, variance_in="raw"
    )
    mask = pilot.draw_mask(x)
    imputations = pilot.dgm.sample(pilot.record(x), mask)
    found = pilot.with_insertions(x, mask, imputations)
    expected = []
    rows = list(range(16)) if mask.rows is None else mask.rows.tolist()
    order = rows if mask.others is None else [*mask.others.tolist(), *rows]
    for row in order:
        h = x[row].flatten()
        for layer in range(3):
            if layer > 0:
                linear = (net.layer1, net.layer2)[layer - 1]
                h = linear(h if layer == 1 else F.relu(h))
            for part, values in zip(mask.parts, imputations, strict=True):
                if part.layer == layer and row in rows[part.rows]:
                    position = rows[part.rows].index(row)
                    b = torch.ones_like(h) if part.units is None else part.units[position]
                    h = b * values[position] + (1 - b) * h
        expected.append(net.logits(F.relu(h)))
    torch.testing.assert_close(found, torch.stack(expected))


@pytest.mark.parametrize("build", [small_mlp, lambda: cnn((3, 8, 8), 4)])
def test_entering_a_chain_late_changes_nothing(build, double):
    """Samples may enter a chain of layers where they are imputed; any other network runs as a whole."""
    torch.manual_seed(2)
    net = build()
    x, y = torch.randn(24, 3, *((2, 2) if "layer1" in net.layers else (8, 8))), torch.arange(24) % 4
    pilot = Pilot(net, net.layers, x[:1], mask_rate=0.8, dgm_width=8, z=2)
    assert pilot.activations.chain
    results = []
    for chain in True, False:
        pilot.activations.chain = chain
        state = copy.deepcopy(pilot.state_dict())
        torch.manual_seed(3)
        loss = pilot.loss(x, y)
        pilot.zero_grad()
        loss.total.backward()
        torch.manual_seed(3)
        results.append([loss.total.detach(), pilot.predict(x, 5), *(p.grad.clone() for p in pilot.parameters())])
        pilot.load_state_dict(state)
    for with_chain, without in zip(*results, strict=True):
        torch.testing.assert_close(with_chain, without)


def test_a_network_of_ones_own():
    """The README's five lines."""
    torch.manual_seed(0)
    net = Own()
    x, y = batch(64)
    pilot = Pilot(net, layers=["first", "second"], example=x[:1], mask="a-aug", mask_rate=0.5)
    optimiser = torch.optim.Adam(pilot.parameter_groups(learning_rate=1e-2))
    losses = []
    for _ in range(60):
        loss = pilot.loss(x, y)
        optimiser.zero_grad()
        loss.total.backward()
        pilot.clip_gradients()
        optimiser.step()
        losses.append(loss.cross_entropy.item())
    assert sum(losses[-10:]) < 0.7 * sum(losses[:10])
    assert not pilot.activations.chain
    log_p = pilot.predict(x, samples=10)
    assert log_p.exp().sum(1).allclose(torch.ones(64))
    assert torch.equal(pilot.predict(x), net(x))
    for other in Noise(Own(), ["first", "second"], x[:1], kind="add"), Dropout(Own(), ["first", "second"], x[:1]):
        other.loss(x, y).total.backward()
        assert other.network.first.weight.grad.any()


def test_monte_carlo_is_the_mean_of_its_draws():
    torch.manual_seed(0)
    net = small_mlp()
    x, _ = batch(32)
    for mask in "a-aug", "a-drop":
        pilot = Pilot(net, net.layers, x[:1], mask=mask, mask_rate=0.5, dgm_width=8, z=2)
        torch.manual_seed(5)
        many = pilot.predict(x, samples=4).exp()
        torch.manual_seed(5)
        single = torch.stack([pilot.predict(x, samples=1).exp() for _ in range(4)]).mean(0)
        torch.testing.assert_close(many, single)
        assert not many.allclose(pilot.predict(x).softmax(1))


def test_an_annealed_rate_grows_with_the_progress():
    net = small_mlp()
    x, y = batch(2000)
    pilot = Pilot(net, net.layers, x[:1], mask_rate=0.8, mask_schedule="annealed", dgm_width=8, z=2)
    assert pilot.draw_mask(x).size() == 0
    assert torch.isfinite(pilot.loss(x, y).total)
    pilot.progress = 0.5
    assert pilot.draw_mask(x).size() == pytest.approx(800, abs=120)
    other = Pilot(small_mlp(), net.layers, x[:1], mask_rate=0.8, mask_schedule="annealed", dgm_width=8, z=2)
    other.load_state_dict(pilot.state_dict())
    assert other.progress == 0.5


def test_gradients_are_clipped_for_the_dgm_alone():
    torch.manual_seed(0)
    net = small_mlp()
    x, y = batch()
    pilot = Pilot(net, net.layers, x[:1], dgm_width=8, z=2, mask_rate=1.0, gradient_clip=0.01)
    pilot.loss(x, y).total.backward()
    before = [p.grad.clone() for p in net.parameters()]
    norm = pilot.clip_gradients()
    assert norm > 0.01
    after = torch.stack([p.grad.norm() for p in pilot.dgm.parameters() if p.grad is not None]).norm()
    assert after.item() == pytest.approx(0.01, rel=1e-3)
    assert all(torch.equal(p.grad, g) for p, g in zip(net.parameters(), before, strict=True))


def test_the_normaliser_centres_units_and_scales_layers(double):
    torch.manual_seed(0)
    normaliser = Normaliser([3, 2], momentum=0.5)
    a = torch.randn(5000, 5) * torch.tensor([1.0, 2, 3, 10, 10]) + torch.arange(5)
    normaliser.update(a)
    scaled = normaliser(a)
    torch.testing.assert_close(scaled.mean(0), torch.zeros(5), atol=1e-10, rtol=0)
    assert scaled[:, :3].var(unbiased=False, dim=0).mean().item() == pytest.approx(1)
    assert scaled[:, 3:].var(unbiased=False, dim=0).mean().item() == pytest.approx(1)
    torch.testing.assert_close(normaliser.inverse(scaled[:, 3:], slice(3, 5)), a[:, 3:])
    normaliser.update(a + 1)
    torch.testing.assert_close(normaliser.mean, a.mean(0) + 0.5)


def test_wrong_layers_are_told():
    x, _ = batch()
    with pytest.raises(ValueError, match="did you mean 'first'"):
        Activations(Own(), ["frist"], x[:1])
    with pytest.raises(ValueError, match="leave it out"):
        Activations(Own(), ["first", "out"], x[:1])
    net = Own()
    net.unused = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="1 layers are named, but 0 ran"):
        Activations(net, ["unused"], x[:1])
