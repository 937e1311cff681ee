"""The recipe by which every arm of a study is trained: optimiser, schedule, augmentation, averaging, when to stop."""

import math
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from pilotstudy.errors import nearest
from pilotstudy.study.section import Section

Option = bool | int | float | tuple[float, ...]

# torch's optimisers by name, each with the options that it takes beside the rate and the weight decay.
OPTIMISERS: dict[str, dict[str, Option]] = {
    "adam": {"betas": (0.9, 0.999), "eps": 1e-8, "amsgrad": False},
    "adamw": {"betas": (0.9, 0.999), "eps": 1e-8, "amsgrad": False},
    "sgd": {"momentum": 0.9, "dampening": 0.0, "nesterov": False},
    "adadelta": {"rho": 0.9, "eps": 1e-6},
    "adagrad": {"lr_decay": 0.0, "initial_accumulator_value": 0.0, "eps": 1e-10},
    "adamax": {"betas": (0.9, 0.999), "eps": 1e-8},
    "asgd": {"lambd": 1e-4, "alpha": 0.75, "t0": 1e6},
    "nadam": {"betas": (0.9, 0.999), "eps": 1e-8, "momentum_decay": 4e-3},
    "radam": {"betas": (0.9, 0.999), "eps": 1e-8},
    "rmsprop": {"alpha": 0.99, "eps": 1e-8, "momentum": 0.0, "centered": False},
    "rprop": {"etas": (0.5, 1.2), "step_sizes": (1e-6, 50.0)},
}
NO_DECAY = ("rprop",)  # optimisers without weight decay


def named(value: object) -> object:
    """A text stands for the entry of that name with its defaults."""
    return {"name": value} if isinstance(value, str) else value


class Named(Section):
    """An entry of the recipe with a name, which may stand alone."""

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        return named(value)

    def check_options(self, own: Sequence[str], others: Sequence[str]) -> None:
        """Refuses those of `others` that were set although they belong to another name."""
        for option in others:
            if option not in own and getattr(self, option) != type(self).model_fields[option].default:
                raise ValueError(f"{getattr(self, 'name', '')!r} has no {option!r}")


class Optimiser(Section):
    """`name`: adam, adamw, sgd (with momentum 0.9), or another of torch's; `options`: its own, by torch's names."""

    name: str = "adam"
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _fold(cls, value: object) -> object:
        """In a file the options may stand beside the name."""
        value = named(value)
        if not isinstance(value, dict):
            return value
        name, options, rest = value.get("name", "adam"), value.get("options", {}), dict(value)
        known = OPTIMISERS.get(name, {}) if isinstance(name, str) else {}
        beside = {key: rest.pop(key) for key in list(rest) if key in known}
        return rest | {"options": {**options, **beside}} if isinstance(options, dict) else value

    @field_validator("name")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if name not in OPTIMISERS:
            raise ValueError(nearest(name, list(OPTIMISERS)))
        return name

    @model_validator(mode="after")
    def _takes(self) -> "Optimiser":
        known = OPTIMISERS.get(self.name, {})
        options = dict(self.options)
        for key, value in self.options.items():
            if key not in known:
                raise ValueError(f"{self.name} has no option {key!r}: {nearest(key, list(known))}")
            options[key] = _like(known[key], value, f"{self.name}.{key}")
        if self.name == "sgd":
            options.setdefault("momentum", OPTIMISERS["sgd"]["momentum"])
            if options.get("nesterov") and (not options["momentum"] or options.get("dampening")):
                raise ValueError("sgd.nesterov needs a momentum and no dampening")
        if self.name == "adadelta" and options.get("rho", 0) > 1:
            raise ValueError("adadelta.rho must be at most 1")
        if self.name == "rprop" and "etas" in options and not 0 < options["etas"][0] < 1 < options["etas"][1]:
            raise ValueError("rprop.etas must be a number between 0 and 1, and one above 1")
        object.__setattr__(self, "options", options)
        return self


def _like(default: Option, value: object, where: str) -> Option:
    """An option's value, of the kind that its default has, within what torch takes."""
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
        raise ValueError(f"{where} must be true or false")
    if isinstance(default, tuple):
        if isinstance(value, list | tuple) and len(value) == len(default) and all(map(_is_number, value)):
            numbers = tuple(map(float, value))
            if all(number >= 0 for number in numbers) and (not where.endswith("betas") or max(numbers) < 1):
                return numbers
        raise ValueError(f"{where} must be {len(default)} numbers, such as {list(default)}")
    if _is_number(value) and float(value) >= 0:  # type: ignore[arg-type]
        return float(value)  # type: ignore[arg-type]
    raise ValueError(f"{where} must be a number, 0 or more")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


