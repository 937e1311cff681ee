"""Dropout of the hidden units, and MC dropout."""

from typing import Any

from pydantic import Field

from pilotstudy.arms import Arm, Inputs, Range, Settings

ORDER = 5


class DropoutSettings(Settings):
    rate: float = Field(0.5, ge=0, lt=1)


def build(settings: DropoutSettings, network: Any, inputs: Inputs) -> Any:
    from pilotstudy.method.noise import Dropout

    return Dropout(network, network.layers, inputs.example, rate=settings.rate)


ARMS = [
    Arm(
        "dropout",
        "dropout of every hidden layer's units; MC dropout when sampled",
        DropoutSettings,
        {"rate": Range(0.1, 0.7)},
        build,
        modes=("point", "mc"),
    )
]
