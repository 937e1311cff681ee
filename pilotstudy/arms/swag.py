"""SWAG: a Gaussian over the weights, fitted to those of the last epochs."""

from typing import TYPE_CHECKING

from pydantic import Field

from pilotstudy.arms.arm import Inputs, Range, Settings
from pilotstudy.arms.catalogue import arm

if TYPE_CHECKING:
    from pilotstudy.method.swag import Swag
    from pilotstudy.networks.network import Network

ORDER = 44


class SwagSettings(Settings):
    """`start`: the share of the training from which on epochs count.

    `rank`: how many deviations are kept, each as large as the network, in checkpoints too.
    """

    start: float = Field(0.5, ge=0, lt=1)
    rank: int = Field(20, ge=2)


@arm(
    "swag",
    "a Gaussian over the weights, fitted to those of the last epochs; their mean as the point",
    settings=SwagSettings,
    space={"start": Range(0.25, 0.9)},
    modes=("point", "mc"),
    label="SWAG",
    sampled_label="MC SWAG",
    group="bayesian",
)
def build_swag(settings: SwagSettings, network: "Network", inputs: Inputs) -> "Swag":
    from pilotstudy.method.swag import Swag

    return Swag.build(settings, network, inputs)
