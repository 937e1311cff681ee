"""What variances are measured in: the same for Pilot's decoder and for noise; and the control that is matched to it."""

import copy

import pytest
import torch
from torch.nn import functional as F

from pilotstudy.method.dgm import DGM, gaussian_log_likelihood
from pilotstudy.method.masks import MaskPrior
from pilotstudy.method.matched import Matched
from pilotstudy.method.noise import Noise
from pilotstudy.method.pilot import Pilot
from pilotstudy.networks.mlp import mlp

SMALL = {"dgm_width": 8, "z": 2}


def network():
    torch.manual_seed(0)
    return mlp((1, 4, 4), 3, hidden=(60, 40))


def batch(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images far from zero, of pixels with different variances."""
    return 5 + torch.linspace(0.5, 3, 16).view(1, 4, 4) * torch.randn(n, 1, 4, 4), torch.arange(n) % 3


def layer_inputs(net, x: torch.Tensor) -> list[torch.Tensor]:
    """The activations a⁰, a¹, a² of the network as it is."""
    first = net.layer1(x.flatten(1))
    return [x.flatten(1), first, net.layer2(F.relu(first))]


def deviation(a: torch.Tensor) -> torch.Tensor:
    """The root of the mean over units of the unit's variance."""
    return a.var(0, unbiased=False).mean().sqrt()


def inserted_noise(regulariser, x: torch.Tensor) -> dict[int, torch.Tensor]:
    """By layer what a pass adds to the raw values there, where it adds anything."""
    added: dict[int, torch.Tensor] = {}
    net, run = regulariser.network, regulariser.activations.run

    def watching(network, inputs, edit):
        def watched(layer, u):
            h = edit(layer, u)
            rows = (h != u).flatten(1).any(1)
            if layer < 3 and rows.any():
                added[layer] = (h - u).flatten(1)[rows].detach()
            return h

        return run(network, inputs, watched)

    regulariser.activations.run = watching
    regulariser.activations.chain = False  # all samples pass all layers
    regulariser.training_logits(x)
    regulariser.activations.run = run
    assert regulariser.network is net
    return added


@pytest.mark.parametrize("as_dense", [False, True])
def test_relative_noise_is_measured_by_the_layer_it_enters(as_dense, double):
    net, (x, _) = network(), batch(4000)
    noise = Noise(net, net.layers, x[:1], kind="add", mask_rate=0.6, variance=0.25)
    noise.mask_prior.dense = as_dense
    added = inserted_noise(noise, x)
    for layer, a in enumerate(layer_inputs(net, x)):
        assert (added[layer].std() / deviation(a)).item() == pytest.approx(0.5, rel=0.04)
        assert noise._normaliser(layer).layer_scales.item() == pytest.approx(deviation(a).item(), rel=0.04)


def test_large_noise_in_one_layer_does_not_grow_from_layer_to_layer(double):
    """Whole layers are measured in samples that have no noise yet."""
    net, (x, _) = network(), batch(4000)
    noise = Noise(net, net.layers, x[:1], kind="add", mask_rate=1.0, variance=1e6)
    added = inserted_noise(noise, x)
    for layer, a in enumerate(layer_inputs(net, x)):
        assert (added[layer].std() / deviation(a)).item() == pytest.approx(1000, rel=0.06)


def test_relative_is_raw_times_the_scale_of_the_layer(double):
    """The same draws, in other units."""
    x, _ = batch(64)
    added = []
    for options in {"variance": 0.25}, {"variance": 1.0, "variance_in": "raw"}:
        net = network()
        noise = Noise(net, net.layers, x[:1], kind="add", mask="x-aug", mask_rate=1.0, **options)
        torch.manual_seed(1)
        added.append(inserted_noise(noise, x)[0])
    torch.testing.assert_close(added[0], 0.5 * deviation(x.flatten(1)) * added[1])


def test_the_running_scale_moves_in_training_steps_alone():
    net, (x, y) = network(), batch(64)
    noise = Noise(net, net.layers, x[:1], kind="add")
    noise.loss(x, y)
    before = copy.deepcopy(noise.state_dict())
    noise.predict(10 * x, samples=3)
    with torch.no_grad():
        noise(10 * x)
    pilot = Pilot(noise, [f"network.{layer}" for layer in net.layers], x[:1], **SMALL)
    pilot.record(10 * x)
    after = noise.state_dict()
    assert all(torch.equal(torch.as_tensor(after[name]), torch.as_tensor(before[name])) for name in before)
    noise.loss(10 * x, y)
    assert not torch.equal(noise.state_dict()["normalisers.0.variance"], before["normalisers.0.variance"])


def test_raw_noise_keeps_no_scale():
    net, (x, _) = network(), batch(8)
    noise = Noise(net, net.layers, x[:1], kind="add", variance_in="raw")
    assert not [name for name in noise.state_dict() if "normalisers" in name]


def test_a_raw_decoder_variance_is_that_of_the_layers_own_values(double):
    """Draws: what a DGM that answers 0 inserts has the variance that was asked for, whatever the layer's scale."""
    net, (x, y) = network(), batch(4000)
    pilot = Pilot(net, net.layers, x[:1], mask_rate=1.0, decoder_variance=4.0, variance_in="raw", **SMALL)
    with torch.no_grad():
        for parameter in pilot.dgm.parameters():
            parameter.zero_()
    pilot.loss(x, y)
    mask = pilot.draw_mask(x)
    for part, values in zip(mask.parts, pilot.drawn(pilot.normaliser(pilot.record(x)), mask), strict=True):
        raw = pilot.normaliser.inverse(values, pilot.dgm.slices[part.layer])
        assert (raw - pilot.normaliser.mean[pilot.dgm.slices[part.layer]]).std().item() == pytest.approx(2, rel=0.02)


def test_the_bound_with_raw_variances_is_that_of_the_raw_values(double):
    """log N(a; μ, σ²) of raw values differs from that of scaled ones by the logarithm of the scale, a unit each."""
    torch.manual_seed(2)
    sizes = [4, 3, 2]
    prior = MaskPrior("a-aug", sizes[:-1])
    dgm = DGM(sizes, prior.layers, prior.features, width=8, z=2, decoder_variance=0.7)
    mask, scales = prior.draw(20, 1.0), torch.tensor([3.0, 0.2, 1.0])
    a = torch.randn(20, 9)
    torch.manual_seed(3)
    bound = dgm.bound(a, mask, scales)
    torch.manual_seed(3)
    b = dgm.mask_trunk(mask.seen)
    mu, s = dgm.posterior(F.relu(dgm.posterior_trunk(a) + b)).chunk(2, 1)
    z = mu + F.softplus(s) * torch.randn_like(mu)
    trunk = F.relu(dgm.prior_trunk(dgm.hide(a, mask)) + b)
    expected = 0.0
    for part, mean in zip(mask.parts, dgm.mean(z, trunk, mask.parts), strict=True):
        scale, own = scales[part.layer], a[part.rows, dgm.slices[part.layer]]
        normal = torch.distributions.Normal(scale * mean, 0.7**0.5)
        expected = expected + (normal.log_prob(scale * own) + scale.log()).sum()
    torch.testing.assert_close(bound.reconstruction, expected)
    assert gaussian_log_likelihood(a, a, 0.7, None)[0] == gaussian_log_likelihood(a, a, torch.tensor(0.7), None)[0]


def test_relative_without_normalise_is_refused():
    net, (x, _) = network(), batch(2)
    with pytest.raises(ValueError, match='set variance_in = "raw"'):
        Pilot(net, net.layers, x[:1], normalise=False, **SMALL)
    with pytest.raises(ValueError, match="variance_in = 'scaled': choose one of relative, raw"):
        Noise(net, net.layers, x[:1], kind="add", variance_in="scaled")


# -- the control that is matched to Pilot ----------------------------------------------------------------------------


def trained(kind: type[Pilot], steps: int, **settings) -> Pilot:
    """With a classifier that stays as it is, each step with draws of its own."""
    net, (x, y) = network(), batch(600)
    torch.manual_seed(4)
    model = kind(net, net.layers, x[:1], mask_rate=0.9, **SMALL, **settings)
    optimiser = torch.optim.Adam(model.dgm.parameters(), 3e-3)
    for step in range(steps):
        torch.manual_seed(step)
        model.zero_grad()
        model.loss(x, y).total.backward()
        model.clip_gradients()
        optimiser.step()
    return model


def test_the_dgm_of_the_control_is_pilots():
    ours, pilots = (trained(kind, 5).dgm.state_dict() for kind in (Matched, Pilot))
    assert all(torch.equal(ours[name], pilots[name]) for name in pilots)


@pytest.mark.parametrize("settings", [{}, {"normalise": False, "variance_in": "raw"}, {"variance_in": "raw"}])
@pytest.mark.parametrize("as_dense", [False, True])
def test_the_control_adds_as_much_noise_to_a_unit_as_pilots_imputations_differ(as_dense, settings, double):
    model = trained(Matched, 20, **settings)
    model.mask_prior.dense = as_dense
    for _ in range(100):  # the DGM stays as it is, and the running mean comes to it
        model.loss(*batch(600))
    x, _ = batch(6000)
    torch.manual_seed(5)
    pilots = Pilot(model.network, model.network.layers, x[:1], mask_rate=0.9, **SMALL, **settings)
    pilots.load_state_dict({k: v for k, v in model.state_dict().items() if k not in ("residual_variance", "started")})
    pilots.mask_prior.dense = as_dense
    residuals, added = inserted_noise(pilots, x), inserted_noise(model, x)
    assert set(residuals) == set(added) == {0, 1, 2}
    for layer in residuals:
        variances = residuals[layer].square().mean(0)
        assert variances.max() > 1.2 * variances.min()  # units differ
        torch.testing.assert_close(added[layer].square().mean(0), variances, rtol=0.2, atol=0)
        torch.testing.assert_close(model.residual_variance[model.dgm.slices[layer]], variances, rtol=0.2, atol=0)
        noise = (added[layer] - added[layer].mean(0)) / added[layer].std(0)
        correlations = (noise.T @ noise / len(noise) / noise.square().mean()).fill_diagonal_(0)
        assert correlations.abs().max() < 6 / len(noise) ** 0.5  # no structure is left


def test_units_without_masked_samples_keep_their_residual_variance(double):
    model = trained(Matched, 3)
    before = model.residual_variance.clone()
    x, y = batch(1)
    model.mask_prior.dense = True
    model.mask_rate = 1.0
    model.loss(x, y)
    changed = model.residual_variance != before
    layers = [changed[units] for units in model.dgm.slices]
    assert [layer.all() for layer in layers].count(True) == 1
    assert [layer.any() for layer in layers].count(True) == 1
    assert not layers[-1].any()  # the logits are never imputed


def test_no_gradient_passes_through_what_the_control_inserts():
    net, (x, y) = network(), batch(64)
    model = Matched(net, net.layers, x[:1], mask="a-drop", mask_rate=1.0, **SMALL)
    model.loss(x, y).cross_entropy.backward()
    assert net.logits.weight.grad.any()
    assert net.layer1.weight.grad is None or not net.layer1.weight.grad.any()
