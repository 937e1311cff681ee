"""L2 regularisation of the weights."""

from typing import TYPE_CHECKING

from pydantic import Field

from pilotstudy.arms.arm import Inputs, Range, Settings
from pilotstudy.arms.catalogue import arm

if TYPE_CHECKING:
    from pilotstudy.method.regulariser import Regulariser
    from pilotstudy.networks.network import Network

ORDER = 6


class L2Settings(Settings):
    """`weight_decay` is the coefficient of ½‖W‖² beside the mean cross-entropy.

    The paper's λ = 0.1 taken so collapses (accuracy 0.25 on CIFAR-10), while its L2 rows equal vanilla. They fit a
    penalty λ‖W‖² beside the *summed* log-likelihood of 50,000 images: 2 · 0.1 / 50,000 = 4e-6, the default.
    """

    weight_decay: float = Field(4e-6, ge=0)


@arm(
    "l2",
    "an L2 penalty on the weights",
    settings=L2Settings,
    space={"weight_decay": Range(1e-6, 1e-2, log=True)},
    role="baseline",
    group="standard",
    nests=True,
)
def build_l2(settings: L2Settings, network: "Network", inputs: Inputs) -> "Regulariser":
    from pilotstudy.method.regulariser import Regulariser

    return Regulariser(network, weight_decay=settings.weight_decay)
