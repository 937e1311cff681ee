"""Mean-field variational inference."""

from typing import TYPE_CHECKING

from pydantic import Field

from pilotstudy.arms.arm import Inputs, Range, Settings
from pilotstudy.arms.catalogue import arm

if TYPE_CHECKING:
    from pilotstudy.method.mean_field import MeanField
    from pilotstudy.networks.network import Network

ORDER = 42


class MfviSettings(Settings):
    """`kl_weight`: 1 is the bound itself, less a cold posterior. `prior_deviation`: of each weight.

    `first_rho`: before training; a weight's deviation is softplus(ρ). Defaults: the mildest tempering among the best by
    validation NLL on 10,000 images of CIFAR-10 (`mlp-512`).
    """

    kl_weight: float = Field(0.1, ge=0)
    prior_deviation: float = Field(0.1, gt=0)
    first_rho: float = -5.0


@arm(
    "mfvi",
    "mean-field variational inference: a Gaussian for each weight",
    settings=MfviSettings,
    space={"kl_weight": Range(1e-3, 1, log=True), "prior_deviation": Range(0.01, 1, log=True)},
    modes=("point", "mc"),
    label="MFVI",
    sampled_label="MC MFVI",
    group="bayesian",
)
def build_mfvi(settings: MfviSettings, network: "Network", inputs: Inputs) -> "MeanField":
    from pilotstudy.method.mean_field import MeanField

    return MeanField.build(settings, network, inputs)
