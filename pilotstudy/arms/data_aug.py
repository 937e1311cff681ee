"""Data augmentation: colour shifts, rotations and flips."""

from typing import TYPE_CHECKING

from pydantic import Field

from pilotstudy.arms.arm import Inputs, Range, Settings
from pilotstudy.arms.catalogue import arm

if TYPE_CHECKING:
    from pilotstudy.method.augmentation import DataAugmentation
    from pilotstudy.networks.network import Network

ORDER = 8


class DataAugSettings(Settings):
    """`rate`: the probability of each change for each image. `colour_shift`: the largest, of a range of 0 to 1."""

    rate: float = Field(0.1, ge=0, le=1)
    colour_shift: float = Field(0.2, ge=0, le=1)
    degrees: float = Field(15.0, ge=0, le=180)


@arm(
    "data-aug",
    "colour shifts, rotations and flips of the images",
    settings=DataAugSettings,
    space={"rate": Range(0.05, 0.5), "colour_shift": Range(0.05, 0.5), "degrees": Range(5, 30)},
    label="Data aug",
    role="baseline",
    group="standard",
    nests=True,
)
def build_data_aug(settings: DataAugSettings, network: "Network", inputs: Inputs) -> "DataAugmentation":
    from pilotstudy.method.augmentation import DataAugmentation

    return DataAugmentation(network, mean=inputs.mean, deviation=inputs.deviation, **settings.model_dump())
