"""Noisy addition and substitution under Pilot's masks, and addition without its gradient (appendix B)."""

from functools import partial
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from pilotstudy.arms.arm import Choice, Inputs, Range, Settings, Space
from pilotstudy.arms.catalogue import arm
from pilotstudy.arms.masks import MASKS

if TYPE_CHECKING:
    from pilotstudy.method.masks import MaskKind
    from pilotstudy.method.noise import Noise
    from pilotstudy.networks.network import Network

ORDER = 2

Kind = Literal["add", "sub"]


class NoiseSettings(Settings):
    """`variance` is that of the noise; the paper's is the decoder's, 0.1.

    `variance_in`: relative to the layer's running variance, as Pilot's, or in units of its raw values.
    """

    variance: float = Field(0.1, gt=0)
    variance_in: Literal["relative", "raw"] = "relative"
    mask_rate: float = Field(0.5, gt=0, le=1)
    mask_schedule: Literal["constant", "annealed"] = "constant"


SPACE: Space = {
    "variance": Range(0.01, 2, log=True),
    "mask_rate": Range(0.2, 0.95),
    "mask_schedule": Choice(("constant", "annealed")),
}


def build_noise(
    settings: NoiseSettings,
    network: "Network",
    inputs: Inputs,
    *,
    kind: Kind,
    mask: "MaskKind",
    stop_gradient: bool,
) -> "Noise":
    from pilotstudy.method.noise import Noise

    options = settings.model_dump()
    return Noise(network, inputs.layers, inputs.example, kind=kind, mask=mask, stop_gradient=stop_gradient, **options)


def declare(kind: Kind, mask: "MaskKind", about: str, *, stop_gradient: bool = False) -> None:
    which = f"{mask} (stop-gradient)" if stop_gradient else mask
    arm(
        f"{kind}-{mask}-stopgrad" if stop_gradient else f"{kind}-{mask}",
        f"{about}, with no gradient through it" if stop_gradient else about,
        settings=NoiseSettings,
        space=SPACE,
        modes=("point", "mc"),
        label=f"{kind.capitalize()} {which}",
        sampled_label=f"{kind.capitalize()} MC {which}",
        role="baseline",
        group="noise",
        family="add, sub",
        nests=True,
    )(partial(build_noise, kind=kind, mask=mask, stop_gradient=stop_gradient))


for _mask, _what in MASKS.items():
    declare("add", _mask, f"noise added where Pilot {_what}")
for _mask, _what in MASKS.items():
    declare("sub", _mask, f"noise substituted where Pilot {_what}")
declare("add", "a-aug", f"noise added where Pilot {MASKS['a-aug']}", stop_gradient=True)
declare("add", "a-drop", f"noise added where Pilot {MASKS['a-drop']}", stop_gradient=True)
