"""Variational Gaussian dropout, with Kingma's approximation of its KL and with Molchanov's."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from pilotstudy.arms.arm import Choice, Inputs, Range, Settings, Space
from pilotstudy.arms.catalogue import arm

if TYPE_CHECKING:
    from pilotstudy.method.learned_dropout import GaussianDropout, VariationalDropout
    from pilotstudy.networks.network import Network

ORDER = 41


class GaussianDropoutSettings(Settings):
    """`kl_weight`: 1 is the bound itself. `per`: what has a variance α of its own. `first_alpha`: before training.

    Defaults: the best by validation NLL on 10,000 images of CIFAR-10 (`mlp-512`), of which the bound itself under-fits.
    """

    kl_weight: float = Field(0.01, ge=0)
    per: Literal["layer", "unit"] = "unit"
    first_alpha: float = Field(0.1, gt=0, le=1)


SPACE: Space = {"kl_weight": Range(1e-3, 1, log=True), "per": Choice(("layer", "unit"))}


@arm(
    "gaussian-dropout",
    "Gaussian noise on hidden units, of a learnt variance α up to 1 (Kingma)",
    settings=GaussianDropoutSettings,
    space=SPACE,
    modes=("point", "mc"),
    label="Gaussian dropout",
    sampled_label="MC Gaussian dropout",
    group="bayesian",
    family="gaussian-dropout, variational-dropout",
)
def build_gaussian_dropout(settings: GaussianDropoutSettings, network: "Network", inputs: Inputs) -> "GaussianDropout":
    from pilotstudy.method.learned_dropout import GaussianDropout

    return GaussianDropout.build(settings, network, inputs)


@arm(
    "variational-dropout",
    "Gaussian noise on hidden units, of any learnt variance α (Molchanov)",
    settings=GaussianDropoutSettings,
    space=SPACE,
    modes=("point", "mc"),
    label="Variational dropout",
    group="bayesian",
    family="gaussian-dropout, variational-dropout",
)
def build_variational_dropout(
    settings: GaussianDropoutSettings, network: "Network", inputs: Inputs
) -> "VariationalDropout":
    from pilotstudy.method.learned_dropout import VariationalDropout

    return VariationalDropout.build(settings, network, inputs)
