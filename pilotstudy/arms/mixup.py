"""Mixup, manifold mixup and RegMixup: pairs of samples are mixed, and so are their labels."""

from typing import TYPE_CHECKING

from pydantic import Field

from pilotstudy.arms.arm import Inputs, Range, Settings
from pilotstudy.arms.catalogue import arm

if TYPE_CHECKING:
    from pilotstudy.method.mixup import ManifoldMixup, Mixup, RegMixup
    from pilotstudy.networks.network import Network

ORDER = 22


class MixupSettings(Settings):
    """`alpha`: a sample's share in its mixture is drawn from Beta(alpha, alpha): near 0 or 1 where alpha is small.

    The paper trains with 0.1 to 0.4 on ImageNet, and with 1 on CIFAR.
    """

    alpha: float = Field(0.2, gt=0)


class ManifoldMixupSettings(Settings):
    """`alpha`: as in mixup."""

    alpha: float = Field(2.0, gt=0)


class RegMixupSettings(Settings):
    """`alpha`: as in mixup. `eta`: the coefficient of the mixed loss beside the clean one."""

    alpha: float = Field(20.0, gt=0)
    eta: float = Field(1.0, ge=0)


@arm(
    "mixup",
    "trains on mixtures of two images and of their labels",
    settings=MixupSettings,
    space={"alpha": Range(0.1, 2, log=True)},
    group="modern",
)
def build_mixup(settings: MixupSettings, network: "Network", inputs: Inputs) -> "Mixup":
    from pilotstudy.method.mixup import Mixup

    return Mixup(network, alpha=settings.alpha)


@arm(
    "manifold-mixup",
    "mixup of the input or of a hidden layer, drawn for each batch",
    settings=ManifoldMixupSettings,
    space={"alpha": Range(0.1, 4, log=True)},
    label="Manifold mixup",
    group="modern",
)
def build_manifold_mixup(settings: ManifoldMixupSettings, network: "Network", inputs: Inputs) -> "ManifoldMixup":
    from pilotstudy.method.mixup import ManifoldMixup

    return ManifoldMixup(network, inputs.layers, inputs.example, alpha=settings.alpha)


@arm(
    "regmixup",
    "mixup beside the clean loss",
    settings=RegMixupSettings,
    space={"alpha": Range(5, 30, log=True), "eta": Range(0.1, 2, log=True)},
    label="RegMixup",
    group="modern",
)
def build_regmixup(settings: RegMixupSettings, network: "Network", inputs: Inputs) -> "RegMixup":
    from pilotstudy.method.mixup import RegMixup

    return RegMixup(network, **settings.model_dump())
