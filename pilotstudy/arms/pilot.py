"""Pilot with each of the four masks."""

from functools import partial
from typing import Any, Literal

from pydantic import Field

from pilotstudy.arms import Arm, Choice, Inputs, Range, Settings, Space

ORDER = 1


class PilotSettings(Settings):
    """`decoder_variance`, `sigma_mu` and `sigma_sigma` are the paper's; it does not state the others.

    `normalise`: whether the DGM sees activations centred by unit and scaled by layer; then the decoder's variance is
    in those units. `mask_schedule` annealed: the rate grows from 0 to `mask_rate` over the training.
    """

    decoder_variance: float = Field(0.1, gt=0)
    mask_rate: float = Field(0.5, gt=0, le=1)
    mask_schedule: Literal["constant", "annealed"] = "constant"
    sigma_mu: float = Field(10.0, gt=0)
    sigma_sigma: float = Field(1.0, ge=0)
    dgm_learning_rate: float = Field(1e-3, gt=0)
    dgm_width: int = Field(256, ge=1)
    z: int = Field(32, ge=1)
    gradient_clip: float = Field(1000.0, gt=0)
    normalise: bool = True


SPACE: Space = {
    "decoder_variance": Range(0.01, 2, log=True),
    "mask_rate": Range(0.2, 0.95),
    "mask_schedule": Choice(("constant", "annealed")),
    "sigma_mu": Range(1, 100, log=True),
    "sigma_sigma": Range(0.1, 10, log=True),
    "dgm_learning_rate": Range(1e-4, 3e-3, log=True),
    "dgm_width": Range(32, 512, log=True, whole=True),
    "z": Range(8, 64, log=True, whole=True),
}

MASKS = {
    "a-aug": "imputes one whole layer of a sample",
    "a-drop": "imputes units of all layers",
    "x-aug": "imputes the whole input of a sample",
    "x-drop": "imputes units of the input",
}


def build(settings: PilotSettings, network: Any, inputs: Inputs, mask: Any) -> Any:
    from pilotstudy.method.pilot import Pilot

    return Pilot(network, network.layers, inputs.example, mask=mask, **settings.model_dump())


ARMS = [
    Arm(f"pilot-{mask}", f"Pilot: {what}", PilotSettings, SPACE, partial(build, mask=mask), modes=("point", "mc"))
    for mask, what in MASKS.items()
]
