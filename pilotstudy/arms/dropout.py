"""Dropout of the hidden units, and MC dropout."""

from typing import TYPE_CHECKING

from pydantic import Field

from pilotstudy.arms.arm import Inputs, Range, Settings
from pilotstudy.arms.catalogue import arm

if TYPE_CHECKING:
    from pilotstudy.method.dropout import Dropout
    from pilotstudy.networks.network import Network

ORDER = 5


class DropoutSettings(Settings):
    """`rate`: the probability with which a unit is dropped."""

    rate: float = Field(0.5, ge=0, lt=1)


@arm(
    "dropout",
    "dropout of every hidden layer's units; MC dropout when sampled",
    settings=DropoutSettings,
    space={"rate": Range(0.1, 0.7)},
    modes=("point", "mc"),
    role="baseline",
    group="standard",
    nests=True,
)
def build_dropout(settings: DropoutSettings, network: "Network", inputs: Inputs) -> "Dropout":
    from pilotstudy.method.dropout import Dropout

    return Dropout(network, inputs.layers, inputs.example, rate=settings.rate)
