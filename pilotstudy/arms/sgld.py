"""Stochastic gradient Langevin dynamics."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from pilotstudy.arms.arm import Choice, Inputs, Range, Settings
from pilotstudy.arms.catalogue import arm

if TYPE_CHECKING:
    from pilotstudy.method.langevin import Langevin
    from pilotstudy.networks.network import Network

ORDER = 43


class SgldSettings(Settings):
    """`temperature`: 1 is the posterior, less a cold one, 0 plain descent. `prior_deviation`: of each parameter.

    `preconditioner`: rmsprop is pSGLD; without one, rates must be those of plain SGD. `start`: the share of the
    training from which on weights are kept, `snapshots` at most, each as large as the network, in checkpoints too.
    Temperature and prior: the best of seven by validation NLL on 10,000 images of CIFAR-10 (`mlp-512`).
    """

    preconditioner: Literal["none", "rmsprop"] = "rmsprop"
    temperature: float = Field(0.01, ge=0)
    prior_deviation: float = Field(1.0, gt=0)
    start: float = Field(0.7, ge=0, lt=1)
    snapshots: int = Field(20, ge=1)


@arm(
    "sgld",
    "Langevin dynamics: noisy steps that draw from the posterior, in place of the recipe's optimiser",
    settings=SgldSettings,
    space={
        "preconditioner": Choice(("none", "rmsprop")),
        "temperature": Range(1e-4, 1, log=True),
        "prior_deviation": Range(0.03, 3, log=True),
    },
    modes=("point", "mc"),
    label="SGLD",
    sampled_label="MC SGLD",
    group="bayesian",
)
def build_sgld(settings: SgldSettings, network: "Network", inputs: Inputs) -> "Langevin":
    from pilotstudy.method.langevin import Langevin

    return Langevin.build(settings, network, inputs)
