"""Pilot with each of the four masks."""

from functools import partial
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from pilotstudy.arms.arm import Choice, Inputs, Range, Settings, Space
from pilotstudy.arms.catalogue import arm
from pilotstudy.arms.masks import MASKS

if TYPE_CHECKING:
    from pilotstudy.method.masks import MaskKind
    from pilotstudy.method.pilot import Pilot
    from pilotstudy.networks.network import Network

ORDER = 1


class PilotSettings(Settings):
    """`decoder_variance`, `sigma_mu` and `sigma_sigma` are the paper's; it does not state the others.

    `variance_in`: whether the decoder's variance is relative to the layer's running variance, as the noise arms', or in
    units of its raw values. `normalise`: whether the DGM sees activations centred by unit and scaled by layer; without
    it the variance is raw. `mask_schedule` annealed: the rate grows from 0 to `mask_rate` over the training.
    `dgm_layers`: the layers that the DGM sees and may mask: `all`, `penultimate`, or names with commas between them
    (`input` is the input). `dgm_view`: how it sees a layer: `units`, `pooled` (channel means), `projected` (64 random
    projections), or `auto`: units for the paper's networks, for others what keeps the DGM no larger than the network.
    """

    decoder_variance: float = Field(0.1, gt=0)
    variance_in: Literal["relative", "raw"] = "relative"
    mask_rate: float = Field(0.5, gt=0, le=1)
    mask_schedule: Literal["constant", "annealed"] = "constant"
    sigma_mu: float = Field(10.0, gt=0)
    sigma_sigma: float = Field(1.0, ge=0)
    dgm_learning_rate: float = Field(1e-3, gt=0)
    dgm_width: int = Field(256, ge=1)
    z: int = Field(32, ge=1)
    gradient_clip: float = Field(1000.0, gt=0)
    normalise: bool = True
    dgm_layers: str = Field("all", min_length=1)
    dgm_view: Literal["auto", "units", "pooled", "projected"] = "auto"

    @model_validator(mode="after")
    def _has_scales(self) -> "PilotSettings":
        if self.variance_in == "relative" and not self.normalise:
            raise ValueError('without normalise the DGM sees raw values: set variance_in = "raw", too')
        return self


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


def build_pilot(settings: PilotSettings, network: "Network", inputs: Inputs, mask: "MaskKind") -> "Pilot":
    from pilotstudy.method.pilot import Pilot

    return Pilot(network, inputs.layers, inputs.example, mask=mask, **settings.model_dump())


for _mask, _what in MASKS.items():
    arm(
        f"pilot-{_mask}",
        f"Pilot: {_what}",
        settings=PilotSettings,
        space=SPACE,
        modes=("point", "mc"),
        label=f"Pilot {_mask}",
        sampled_label=f"Pilot MC {_mask}",
        role="method",
        family="pilot",
    )(partial(build_pilot, mask=_mask))
