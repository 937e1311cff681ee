"""No regularisation."""

from typing import Any

from pilotstudy.arms import Arm, Inputs, Settings

ORDER = 0


def build(settings: Settings, network: Any, inputs: Inputs) -> Any:
    from pilotstudy.method.regulariser import Regulariser

    return Regulariser(network)


ARMS = [Arm("vanilla", "the network with no regularisation", Settings, {}, build)]
