"""Noisy addition with as much noise in each unit as Pilot's imputations have: a control."""

from typing import TYPE_CHECKING

from pilotstudy.arms.arm import Inputs
from pilotstudy.arms.catalogue import arm
from pilotstudy.arms.pilot import SPACE, PilotSettings

if TYPE_CHECKING:
    from pilotstudy.method.matched import Matched
    from pilotstudy.networks.network import Network

ORDER = 9


@arm(
    "add-matched",
    "noise added where Pilot imputes one whole layer of a sample, of the variance of Pilot's residuals in each unit",
    settings=PilotSettings,
    space=SPACE,
    modes=("point", "mc"),
    label="Add matched",
    sampled_label="Add MC matched",
    group="control",
    family="pilot",
)
def build_matched(settings: PilotSettings, network: "Network", inputs: Inputs) -> "Matched":
    from pilotstudy.method.matched import Matched

    return Matched(network, inputs.layers, inputs.example, mask="a-aug", **settings.model_dump())
