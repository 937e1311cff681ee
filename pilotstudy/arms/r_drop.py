"""R-Drop: two passes of dropout that are to agree."""

from typing import TYPE_CHECKING

from pydantic import Field

from pilotstudy.arms.arm import Inputs, Range, Settings
from pilotstudy.arms.catalogue import arm

if TYPE_CHECKING:
    from pilotstudy.method.r_drop import RDrop
    from pilotstudy.networks.network import Network

ORDER = 24


class RDropSettings(Settings):
    """`rate`: the probability with which a unit is dropped. `alpha`: the coefficient of the passes' divergence.

    The paper's α is 0.6 for images and 5 for translation; its rates are 0.1 for large and 0.3 for small data.
    """

    rate: float = Field(0.3, ge=0, lt=1)
    alpha: float = Field(0.6, ge=0)


@arm(
    "r-drop",
    "dropout twice for each sample, with a penalty where the two predictions differ",
    settings=RDropSettings,
    space={"rate": Range(0.1, 0.7), "alpha": Range(0.1, 5, log=True)},
    modes=("point", "mc"),
    label="R-Drop",
    sampled_label="MC R-Drop",
    group="modern",
)
def build_r_drop(settings: RDropSettings, network: "Network", inputs: Inputs) -> "RDrop":
    from pilotstudy.method.r_drop import RDrop

    return RDrop(network, inputs.layers, inputs.example, **settings.model_dump())
