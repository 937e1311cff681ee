"""Concrete dropout: dropout whose rates are learnt."""

from typing import TYPE_CHECKING

from pydantic import Field

from pilotstudy.arms.arm import Inputs, Range, Settings
from pilotstudy.arms.catalogue import arm

if TYPE_CHECKING:
    from pilotstudy.method.learned_dropout import ConcreteDropout
    from pilotstudy.networks.network import Network

ORDER = 40


class ConcreteDropoutSettings(Settings):
    """`length_scale`: the prior's ℓ: the larger, the stronger the weights' decay. `first_rate`: before training."""

    length_scale: float = Field(0.01, ge=0)
    first_rate: float = Field(0.1, gt=0, lt=1)


@arm(
    "concrete-dropout",
    "dropout with a rate for each layer that is learnt",
    settings=ConcreteDropoutSettings,
    space={"length_scale": Range(1e-4, 1, log=True)},
    modes=("point", "mc"),
    label="Concrete dropout",
    group="bayesian",
)
def build_concrete_dropout(settings: ConcreteDropoutSettings, network: "Network", inputs: Inputs) -> "ConcreteDropout":
    from pilotstudy.method.learned_dropout import ConcreteDropout

    return ConcreteDropout.build(settings, network, inputs)
