"""Which regulariser makes my network accurate and honest about its uncertainty, and is the difference real?"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pilotstudy.arms.arm import Choice, Inputs, Range, Settings
    from pilotstudy.arms.catalogue import arm
    from pilotstudy.method.dropout import Dropout
    from pilotstudy.method.noise import Noise
    from pilotstudy.method.pilot import Pilot
    from pilotstudy.method.regulariser import Loss, Regulariser
    from pilotstudy.metrics.computation import Points
    from pilotstudy.metrics.registry import metric
    from pilotstudy.networks.catalogue import network
    from pilotstudy.notebook import Run, Study, dashboard, load

__all__ = [
    "Choice",
    "Dropout",
    "InputError",
    "Inputs",
    "Loss",
    "Noise",
    "Pilot",
    "Points",
    "Range",
    "Regulariser",
    "Run",
    "Settings",
    "Study",
    "__version__",
    "arm",
    "dashboard",
    "load",
    "metric",
    "network",
]

__version__ = "0.2.0"

_HOMES = {
    "Choice": "arms.arm",
    "Dropout": "method.dropout",
    "InputError": "errors",
    "Inputs": "arms.arm",
    "Loss": "method.regulariser",
    "Noise": "method.noise",
    "Pilot": "method.pilot",
    "Points": "metrics.computation",
    "Range": "arms.arm",
    "Regulariser": "method.regulariser",
    "Run": "notebook",
    "Settings": "arms.arm",
    "Study": "notebook",
    "arm": "arms.catalogue",
    "dashboard": "notebook",
    "load": "notebook",
    "metric": "metrics.registry",
    "network": "networks.catalogue",
}


def __getattr__(name: str) -> Any:
    """Imported on first use, so that the command line starts without torch."""
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
