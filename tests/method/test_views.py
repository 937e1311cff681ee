"""What the DGM sees of wide layers, and how imputations enter them."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Size, nn

from pilotstudy import Pilot
from pilotstudy.method.dgm import DGM, dgm_parameters
from pilotstudy.method.masks import MASK_KINDS, MaskPrior
from pilotstudy.method.sizing import rounded
from pilotstudy.method.views import Pooled, Projected, View, hash_of, view_of
from pilotstudy.networks.cnn import cnn
from pilotstudy.networks.resnet import resnet
from tests.method.test_dense import both, dense, steady_noise

__all__ = ["steady_noise"]

SHAPES = st.sampled_from([(7,), (100,), (3, 4, 5), (130, 2), (2, 3, 3, 3), (65,), (1, 1, 1)]).map(Size)
KINDS = st.sampled_from(["units", "pooled", "projected"])


@given(KINDS, SHAPES, st.booleans(), st.sampled_from(MASK_KINDS), st.sampled_from([False, True]))
def test_what_has_entered_is_what_is_seen(kind, shape, channels_last, mask_kind, as_dense):
    """See(enter(u, ã)) is ã where b is 1 and P u elsewhere; what P does not see stays."""
    view = view_of(kind, shape, channels_last=channels_last).double()
    prior = MaskPrior(mask_kind, [view.size])
    prior.dense = as_dense
    torch.manual_seed(0)
    mask = prior.draw(9, 0.5)
    u = torch.randn(9, *shape, dtype=torch.float64)
    rows = torch.arange(9) if mask.rows is None else mask.rows
    b = torch.zeros(9, view.size, dtype=torch.float64)
    a = torch.randn(9, view.size, dtype=torch.float64)
    h = u
    for part in mask.parts:
        b[rows[part.rows]] = torch.ones((), dtype=torch.float64) if part.units is None else part.units.double()
        h = view.enter(mask, part, h, a[rows[part.rows]])
    torch.testing.assert_close(view.see(h), b * a + (1 - b) * view.see(u))
    if type(view) is not View:
        unseen = [v - view.spread(view.see(v), shape) for v in (u, h)]
        torch.testing.assert_close(*unseen)
    untouched = b.any(1) == 0
    assert torch.equal(h[untouched], u[untouched])


@given(SHAPES)
def test_a_projection_has_orthonormal_rows_and_draws_nothing(shape):
    state = torch.get_rng_state()
    view = Projected(shape).double()
    assert torch.equal(torch.get_rng_state(), state)
    P = view.see(torch.eye(shape.numel(), dtype=torch.float64).view(-1, *shape)).T
    assert P.shape == (min(64, shape.numel()), shape.numel())
    # float32 weights, as the buffers are made in the default precision
    torch.testing.assert_close(P @ P.T, torch.eye(len(P), dtype=torch.float64), atol=1e-6, rtol=0)
    spread = view.spread(torch.eye(len(P), dtype=torch.float64), shape).flatten(1)
    torch.testing.assert_close(spread, P)
    assert not list(view.parameters())
    assert not view.state_dict()


def test_projections_are_the_same_everywhere_and_mix_signs_and_places():
    assert hash_of(torch.arange(3)).tolist() == [hash_by_hand(i) for i in range(3)]
    view = Projected(Size((64, 32, 32)))
    assert abs(view.weight.sign().mean().item()) < 0.02
    neighbours = (view.order[1:] - view.order[:-1]).abs() == 1
    assert neighbours.float().mean().item() < 0.001


def hash_by_hand(i: int) -> int:
    h = i + 0x9E3779B9
    for multiplier, shift in (0x85EBCA6B, 16), (0xC2B2AE35, 13), (1, 16):
        h = ((h ^ (h >> shift)) * multiplier) % 2**32
    return h


def test_pooled_is_the_channels_means():
    u = torch.randn(4, 3, 5, 6)
    torch.testing.assert_close(Pooled(u.shape[1:]).see(u), u.mean((2, 3)))
    tokens = torch.randn(4, 9, 8)  # of a transformer: a linear layer's channels are last
    torch.testing.assert_close(Pooled(tokens.shape[1:], channels_last=True).see(tokens), tokens.mean(1))
    assert type(view_of("pooled", Size((12,)))) is View


@pytest.mark.parametrize(("kind", "shape"), [("pooled", (2, 3, 2)), ("projected", (2, 3, 40))])
def test_gradients_pass_through_what_is_not_seen(kind, shape, double):
    """Of h = u + P⁺(ã − P u) by u: I − P⁺P."""
    view = view_of(kind, Size(shape))
    mask = MaskPrior("x-aug", [view.size]).draw(1, 1.0)
    a, u = torch.ones(1, view.size), torch.randn(1, *shape)
    jacobian = torch.autograd.functional.jacobian(lambda u: view.enter(mask, mask.parts[0], u, a).flatten(), u)
    eye = torch.eye(u.numel()).view(-1, *shape)
    torch.testing.assert_close(jacobian.view(u.numel(), -1), (eye - view.spread(view.see(eye), Size(shape))).flatten(1))


@pytest.mark.parametrize("kind", MASK_KINDS)
@pytest.mark.parametrize("view", ["pooled", "projected"])
def test_dense_masks_do_the_same_with_views(kind, view, double, steady_noise):
    torch.manual_seed(0)
    net = cnn((3, 8, 8), 4)
    x, y = torch.randn(24, 3, 8, 8), torch.arange(24) % 4
    pilot = Pilot(net, net.layers, x[:1], mask=kind, mask_rate=0.7, dgm_width=8, z=3, dgm_view=view)
    rows, same = both(pilot, x, y, 0)
    torch.testing.assert_close(rows, same, rtol=1e-11, atol=1e-11)


def test_an_imputed_mean_replaces_the_channels_own_and_nothing_else(double, monkeypatch):
    """A DGM that knows nothing imputes the mean over the batch: so x-aug sets every image to the mean colour."""
    monkeypatch.setattr(torch, "randn_like", torch.zeros_like)
    torch.manual_seed(0)
    net = cnn((3, 8, 8), 4)
    x, y = 3 * torch.randn(12, 3, 8, 8) + 5, torch.arange(12) % 4
    pilot = Pilot(net, net.layers, x[:1], mask="x-aug", mask_rate=1.0, dgm_width=8, z=3, dgm_view="pooled")
    with torch.no_grad():
        for parameter in pilot.dgm.parameters():
            parameter.zero_()
    shifted = x - x.mean((2, 3), keepdim=True) + x.mean((0, 2, 3), keepdim=True)
    torch.testing.assert_close(pilot.loss(x, y).cross_entropy, nn.functional.cross_entropy(net(shifted), y))
    torch.testing.assert_close(pilot.training_logits(x), net(shifted))
    torch.testing.assert_close(pilot.predict(x, samples=2), net(shifted).log_softmax(1))


@pytest.mark.parametrize(
    ("layers", "seen"),
    [("all", [0, 1, 2, 3, 4, 5]), ("penultimate", [4, 5]), ("conv3, conv1", [1, 3, 5]), ("input,dense", [0, 4, 5])],
)
@pytest.mark.parametrize("kind", ["a-aug", "a-drop"])
def test_the_dgm_sees_and_masks_the_layers_chosen(layers, seen, kind, double):
    torch.manual_seed(0)
    net = cnn((3, 8, 8), 4)
    x, y = torch.randn(60, 3, 8, 8), torch.arange(60) % 4
    pilot = Pilot(net, net.layers, x[:1], mask=kind, mask_rate=0.9, dgm_width=8, z=3, dgm_layers=layers)
    assert pilot.seen == seen
    every = [a.flatten(1) for a in pilot.activations.record(net, x)]
    assert torch.equal(pilot.record(x), torch.cat([every[layer] for layer in seen], 1))
    masked = {int(name.rsplit("_", 1)[1]) for name in pilot.loss(x, y).terms if name.startswith("imputation")}
    assert masked == set(seen[:-1])
    found = []
    for chain in True, False:  # the shortcut of a chain and the whole run
        pilot.activations.chain = chain
        torch.manual_seed(1)
        found.append(pilot.predict(x, samples=2))
    torch.testing.assert_close(*found)


def test_masks_of_the_input_need_it():
    net, x = cnn((3, 8, 8), 4), torch.zeros(1, 3, 8, 8)
    for layers in "penultimate", "conv1":
        with pytest.raises(ValueError, match=f'mask x-aug imputes the input, which dgm_layers = "{layers}"'):
            Pilot(net, net.layers, x, mask="x-aug", dgm_layers=layers)
    assert Pilot(net, net.layers, x, mask="x-aug", dgm_layers="input,conv1", z=2, dgm_width=4).seen == [0, 1, 5]
    for layers, said in ("conf1", "did you mean 'conv1'"), ("", "no layer ''"), ("all,conv1", "no layer 'all'"):
        with pytest.raises(ValueError, match=said):
            Pilot(net, net.layers, x, dgm_layers=layers)


@given(st.sampled_from(MASK_KINDS), st.lists(st.integers(1, 9), min_size=2, max_size=5), st.integers(1, 9))
def test_parameters_are_counted_before_they_are_made(kind, sizes, width):
    prior = MaskPrior(kind, sizes[:-1])
    dgm = DGM(sizes, prior.layers, prior.features, width=width, z=3)
    assert sum(p.numel() for p in dgm.parameters()) == dgm_parameters(sizes, prior.sizes, prior.features, width, 3)


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("kind", MASK_KINDS)
@pytest.mark.parametrize("depth", [8, 20])
def test_auto_makes_no_dgm_larger_than_the_network(kind, depth):
    net, x = resnet((3, 16, 16), 10, depth=depth), torch.zeros(1, 3, 16, 16)
    pilot = Pilot(net, net.layers, x, mask=kind)
    assert count(pilot.dgm) <= count(net)
    (note,) = pilot.notes
    width = pilot.dgm.prior_trunk.out_features
    assert note == (
        f"the DGM sees channel means and is {width} wide, so that it is not larger than the network "
        f"({count(pilot.dgm):,} of {count(net):,} parameters)"
    )
    assert 32 <= width < 256
    wider = dgm_parameters(
        [*(view.size for view in pilot.views), 10], pilot.mask_prior.sizes, pilot.mask_prior.features, width + 1, 32
    )
    assert wider > count(net)


def test_auto_takes_what_is_left_where_nothing_fits_and_says_so():
    net, x = resnet((3, 8, 8), 2, depth=8, width=1), torch.zeros(1, 3, 8, 8)
    pilot = Pilot(net, net.layers, x)
    assert pilot.seen == [len(net.layers), len(net.layers) + 1]
    assert "of the last hidden layer alone and is 32 wide, the smallest there is" in pilot.notes[0]
    inputs = Pilot(net, net.layers, x, mask="x-aug")
    assert inputs.seen[0] == 0
    assert "the smallest there is" in inputs.notes[0]


def test_auto_leaves_the_papers_networks_and_small_dgms_alone():
    net, x = cnn((3, 8, 8), 4), torch.zeros(1, 3, 8, 8)
    pilot = Pilot(net, net.layers, x)
    assert pilot.views.every_unit
    assert pilot.notes == []
    assert count(pilot.dgm) > count(net)
    own = nn.Sequential(nn.Linear(4, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 3))
    pilot = Pilot(own, ["0", "2"], torch.zeros(1, 4), dgm_width=32)
    assert (pilot.views.every_unit, pilot.notes) == (True, [])


def test_what_is_asked_for_is_taken_and_told_where_it_is_large():
    net, x = resnet((3, 16, 16), 4, depth=8, width=4), torch.zeros(1, 3, 16, 16)
    units = Pilot(net, net.layers, x, dgm_view="units")
    numbers = f"{rounded(count(units.dgm))} parameters, the network {rounded(count(net))}"
    assert units.notes == [f'the DGM has {numbers}: choose dgm_view = "pooled"']
    assert rounded(59_123_456) == "59.1 M"
    pooled = Pilot(net, net.layers, x, dgm_view="pooled")
    assert pooled.dgm.prior_trunk.out_features == 256
    assert "a smaller dgm_width" in pooled.notes[0]
    assert Pilot(net, net.layers, x, dgm_view="pooled", dgm_width=4, z=2).notes == []


@pytest.mark.parametrize("view", ["auto", "projected"])
def test_a_resnet_trains_with_pilot(view):
    """Finite, and the classifier learns, over many steps; a dense step too."""
    torch.manual_seed(0)
    net = resnet((1, 8, 8), 3, depth=8, width=4)
    pilot = Pilot(net, net.layers, torch.zeros(1, 1, 8, 8), dgm_width=32, z=4, dgm_view=view)
    optimiser = torch.optim.Adam(pilot.parameter_groups(3e-3))
    patterns, losses = torch.randn(3, 1, 8, 8), []
    for _ in range(60):
        y = torch.randint(3, (24,))
        loss = pilot.loss(patterns[y] + 0.5 * torch.randn(24, 1, 8, 8), y)
        optimiser.zero_grad()
        loss.total.backward()
        pilot.clip_gradients()
        optimiser.step()
        losses.append((loss.total.item(), loss.cross_entropy.item()))
    totals, entropies = zip(*losses, strict=True)
    assert max(totals) < 20 * totals[0]
    assert sum(totals[-10:]) < sum(totals[:10])
    assert sum(entropies[-10:]) < 0.5 * sum(entropies[:10])
    before = copy.deepcopy(pilot.state_dict())
    with dense(pilot):
        assert torch.isfinite(pilot.loss(patterns, torch.arange(3)).total)
    assert before.keys() == pilot.state_dict().keys()


def test_auto_projects_where_channels_are_many_and_weights_few():
    inner = [nn.Conv2d(400, 400, 5, padding=2, groups=400) for _ in range(5)]
    net = nn.Sequential(nn.Conv2d(1, 400, 1), *inner, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(400, 2))
    pilot = Pilot(net, [str(i) for i in range(6)], torch.zeros(1, 1, 4, 4), z=4)
    assert "sees random projections and is" in pilot.notes[0]
    assert [type(view) for view in pilot.views] == [View, *[Projected] * 6]  # the input has but 16 units
    assert count(pilot.dgm) <= count(net)
