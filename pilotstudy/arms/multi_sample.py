"""Multi-sample dropout: several dropout masks of the last hidden layer in one step."""

from typing import TYPE_CHECKING

from pydantic import Field

from pilotstudy.arms.arm import Inputs, Range, Settings
from pilotstudy.arms.catalogue import arm

if TYPE_CHECKING:
    from pilotstudy.method.multi_sample import MultiSampleDropout
    from pilotstudy.networks.network import Network

ORDER = 26


class MultiSampleSettings(Settings):
    """`rate`: the probability with which a unit is dropped. `masks`: how many are drawn for each sample and step."""

    rate: float = Field(0.5, ge=0, lt=1)
    masks: int = Field(8, ge=1)


@arm(
    "multi-sample-dropout",
    "dropout of the last hidden layer with several masks for each sample",
    settings=MultiSampleSettings,
    space={"rate": Range(0.1, 0.7), "masks": Range(2, 16, log=True, whole=True)},
    modes=("point", "mc"),
    label="Multi-sample dropout",
    group="modern",
)
def build_multi_sample(settings: MultiSampleSettings, network: "Network", inputs: Inputs) -> "MultiSampleDropout":
    from pilotstudy.method.multi_sample import MultiSampleDropout

    return MultiSampleDropout(network, inputs.example, **settings.model_dump())
