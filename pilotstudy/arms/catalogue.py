"""All arms by name: ours, of the files in this folder; those of installed packages; those of files that studies use."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, Union, get_args, get_origin

from pilotstudy import arms, extensions
from pilotstudy.arms.arm import Arm, Mode, Role, Setting, Settings, Space
from pilotstudy.errors import InputError, nearest, with_parentheses

if TYPE_CHECKING:
    from pilotstudy.method.regulariser import Regulariser

T = TypeVar("T", bound="Callable[..., Regulariser]")

NAME = r"[a-z0-9][a-z0-9_.-]{0,63}"
RESERVED = ("ensemble", "others", "baselines", "sampling", "training")  # rows, groups and sections of these names
ACTS_IN_FORWARD_ONLY = ("loss", "cross_entropy", "clip_gradients", "parameter_groups", "make_optimiser")

LAST = 1000  # after all of ours

_arms: dict[str, Arm] = {}


@with_parentheses
def arm(
    name: str,
    about: str = "",
    *,
    settings: type[Settings] | None = None,
    space: Space | None = None,
    modes: tuple[Mode, ...] = ("point",),
    network: Mapping[str, bool] | None = None,
    label: str = "",
    sampled_label: str = "",
    role: Role | None = None,
    group: str = "",
    family: str = "",
    nests: bool | None = None,
    wraps: bool = False,
) -> Callable[[T], T]:
    """Declares an arm: put it before a subclass of `Regulariser`, or a function that builds one.

    - A class has its settings in a class `Settings` within it, and is made as `class(network, **settings)`, or by its
      own `build(settings, network, inputs)`. A function takes these three.
    - `space`: what a search may choose for a setting, such as `{"rate": Range(0.1, 0.7)}`. `modes`: add "mc" where
      predictions can be sampled. `network`: options that it sets on the network. `role`, `group`: see `Declared`.
    - `nests`: whether it can act inside another arm; of a class, found out by itself. `wraps`: whether it acts on the
      loss of another arm.
    """

    def register(made: T) -> T:
        source = extensions.declaring_module()
        if not source.startswith(f"{arms.__name__}."):
            _orders()  # our own have their names first
        if isinstance(made, type) and not hasattr(made, "training_logits"):
            raise InputError(f"arm {name!r}: {made.__name__} must be a subclass of pilotstudy.Regulariser")
        if role not in (None, *get_args(Role)):
            raise InputError(f"arm {name!r}: its role must be one of {', '.join(get_args(Role))}, not {role!r}")
        if tuple(modes) not in (("point",), ("point", "mc")):
            raise InputError(f"arm {name!r}: its modes must be ('point',) or ('point', 'mc'), not {modes!r}")
        kind = settings or getattr(made, "Settings", None) or Settings
        if not (isinstance(kind, type) and issubclass(kind, Settings)):
            raise InputError(f"arm {name!r}: its settings must be a subclass of pilotstudy.Settings")
        _check(name, kind, space or {}, source)
        _check_group(name, group)
        is_class = isinstance(made, type)
        _arms[name] = Arm(
            name=name,
            about=about or (extensions.behind(made).__doc__ or "").strip().split("\n")[0].rstrip("."),
            settings=kind,
            space=dict(space or {}),
            build=getattr(made, "build", made) if is_class else made,
            modes=tuple(modes),
            network=dict(network or {}),
            label=label,
            sampled_label=sampled_label,
            role=role,
            group=group,
            family=family,
            nests=_acts_in_forward_only(made) if nests is None and isinstance(made, type) else bool(nests),
            wraps=wraps,
            source=source,
        )
        return made

    return register


def _check(name: str, settings: type[Settings], space: Space, source: str) -> None:
    if not re.fullmatch(NAME, name) or name in RESERVED:
        raise InputError(
            f"arm {name!r}: a name has lower-case letters, digits and dashes, and is none of {', '.join(RESERVED)}"
        )
    if name in {each.group for each in _arms.values()}:
        raise InputError(f"arm {name!r} has the name of a group of arms: choose another name")
    if name in _arms and _arms[name].source != source:
        raise InputError(f"there is an arm {name!r} already, of {_arms[name].source}: choose another name")
    for setting in space:
        if setting not in settings.model_fields:
            raise InputError(f"arm {name!r}: space has {setting!r}, which is none of its settings")
    for setting, described in settings.model_fields.items():
        if not _is_plain(described.annotation):
            raise InputError(f"arm {name!r}: its setting {setting!r} must be a number, a text, or true or false")
    for reserved in ("method", "label"):
        if reserved in settings.model_fields:
            raise InputError(f"arm {name!r}: {reserved!r} cannot be a setting: study files have another use for it")


def _check_group(name: str, group: str) -> None:
    """Claims name groups, arms and what is reserved in the same place, so that each name is one of them."""
    if group and (not re.fullmatch(NAME, group) or group in (*RESERVED, name, *_arms)):
        raise InputError(
            f"arm {name!r}: group = {group!r}: it has lower-case letters, digits and dashes, and is neither the name "
            f"of an arm nor one of {', '.join(RESERVED)}"
        )


def _is_plain(annotation: object) -> bool:
    """Whether values of this type can stand in a trial's record."""
    if get_origin(annotation) is Literal:
        return all(isinstance(value, Setting) for value in get_args(annotation))
    if get_origin(annotation) in (Annotated, Union, UnionType):
        parts = get_args(annotation)
        return all(map(_is_plain, parts[:1] if get_origin(annotation) is Annotated else parts))
    return isinstance(annotation, type) and issubclass(annotation, bool | int | float | str)


def _acts_in_forward_only(kind: type) -> bool:
    from pilotstudy.method.regulariser import Regulariser

    return all(getattr(kind, name) is getattr(Regulariser, name) for name in ACTS_IN_FORWARD_ONLY)


@extensions.on_forgetting
def _forget(source: str) -> None:
    for name in [name for name, each in _arms.items() if each.source == source]:
        del _arms[name]


@cache
def _orders() -> dict[str, int]:
    """The places of our own files in the paper's order; they declare their arms when they are imported here."""
    modules = [import_module(f"{arms.__name__}.{module.name}") for module in iter_modules(arms.__path__)]
    return {module.__name__: module.ORDER for module in modules if hasattr(module, "ORDER")}


def all_arms() -> dict[str, Arm]:
    """All arms by name: ours in the paper's order, then those that others have brought."""
    orders = _orders()
    extensions.load_installed()
    return dict(sorted(_arms.items(), key=lambda entry: orders.get(entry[1].source, LAST)))


def arm_named(name: str) -> Arm:
    """An arm by its name, or, as `first+second`, two or more of them composed."""
    if "+" in name:
        from pilotstudy.arms.composing import composed

        return composed([arm_named(part) for part in name.split("+")])
    known = all_arms()
    if name not in known:
        raise InputError(f"unknown arm {name!r}: {nearest(name, list(known))} `pilotstudy arms` lists them all.")
    return known[name]
