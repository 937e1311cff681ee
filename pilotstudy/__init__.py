"""Which regulariser makes my network accurate and honest about its uncertainty, and is the difference real?"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pilotstudy.method.noise import Dropout, Noise
    from pilotstudy.method.pilot import Pilot
    from pilotstudy.results import load

__all__ = ["Dropout", "Noise", "Pilot", "__version__", "load"]

__version__ = "0.1.0"

_HOMES = {
    "Dropout": "pilotstudy.method.noise",
    "Noise": "pilotstudy.method.noise",
    "Pilot": "pilotstudy.method.pilot",
    "load": "pilotstudy.results",
}


def __getattr__(name: str) -> Any:
    """Imported on first use, so that the command line starts without torch."""
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
