"""Networks of torchvision, timm and installed packages, by their names in a study."""

import subprocess
import sys

import pytest
import torch

from pilotstudy.errors import InputError
from pilotstudy.networks.catalogue import build_network, check_name
from pilotstudy.networks.layers import found_layers


@pytest.mark.parametrize(("name", "channels"), [("resnet18", 1), ("resnet18", 3), ("squeezenet1_1", 1)])
def test_torchvisions_take_any_channels_and_classes(name, channels):
    network = build_network(f"torchvision:{name}", (channels, 32, 32), 7)
    example = torch.rand(1, channels, 32, 32)
    assert network.eval()(example).shape == (1, 7)
    assert len(found_layers(network, example)) > 10


def test_options_reach_the_network():
    plain = build_network("torchvision:resnet18", (3, 32, 32), 4)
    wide = build_network("torchvision:resnet18", (3, 32, 32), 4, {"width_per_group": 64, "zero_init_residual": True})
    assert not wide.layer1[0].bn2.weight.any()
    assert plain.layer1[0].bn2.weight.all()


def test_timm_where_it_is_installed():
    pytest.importorskip("timm")
    network = build_network("timm:resnet10t", (1, 32, 32), 5)
    assert network.eval()(torch.rand(2, 1, 32, 32)).shape == (2, 5)
    with pytest.raises(InputError, match="timm has no network 'resnet10x'"):
        build_network("timm:resnet10x", (1, 32, 32), 5)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("torchvision:resnet19", {}, "torchvision has no network 'resnet19': did you mean"),
        ("torchvision:resnet18", {"nothing": 1}, "cannot be made: .*nothing"),
        ("torchvision:resnet18", {"batchnorm": True}, "no option batchnorm, which the arm of that name sets"),
        ("nowhere:make", {}, "there is no module 'nowhere'; name its file in `uses`, or install it"),
        ("json:make", {}, "the module 'json' has no 'make'"),
        ("json:__doc__", {}, "is no function"),
        ("mlp", {"hidden": [8], "wide": 3}, "cannot be made"),
    ],
)
def test_what_cannot_be_made_gets_one_line(name, options, says):
    with pytest.raises(InputError, match=says) as refused:
        build_network(name, (3, 32, 32), 4, options)
    assert "\n" not in str(refused.value)


def test_unknown_names_are_refused_with_what_there_is():
    with pytest.raises(InputError, match="did you mean 'resnet-20'"):
        check_name("resnet-2")
    with pytest.raises(InputError, match="module:function"):
        check_name("mine:")


PACKAGE = """
from torch import nn
import pilotstudy

@pilotstudy.metric("twice_nll", better="lower")
def twice_nll(points):
    return -2 * points.own_log_p

@pilotstudy.network("installed-net")
def make(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], 4), nn.Linear(4, classes))

@pilotstudy.arm("installed-arm", "of a package")
class Mine(pilotstudy.Regulariser):
    pass
"""


@pytest.mark.parametrize("text", [PACKAGE, "1 / 0"])
def test_a_package_with_an_entry_point_needs_no_uses_and_a_broken_one_costs_nobody_else(tmp_path, text):
    (tmp_path / "their_package.py").write_text(text)
    info = tmp_path / "their_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pilotstudy]\ntheirs = their_package\n")
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from pilotstudy.arms.catalogue import all_arms; from pilotstudy.networks.catalogue import network_names\n"
        "from pilotstudy.metrics.registry import METRICS\n"
        "print('installed-arm' in all_arms(), 'installed-net' in network_names(), 'twice_nll' in METRICS)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if text == PACKAGE:
        assert done.stdout.split() == ["True"] * 3
    else:
        assert done.stdout.split() == ["False"] * 3
        assert "the installed extension theirs (their_package) was left out: ZeroDivisionError" in done.stderr