OF_SCHEDULES = {
    "constant": (),
    "cosine": ("final",),
    "linear": ("final",),
    "step": ("milestones", "factor"),
    "one-cycle": ("peak",),
}


class Schedule(Named):
    """How the learning rate changes. `warmup`: epochs in which it first grows from 0, in proportion.

    constant; cosine and linear fall to `final` times the rate; step multiplies it by `factor` at each of `milestones`
    (shares of the training); one-cycle grows from a 25th of the rate to it until `peak` of the training and then falls
    to almost nothing, both as cosines.
    """

    name: Literal["constant", "cosine", "linear", "step", "one-cycle"] = "constant"
    warmup: float = Field(0.0, ge=0, strict=False)
    final: float = Field(0.0, ge=0, le=1, strict=False)
    milestones: tuple[float, ...] = Field((0.5, 0.75), strict=False)
    factor: float = Field(0.1, gt=0, le=1, strict=False)
    peak: float = Field(0.3, gt=0, lt=1, strict=False)

    @model_validator(mode="after")
    def _fits(self) -> "Schedule":
        self.check_options(OF_SCHEDULES[self.name], ("final", "milestones", "factor", "peak"))
        if self.name == "one-cycle" and self.warmup:
            raise ValueError("one-cycle warms up by itself: leave out 'warmup'")
        if list(self.milestones) != sorted(self.milestones) or not all(0 < m < 1 for m in self.milestones):
            raise ValueError("milestones must be shares of the training between 0 and 1, in order")
        return self


class Average(Named):
    """What is evaluated: the weights as they are, or averaged over training.

    ema: after every step, `decay` of the average and the rest of the weights (less at first). swa: the mean of the
    weights after each epoch from `start` (a share of the training) on; batch normalisation is fitted to it anew.
    """

    name: Literal["none", "ema", "swa"] = "none"
    decay: float = Field(0.999, gt=0, lt=1, strict=False)
    start: float = Field(0.75, ge=0, lt=1, strict=False)

    @model_validator(mode="after")
    def _fits(self) -> "Average":
        self.check_options({"ema": ("decay",), "swa": ("start",)}.get(self.name, ()), ("decay", "start"))
        return self


class Training(Section):
    """How every arm is trained; the defaults are the paper's.

    `weight_decay`: of the weights, not of biases and norms; with adamw decoupled, else ½‖W‖² beside the loss.
    `gradient_clip`: the largest norm of the network's gradient. `augmentation`: of the images, for all arms alike:
    paper (its colour shifts, rotations and flips) or flips-and-crops. `patience`: training ends when validation NLL has
    not improved for so many epochs; with swa, epochs before its start do not count. A DGM has an optimiser of its own:
    Adam at its own rate, on the same schedule.

    `precision` other than float32 is for CUDA: tf32 multiplies in TF32, bf16 trains under autocast. `cuda_graph`: on
    CUDA, steps are captured once and replayed, which saves the host's time for each of their launches.
    """

    epochs: int = Field(ge=1, le=100_000)
    batch_size: int = Field(128, ge=2, le=1_000_000)  # batch normalisation cannot take a batch of one
    learning_rate: float = Field(1e-3, gt=0)
    optimiser: Optimiser = Field(default_factory=lambda: Optimiser.model_validate({}))
    schedule: Schedule = Field(default_factory=lambda: Schedule.model_validate({}))
    weight_decay: float = Field(0.0, ge=0)
    gradient_clip: float | None = Field(None, gt=0)
    augmentation: Literal["none", "paper", "flips-and-crops"] = "none"
    average: Average = Field(default_factory=lambda: Average.model_validate({}))
    patience: int | None = Field(None, ge=1)
    precision: Literal["float32", "tf32", "bf16"] = "float32"
    cuda_graph: bool = False

    @model_validator(mode="after")
    def _fits(self) -> "Training":
        if self.schedule.warmup >= self.epochs:
            raise ValueError(f"schedule.warmup = {self.schedule.warmup:g} must be less than the {self.epochs} epochs")
        self.check_decay(self.weight_decay)
        return self

    def check_decay(self, weight_decay: float) -> None:
        """Refuses a weight decay, of the recipe or of an arm, that the optimiser would not heed."""
        if weight_decay and self.optimiser.name in NO_DECAY:
            raise ValueError(f"{self.optimiser.name} has no weight decay")


SEARCHED = {"learning_rate": float, "weight_decay": float, "gradient_clip": float, "batch_size": int}
PREFIX = "training."  # of the recipe's keys where they are searched


def with_recipe(training: Training, settings: "dict[str, Any]") -> Training:
    """The recipe with those of these settings that are the recipe's own."""
    changes = {key.removeprefix(PREFIX): value for key, value in settings.items() if key.startswith(PREFIX)}
    return Training.model_validate(training.model_dump() | changes) if changes else training
