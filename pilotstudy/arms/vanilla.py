"""No regularisation."""

from typing import TYPE_CHECKING

from pilotstudy.arms.arm import Inputs, Settings
from pilotstudy.arms.catalogue import arm

if TYPE_CHECKING:
    from pilotstudy.method.regulariser import Regulariser
    from pilotstudy.networks.network import Network

ORDER = 0


@arm("vanilla", "the network with no regularisation", role="reference")
def build_unregularised(settings: Settings, network: "Network", inputs: Inputs) -> "Regulariser":
    from pilotstudy.method.regulariser import Regulariser

    return Regulariser(network)
