"""Noisy addition and substitution under Pilot's masks, and addition without its gradient (appendix B)."""

from functools import partial
from typing import Any, Literal

from pydantic import Field

from pilotstudy.arms import Arm, Choice, Inputs, Range, Settings, Space
from pilotstudy.arms.pilot import MASKS

ORDER = 2


class NoiseSettings(Settings):
    """`variance` is that of the noise, in units of the raw activations; the paper's is the decoder's, 0.1."""

    variance: float = Field(0.1, gt=0)
    mask_rate: float = Field(0.5, gt=0, le=1)
    mask_schedule: Literal["constant", "annealed"] = "constant"


SPACE: Space = {
    "variance": Range(0.01, 30, log=True),
    "mask_rate": Range(0.2, 0.95),
    "mask_schedule": Choice(("constant", "annealed")),
}


def build(settings: NoiseSettings, network: Any, inputs: Inputs, **options: Any) -> Any:
    from pilotstudy.method.noise import Noise

    return Noise(network, network.layers, inputs.example, **options, **settings.model_dump())


def arm(kind: str, mask: str, what: str, stop_gradient: bool = False) -> Arm:
    name = f"{kind}-{mask}" + ("-stopgrad" if stop_gradient else "")
    about = what + (", with no gradient through it" if stop_gradient else "")
    build_it = partial(build, kind=kind, mask=mask, stop_gradient=stop_gradient)
    return Arm(name, about, NoiseSettings, SPACE, build_it, modes=("point", "mc"))


ARMS = [
    *(arm("add", mask, f"noise added where Pilot {what}") for mask, what in MASKS.items()),
    *(arm("sub", mask, f"noise substituted where Pilot {what}") for mask, what in MASKS.items()),
    arm("add", "a-aug", "noise added where Pilot imputes one whole layer of a sample", stop_gradient=True),
    arm("add", "a-drop", "noise added where Pilot imputes units of all layers", stop_gradient=True),
]
