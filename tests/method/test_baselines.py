import pytest
import torch

from pilotstudy.method.augmentation import DataAugmentation, rotate
from pilotstudy.method.dropout import Dropout
from pilotstudy.method.noise import Noise
from pilotstudy.method.regulariser import Regulariser
from pilotstudy.networks.mlp import mlp


def seen_by_layers(regulariser, x: torch.Tensor) -> list[torch.Tensor]:
    """What each layer's activation function was given in one training pass, input first."""
    seen: list[torch.Tensor] = []
    net = regulariser.network
    hooks = [
        net.flatten.register_forward_pre_hook(lambda m, args: seen.append(args[0].flatten(1))),
        net.layer1_relu.register_forward_pre_hook(lambda m, args: seen.append(args[0])),
        net.layer2_relu.register_forward_pre_hook(lambda m, args: seen.append(args[0])),
    ]
    regulariser.training_logits(x)
    for hook in hooks:
        hook.remove()
    return seen


@pytest.mark.parametrize("mask", ["a-aug", "a-drop", "x-aug", "x-drop"])
@pytest.mark.parametrize("kind", ["add", "sub"])
def test_noise_is_added_or_substituted_where_the_mask_says(kind, mask):
    torch.manual_seed(0)
    net = mlp((1, 4, 4), 3, hidden=(200, 100))
    x = torch.randn(400, 1, 4, 4)
    noise = Noise(net, net.layers, x[:1], kind=kind, mask=mask, mask_rate=0.5, variance=4.0, variance_in="raw")
    seen = seen_by_layers(noise, x)
    previous = seen[0]
    for layer, h in enumerate(seen):
        u = (
            x.flatten(1)
            if layer == 0
            else (net.layer1, net.layer2)[layer - 1](previous.relu() if layer > 1 else previous)
        )
        previous = h
        changed = h != u
        share = 0.5 if mask.endswith("drop") or mask.startswith("x") else 0.5 / 3
        if layer and mask.startswith("x"):
            assert not changed.any()
            continue
        assert changed.float().mean().item() == pytest.approx(share, abs=0.12 if "aug" in mask else 0.05)
        if mask.endswith("aug"):
            rows = changed.float().mean(1)
            assert ((rows == 0) | (rows > 0.99)).all()
        difference = (h - u if kind == "add" else h)[changed]
        assert difference.std().item() == pytest.approx(2.0, rel=0.1)
        assert abs(difference.mean().item()) < 0.1


def test_gradients_flow_through_added_noise_unless_stopped():
    net = mlp((1, 4, 4), 3, hidden=(8, 8))
    x, y = torch.randn(32, 1, 4, 4), torch.arange(32) % 3
    gradients = {}
    for stop in False, True:
        noise = Noise(net, net.layers, x[:1], kind="add", mask="a-drop", mask_rate=1.0, stop_gradient=stop)
        net.zero_grad()
        noise.loss(x, y).total.backward()
        gradients[stop] = None if net.layer1.weight.grad is None else net.layer1.weight.grad.abs().sum().item()
        assert net.logits.weight.grad.any()
    assert gradients[False] > 0
    assert not gradients[True]


def test_dropout_before_a_relu_is_dropout_after_it():
    torch.manual_seed(0)
    net = mlp((1, 4, 4), 3, hidden=(300, 200))
    x = torch.randn(50, 1, 4, 4)
    dropout = Dropout(net, net.layers, x[:1], rate=0.3)
    inputs, first, second = seen_by_layers(dropout, x)
    assert torch.equal(inputs, x.flatten(1))
    u = net.layer1(x.flatten(1))
    kept = first != 0
    assert kept.float().mean().item() == pytest.approx(0.7, abs=0.02)
    torch.testing.assert_close(first, torch.where(kept, u / 0.7, 0.0))
    assert (second != 0).float().mean().item() == pytest.approx(0.7, abs=0.02)
    assert torch.equal(dropout.predict(x), net(x))


def test_weight_decay_is_the_gradient_of_half_the_squared_norm():
    net = mlp((1, 4, 4), 3, hidden=(8, 8))
    groups = Regulariser(net, weight_decay=0.25).parameter_groups(1e-3)
    assert {p.ndim for p in groups[0]["params"]} == {2}
    assert groups[0]["weight_decay"] == 0.25
    assert {p.ndim for p in groups[1]["params"]} == {1}
    assert "weight_decay" not in groups[1]
    assert len(groups[0]["params"]) + len(groups[1]["params"]) == len(list(net.parameters()))


def augmentation(**settings) -> DataAugmentation:
    net = mlp((3, 6, 6), 3, hidden=(4, 4))
    return DataAugmentation(
        net, mean=torch.tensor([0.5, 0.4, 0.3]), deviation=torch.tensor([0.2, 0.3, 0.4]), **settings
    )


def test_augmentation_changes_each_image_at_its_rate():
    torch.manual_seed(0)
    images = torch.rand(4000, 3, 6, 6)
    x = (images - torch.tensor([0.5, 0.4, 0.3]).view(-1, 1, 1)) / torch.tensor([0.2, 0.3, 0.4]).view(-1, 1, 1)
    torch.testing.assert_close(augmentation(rate=0.0).augment(x), x)
    flips = augmentation(rate=0.1, colour_shift=0.0, degrees=0.0).augment(x)
    flipped = (flips - x.flip(-1)).abs().amax((1, 2, 3)) < 1e-4
    same = (flips - x).abs().amax((1, 2, 3)) < 1e-4
    assert (flipped ^ same).all()
    assert flipped.float().mean().item() == pytest.approx(0.1, abs=0.02)
    changed = ((augmentation(rate=0.1).augment(x) - x).abs().amax((1, 2, 3)) > 1e-4).float().mean().item()
    assert changed == pytest.approx(1 - 0.9**3, abs=0.03)


def test_a_colour_shift_is_one_shift_a_channel_in_units_of_the_picture():
    torch.manual_seed(0)
    x = torch.zeros(500, 3, 6, 6)  # the mean colour, away from 0 and 1
    shifted = augmentation(rate=1.0, colour_shift=0.2, degrees=0.0).augment(x)
    shift = shifted * torch.tensor([0.2, 0.3, 0.4]).view(-1, 1, 1)
    assert shift.flatten(2).std(2).max() < 1e-6
    assert shift.abs().max() <= 0.2
    assert shift.abs().max() > 0.19


def test_rotations():
    picture = torch.arange(2 * 3 * 8 * 8, dtype=torch.float64).view(2, 3, 8, 8)
    quarter = rotate(picture, torch.tensor([torch.pi / 2, 0.0], dtype=torch.float64))
    assert quarter[0].allclose(torch.rot90(picture[0], 1, (1, 2))) or quarter[0].allclose(
        torch.rot90(picture[0], -1, (1, 2))
    )
    assert quarter[1].allclose(picture[1])
    wide = torch.zeros(1, 1, 4, 8, dtype=torch.float64)
    wide[..., 1:3, 3:5] = 1.0  # a square in the middle of a wide picture stays a square
    assert rotate(wide, torch.tensor([torch.pi / 2], dtype=torch.float64)).allclose(wide, atol=1e-9)
