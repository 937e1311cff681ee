"""The arms: every method of the paper under the name that users type.

An arm is one small file in this folder with a list `ARMS`; it is found by being there. Its settings are validated
without importing torch; `build` imports the method when a trial needs it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from pilotstudy.errors import InputError, nearest

if TYPE_CHECKING:
    from torch import Tensor

    from pilotstudy.method.regulariser import Regulariser
    from pilotstudy.networks import Network

Mode = Literal["point", "mc"]


class Settings(BaseModel):
    """The settings of an arm; their defaults are the paper's."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


@dataclass(frozen=True)
class Range:
    """What a search may choose for one setting: an interval, linear or logarithmic, of whole or real numbers."""

    low: float
    high: float
    log: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Choice:
    """What a search may choose for one setting: one of these."""

    options: tuple[Any, ...]


Space = Mapping[str, Range | Choice]


def widened(space: Space, start: Mapping[str, Any]) -> Space:
    """The space, made wide enough to hold the settings that a search starts from."""
    found: dict[str, Range | Choice] = {}
    for name, choice in space.items():
        if isinstance(choice, Choice):
            found[name] = Choice(tuple(dict.fromkeys((*choice.options, start[name]))))
        else:
            low, high = min(choice.low, start[name]), max(choice.high, start[name])
            found[name] = Range(low, high, choice.log and (choice.whole or low > 0), choice.whole)
    return found


@dataclass(frozen=True)
class Inputs:
    """What an arm may need to know of the data: one example [1, C, H, W] and how the inputs were scaled."""

    example: "Tensor"
    mean: "Tensor"
    deviation: "Tensor"


@dataclass(frozen=True)
class Arm:
    name: str
    about: str
    settings: type[Settings]
    space: Space
    build: "Callable[[Any, Network, Inputs], Regulariser]"
    modes: tuple[Mode, ...] = ("point",)
    network: Mapping[str, Any] = field(default_factory=dict)  # options of the network itself


@cache
def arms() -> dict[str, Arm]:
    """All arms by name, in the order of their files' `ORDER`, which is the paper's."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    modules.sort(key=lambda module: module.ORDER)
    return {arm.name: arm for module in modules for arm in module.ARMS}


def get(name: str) -> Arm:
    if name not in arms():
        raise InputError(f"unknown arm {name!r}: {nearest(name, list(arms()))} `pilotstudy arms` lists them all.")
    return arms()[name]
