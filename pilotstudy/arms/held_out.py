"""Pilot whose DGM is fitted on images that the classifier does not train on: a control."""

from typing import TYPE_CHECKING

from pydantic import Field

from pilotstudy.arms.arm import Inputs
from pilotstudy.arms.catalogue import arm
from pilotstudy.arms.pilot import SPACE, PilotSettings

if TYPE_CHECKING:
    from pilotstudy.method.held_out import HeldOut
    from pilotstudy.networks.network import Network

ORDER = 11


class HeldOutSettings(PilotSettings):
    """`held_out`: the share of the training images that trains the DGM alone. The others are Pilot's."""

    held_out: float = Field(0.05, gt=0, le=0.5)


@arm(
    "pilot-held-out",
    "Pilot a-aug whose DGM is fitted on images that the classifier does not train on",
    settings=HeldOutSettings,
    space=SPACE,
    modes=("point", "mc"),
    label="Pilot held-out",
    sampled_label="Pilot MC held-out",
    group="control",
)
def build_held_out(settings: HeldOutSettings, network: "Network", inputs: Inputs) -> "HeldOut":
    from pilotstudy.method.held_out import HeldOut

    return HeldOut(network, inputs.layers, inputs.example, mask="a-aug", **settings.model_dump())
