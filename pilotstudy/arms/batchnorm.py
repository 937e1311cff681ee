"""Batch normalisation of every hidden layer, with torch's default parameters."""

from typing import TYPE_CHECKING

from pilotstudy.arms.arm import Inputs, Settings
from pilotstudy.arms.catalogue import arm

if TYPE_CHECKING:
    from torch import nn

    from pilotstudy.method.regulariser import Regulariser

ORDER = 7


@arm(
    "batchnorm",
    "batch normalisation of every hidden layer",
    network={"batchnorm": True},
    label="Batch norm",
    role="baseline",
    group="standard",
    nests=True,
)
def build_batchnorm(settings: Settings, network: "nn.Module", inputs: Inputs) -> "Regulariser":
    from pilotstudy.method.regulariser import Regulariser

    return Regulariser(network)
