"""The paper's multi-layer perceptrons."""

from collections.abc import Sequence
from math import prod

from torch import nn

from pilotstudy.networks.network import Network, Shape


def mlp(
    shape: Shape,
    classes: int,
    *,
    hidden: Sequence[int] | None = None,
    width: int | None = None,
    depth: int | None = None,
    batchnorm: bool = False,
) -> Network:
    """A multi-layer perceptron with ReLUs. `hidden`: units of each layer; or `depth` layers (2) of `width` (1024)."""
    if hidden is not None and (width is not None or depth is not None):
        raise ValueError("give the units of each layer as `hidden`, or `width` and `depth`, not both")
    if hidden is None:
        hidden = [1024 if width is None else width] * (2 if depth is None else depth)
    if not hidden or min(hidden) < 1:
        raise ValueError(f"hidden layers of {list(hidden)} units: there must be one or more, each of 1 unit or more")
    network = Network([f"layer{i}" for i in range(1, len(hidden) + 1)])
    network.add_module("flatten", nn.Flatten())
    inputs = prod(shape)
    for name, units in zip(network.layers, hidden, strict=True):
        network.add_module(name, nn.Linear(inputs, units))
        if batchnorm:
            network.add_module(f"{name}_norm", nn.BatchNorm1d(units))
        network.add_module(f"{name}_relu", nn.ReLU())
        inputs = units
    network.add_module("logits", nn.Linear(inputs, classes))
    return network
