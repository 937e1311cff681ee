"""Controls for Pilot: blind, starved, its twin without a DGM, and the tricks that any arm can have."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from pilotstudy.arms.arm import Choice, Inputs, Range, Settings
from pilotstudy.arms.catalogue import arm
from pilotstudy.arms.pilot import SPACE, PilotSettings

if TYPE_CHECKING:
    from pilotstudy.method.blind import Blind
    from pilotstudy.method.difference import Difference
    from pilotstudy.method.passes import Passes
    from pilotstudy.method.star import Star
    from pilotstudy.networks.network import Network

ORDER = 10


@arm(
    "pilot-blind",
    "Pilot a-aug whose DGM sees nothing but the mask",
    settings=PilotSettings,
    space=SPACE,
    modes=("point", "mc"),
    label="Pilot blind",
    sampled_label="Pilot MC blind",
    group="control",
    family="pilot",
)
def build_blind(settings: PilotSettings, network: "Network", inputs: Inputs) -> "Blind":
    from pilotstudy.method.blind import Blind

    return Blind(network, inputs.layers, inputs.example, mask="a-aug", **settings.model_dump())


class DifferenceSettings(Settings):
    """`t`: the noise has t² times the covariance of images within their class."""

    t: float = Field(0.3, ge=0)


@arm(
    "difference",
    "noise at the input along differences of two images of one class",
    settings=DifferenceSettings,
    space={"t": Range(0.05, 1)},
    group="control",
)
def build_difference(settings: DifferenceSettings, network: "Network", inputs: Inputs) -> "Difference":
    from pilotstudy.method.difference import Difference

    return Difference(network, t=settings.t)


class StarSettings(Settings):
    """`t`: how far a draw goes from the image's own z (0) towards the prior (1). `prior`: one for all, or by class."""

    t: float = Field(0.3, ge=0, le=1)
    prior: Literal["common", "class"] = "common"
    dgm_width: int = Field(256, ge=1)
    z: int = Field(32, ge=1)
    dgm_learning_rate: float = Field(1e-3, gt=0)
    gradient_clip: float = Field(1000.0, gt=0)


@arm(
    "pilot-star",
    "Pilot at the input, starved: a DGM of the input alone, whose draws keep the image's own residual",
    settings=StarSettings,
    space={
        "t": Range(0.05, 1),
        "prior": Choice(("common", "class")),
        "dgm_learning_rate": Range(1e-4, 3e-3, log=True),
        "dgm_width": Range(32, 512, log=True, whole=True),
        "z": Range(8, 64, log=True, whole=True),
    },
    label="Pilot star",
    group="control",
)
def build_star(settings: StarSettings, network: "Network", inputs: Inputs) -> "Star":
    from pilotstudy.method.star import Star

    return Star.build(settings, network, inputs)


class PassesSettings(Settings):
    """`draws`: disturbed passes of each sample and step. `disturbed`: their share in the loss beside an undisturbed
    pass; `disturbed_schedule` annealed: it grows from 0 over the training. `consistency`: the coefficient of the
    symmetric divergence between them and the undisturbed pass.
    """

    draws: int = Field(1, ge=1)
    disturbed: float = Field(0.5, gt=0, le=1)
    disturbed_schedule: Literal["constant", "annealed"] = "constant"
    consistency: float = Field(0.0, ge=0)


@arm(
    "passes",
    "around another arm: several of its passes in a step, an undisturbed one beside them, and their consistency",
    settings=PassesSettings,
    space={
        "disturbed": Range(0.1, 1),
        "disturbed_schedule": Choice(("constant", "annealed")),
        "consistency": Range(0, 5),
    },
    group="control",
    wraps=True,
)
def build_passes(settings: PassesSettings, network: "Network", inputs: Inputs) -> "Passes":
    from pilotstudy.method.passes import Passes

    return Passes(network, **settings.model_dump())
