"""What an arm is.

Ours are declared, with `catalogue.arm`, in small files in this folder; a file is found by being there. Settings are
validated without importing torch; `build` imports the method when a trial needs it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from torch import Tensor

    from pilotstudy.method.regulariser import Regulariser


Mode = Literal["point", "mc"]
Role = Literal["method", "baseline", "reference"]
Setting = bool | int | float | str


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

    options: tuple[Setting, ...]


Space = Mapping[str, Range | Choice]


def widened(space: Space, start: Mapping[str, Setting]) -> Space:
    """The space, made wide enough to hold the settings that a search starts from."""
    wide: dict[str, Range | Choice] = {}
    for name, choice in space.items():
        value = start[name]
        if isinstance(choice, Choice):
            wide[name] = Choice(tuple(dict.fromkeys((*choice.options, value))))
        else:
            assert isinstance(value, int | float)
            low, high = min(choice.low, value), max(choice.high, value)
            wide[name] = Range(low, high, choice.log and (choice.whole or low > 0), choice.whole)
    return wide


@dataclass(frozen=True)
class Inputs:
    """What an arm may need to know of the data and the network: one example [1, C, H, W], how the inputs were scaled,
    the names of the network's layers in the order in which they run, and the number of training images.
    """

    example: "Tensor"
    mean: "Tensor"
    deviation: "Tensor"
    layers: Sequence[str] = ()
    train_size: int = 0


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What readers of results must know of an arm. It is kept with a run, so that they need not have the arm's code.

    `role`: what it is in a comparison. Methods are what a study is about; baselines are what they are compared with and
    what the paper's ensemble is made of; the reference is the baseline that stands for no method at all. An arm without
    a role has figures of its own and is no part of the ensemble or of `baselines`.
    """

    name: str
    label: str = ""  # in tables; by default the name with a capital
    sampled_label: str = ""  # in tables, when its predictions are sampled; by default MC and the label
    role: Role | None = None
    group: str = ""  # claims may be made against all arms of a group
    modes: tuple[Mode, ...] = ("point",)

    def __post_init__(self) -> None:
        label = self.label or self.name.capitalize()
        object.__setattr__(self, "label", label)
        object.__setattr__(self, "sampled_label", self.sampled_label or f"MC {label[0].lower()}{label[1:]}")

    @property
    def is_baseline(self) -> bool:
        return self.role in ("baseline", "reference")

    def declared(self) -> "Declared":
        """No more than this of it."""
        return Declared(**{each.name: getattr(self, each.name) for each in fields(Declared)})


@dataclass(frozen=True, kw_only=True)
class Arm(Declared):
    """A method under the name that users type."""

    about: str
    settings: type[Settings]
    space: Space
    build: "Callable[..., Regulariser]"  # of its settings, the network and `Inputs`
    network: Mapping[str, bool] = field(default_factory=dict)  # options of the network itself
    family: str = ""  # the heading of its settings in lists, which arms of one kind share; by default the name
    nests: bool = False  # whether it can act inside another arm: it changes nothing but the forward pass
    wraps: bool = False  # whether it acts on the loss of another arm, before which it stands in a composition
    source: str = ""  # the module that declares it

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "family", self.family or self.name)
