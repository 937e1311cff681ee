"""The Laplace approximation of the last layer."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from pilotstudy.arms.arm import Inputs, Settings
from pilotstudy.arms.catalogue import arm

if TYPE_CHECKING:
    from pilotstudy.method.laplace import Laplace
    from pilotstudy.networks.network import Network

ORDER = 45


class LaplaceSettings(Settings):
    """`prior_precision`: of each weight of the last layer; fitted: by the training images' marginal likelihood."""

    prior_precision: Annotated[float, Field(gt=0)] | Literal["fitted"] = "fitted"


@arm(
    "laplace",
    "the network with no regularisation; sampled, a Gaussian over the last layer's weights",
    settings=LaplaceSettings,
    modes=("point", "mc"),
    label="Laplace",
    sampled_label="MC Laplace",
    group="bayesian",
    nests=True,
)
def build_laplace(settings: LaplaceSettings, network: "Network", inputs: Inputs) -> "Laplace":
    from pilotstudy.method.laplace import Laplace

    return Laplace.build(settings, network, inputs)
