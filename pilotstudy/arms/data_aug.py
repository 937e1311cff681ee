"""Data augmentation: colour shifts, rotations and flips."""

from typing import Any

from pydantic import Field

from pilotstudy.arms import Arm, Inputs, Range, Settings

ORDER = 8


class DataAugSettings(Settings):
    """`rate`: the probability of each change for each image. `colour_shift`: the largest, of a range of 0 to 1."""

    rate: float = Field(0.1, ge=0, le=1)
    colour_shift: float = Field(0.2, ge=0, le=1)
    degrees: float = Field(15.0, ge=0, le=180)


def build(settings: DataAugSettings, network: Any, inputs: Inputs) -> Any:
    from pilotstudy.method.augmentation import DataAugmentation

    return DataAugmentation(network, mean=inputs.mean, deviation=inputs.deviation, **settings.model_dump())


ARMS = [
    Arm(
        "data-aug",
        "colour shifts, rotations and flips of the images",
        DataAugSettings,
        {"rate": Range(0.05, 0.5), "colour_shift": Range(0.05, 0.5), "degrees": Range(5, 30)},
        build,
    )
]
