"""SAM: sharpness-aware minimisation."""

from typing import TYPE_CHECKING

from pydantic import Field

from pilotstudy.arms.arm import Inputs, Range, Settings
from pilotstudy.arms.catalogue import arm

if TYPE_CHECKING:
    from pilotstudy.method.sam import SAM
    from pilotstudy.networks.network import Network

ORDER = 30


class SAMSettings(Settings):
    """`rho`: how far the weights are moved up the gradient before the gradient of the step is taken."""

    rho: float = Field(0.05, ge=0)


@arm(
    "sam",
    "the gradient is taken where the loss near the weights is highest",
    settings=SAMSettings,
    space={"rho": Range(0.01, 0.5, log=True)},
    label="SAM",
    group="modern",
)
def build_sam(settings: SAMSettings, network: "Network", inputs: Inputs) -> "SAM":
    from pilotstudy.method.sam import SAM

    return SAM(network, rho=settings.rho)
