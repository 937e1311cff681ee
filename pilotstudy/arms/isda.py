"""ISDA: implicit semantic data augmentation."""

from typing import TYPE_CHECKING

from pydantic import Field

from pilotstudy.arms.arm import Inputs, Range, Settings
from pilotstudy.arms.catalogue import arm

if TYPE_CHECKING:
    from pilotstudy.method.isda import ISDA
    from pilotstudy.networks.network import Network

ORDER = 28


class ISDASettings(Settings):
    """`strength`: the paper's λ₀, which the augmentation's variance grows to over the training."""

    strength: float = Field(0.5, ge=0)


@arm(
    "isda",
    "features augmented along the directions in which those of their class vary, in closed form",
    settings=ISDASettings,
    space={"strength": Range(0.1, 2, log=True)},
    label="ISDA",
    group="modern",
)
def build_isda(settings: ISDASettings, network: "Network", inputs: Inputs) -> "ISDA":
    from pilotstudy.method.isda import ISDA

    return ISDA(network, inputs.example, strength=settings.strength)
