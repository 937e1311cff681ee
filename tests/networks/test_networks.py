import pytest
import torch
from torch import nn

from pilotstudy.networks.layers import found_layers
from pilotstudy.networks.mlp import mlp
from pilotstudy.networks.resnet import resnet


def parameters(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


@pytest.mark.parametrize(
    ("depth", "known"),
    # The counts of option A; the two shortcuts of option B add 512 + 64 and 2048 + 128 to them.
    [(20, 269_722 + 2752), (32, 464_154 + 2752), (56, 853_018 + 2752), (18, 11_173_962)],
)
def test_parameters_are_as_many_as_is_known(depth, known):
    network = resnet((3, 32, 32), 10, depth=depth)
    assert parameters(network) == known
    convolutions = depth - 1 + (3 if depth == 18 else 2)
    assert len(network.layers) == convolutions


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 9, 13), (4, 28, 28)])
@pytest.mark.parametrize(("depth", "classes"), [(8, 2), (18, 5)])
@pytest.mark.parametrize("batchnorm", [True, False])
def test_resnets_take_any_image_and_name_their_layers_in_order(shape, depth, classes, batchnorm):
    torch.manual_seed(0)
    network = resnet(shape, classes, depth=depth, width=3, batchnorm=batchnorm)
    logits = network(torch.randn(2, *shape))
    assert logits.shape == (2, classes)
    assert found_layers(network, torch.randn(1, *shape)) == network.layers
    logits.sum().backward()
    assert network.logits.weight.grad.any()


def test_a_resnet_without_batch_normalisation_starts_as_its_shortcuts(double):
    torch.manual_seed(0)
    network = resnet((3, 8, 8), 4, depth=32, width=2, batchnorm=False)
    x = torch.randn(3, 3, 8, 8)
    h = network.first(x).relu()
    for block in network.blocks:
        h = block.shortcut(h).relu()
    torch.testing.assert_close(network(x), network.logits(h.mean((2, 3))))
    assert not any(isinstance(module, nn.BatchNorm2d) for module in network.modules())


@pytest.mark.parametrize(
    ("options", "said"),
    [({"depth": 19}, "depth 19: choose 18"), ({"depth": 2}, "depth 2"), ({"width": 0}, "width 0")],
)
def test_resnets_that_do_not_exist_are_told(options, said):
    with pytest.raises(ValueError, match=said):
        resnet((3, 8, 8), 4, **options)
    with pytest.raises(ValueError, match="7×32 are too small"):
        resnet((3, 7, 32), 4)


def test_mlps_of_any_depth_and_width():
    assert [layer.out_features for layer in mlp((1, 2, 2), 3, width=7, depth=3) if isinstance(layer, nn.Linear)] == [
        7,
        7,
        7,
        3,
    ]
    torch.manual_seed(0)
    by_hidden = mlp((1, 2, 2), 3, hidden=(6, 6))
    torch.manual_seed(0)
    by_width = mlp((1, 2, 2), 3, width=6, depth=2)
    assert all(torch.equal(a, b) for a, b in zip(by_hidden.parameters(), by_width.parameters(), strict=True))
    for options, said in (
        ({"hidden": (3,), "width": 4}, "not both"),
        ({"hidden": ()}, "one or more"),
        ({"width": 0}, "1 unit"),
    ):
        with pytest.raises(ValueError, match=said):
            mlp((1, 2, 2), 3, **options)
