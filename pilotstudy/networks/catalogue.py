"""The networks by the names that study files use: ours, torchvision's, timm's, and those that users bring."""

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module, metadata
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, TypeVar

from pilotstudy import extensions
from pilotstudy.errors import InputError, nearest, with_parentheses

if TYPE_CHECKING:
    from torch import nn

    from pilotstudy.networks.network import Shape

Option = bool | int | float | str | list["Option"] | tuple["Option", ...]
Make = Callable[..., "nn.Module"]  # of shape, classes and options
T = TypeVar("T", bound=Make)

# Each is made by the function of its module's own name, with these options.
NETWORKS: dict[str, tuple[str, dict[str, Option]]] = {
    "mlp-1024": ("mlp", {"hidden": (1024, 1024)}),
    "mlp-512": ("mlp", {"hidden": (512, 512)}),
    "mlp": ("mlp", {}),
    "cnn": ("cnn", {}),
    "resnet-20": ("resnet", {"depth": 20}),
    "resnet-18": ("resnet", {"depth": 18}),
    "resnet": ("resnet", {}),
}
LARGEST = 2**30  # weights of a network of ours
LIBRARIES = ("torchvision", "timm")

_brought: dict[str, Make] = {}
_declared_in: dict[str, str] = {}  # by name, the module that declares it


@with_parentheses
def network(name: str) -> Callable[[T], T]:
    """Declares a network: put it before a function `make(shape, classes, **options)` that returns a torch module.

    Its linear and convolutional layers are found, unless the module has an attribute `layers` with their names.
    """

    def register(make: T) -> T:
        source = extensions.declaring_module()
        if name in NETWORKS or _declared_in.get(name, source) != source:
            raise InputError(f"there is a network {name!r} already: choose another name")
        if ":" in name:
            raise InputError(f"network {name!r}: a name has no colon")
        _brought[name], _declared_in[name] = make, source
        return make

    return register


@extensions.on_forgetting
def _forget(source: str) -> None:
    for name in networks_of(source):
        del _brought[name], _declared_in[name]


def network_names() -> list[str]:
    """Those that have a name of their own."""
    extensions.load_installed()
    return [*NETWORKS, *_brought]


def networks_of(source: str) -> list[str]:
    """The names that a module has declared."""
    return [name for name, module in _declared_in.items() if module == source]


def declared_in(name: str) -> str:
    """The module that declares a network of that name; empty for ours, and where nobody does."""
    return _declared_in.get(name, "")


def check_name(name: str) -> None:
    """Refuses what cannot be the name of a network."""
    if name in network_names():
        return
    library, colon, what = name.partition(":")
    if colon and library and what:
        return
    raise InputError(
        f"{nearest(name, network_names())} Or one of your own: `module:function`, `torchvision:NAME`, `timm:NAME`"
    )


def build_network(name: str, shape: "Shape", classes: int, options: Mapping[str, Option] | None = None) -> "nn.Module":
    """A network by its name, with options of the study's, and those that an arm sets, such as batch normalisation."""
    from torch import nn

    given = dict(options or {})
    made = _call(name, shape, classes, given)
    if not isinstance(made, nn.Module):
        raise InputError(f"network {name!r} gave a {type(made).__name__}, not a torch module")
    return made


def _call(name: str, shape: "Shape", classes: int, options: dict[str, Option]) -> object:
    library, _, what = name.partition(":")
    if name in NETWORKS:
        module, own = NETWORKS[name]
        make: Callable[..., object] = getattr(import_module(f"pilotstudy.networks.{module}"), module)
        if (weights := _about(shape, own | options)) > LARGEST:
            raise InputError(f"network {name!r} would have about {weights:.0e} weights: give it smaller options")
        return _called(name, make, shape, classes, own | options)
    if library in LIBRARIES:
        from pilotstudy.networks import libraries

        return _called(name, getattr(libraries, library), what, shape, classes, options)
    return _called(name, maker(name), shape, classes, options)


def _about(shape: "Shape", options: Mapping[str, Option]) -> float:
    """Roughly how many weights one of ours has: what no machine has room for is not tried."""
    hidden, width, depth = (options.get(name) for name in ("hidden", "width", "depth"))
    listed = [each for each in hidden if isinstance(each, int)] if isinstance(hidden, list | tuple) else []
    dense = sum(inputs * units for inputs, units in pairwise([prod(shape), *listed]))
    square = (width if isinstance(width, int) else 16) ** 2
    return float(dense + square * (depth if isinstance(depth, int) else 1))


def _called(name: str, make: Callable[..., object], *given: object) -> object:
    *arguments, options = given
    assert isinstance(options, dict)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries, about defaults that will change
            return make(*arguments, **options)
    except InputError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        if "batchnorm" in options and "batchnorm" in str(error):
            reason = "it has no option batchnorm, which the arm of that name sets: leave that arm out"
        raise InputError(f"network {name!r} cannot be made: {reason}") from error


def maker(name: str) -> Make:
    """The function that makes a network of a user's own: declared under a name, or `module:function`."""
    if name in network_names():
        return _brought[name]
    module, _, function = name.partition(":")
    try:
        made = getattr(sys.modules.get(module) or import_module(module), function)
    except ImportError as error:
        raise InputError(
            f"network {name!r}: there is no module {module!r}; name its file in `uses`, or install it"
        ) from error
    except AttributeError as error:
        raise InputError(f"network {name!r}: the module {module!r} has no {function!r}") from error
    except (Exception, SystemExit) as error:  # of the module's own code, or not the name of a module at all
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise InputError(f"network {name!r}: the module {module!r} cannot be imported: {reason}") from error
    if not callable(made):
        raise InputError(f"network {name!r}: {function!r} is no function")
    maker: Make = made
    return maker


def is_brought(name: str) -> bool:
    """Whether a user brought it: it is none of ours, nor of a library's."""
    return name not in NETWORKS and name.partition(":")[0] not in LIBRARIES


def source_of_network(name: str) -> tuple[str, str]:
    """Where its code is: a module and the name in it, or a library and its version."""
    library, _, _ = name.partition(":")
    if name in NETWORKS:
        module = NETWORKS[name][0]
        return f"pilotstudy.networks.{module}", module
    if library in LIBRARIES:
        return library, metadata.version(library) if _is_installed(library) else ""
    return extensions.source_of(maker(name))


def _is_installed(library: str) -> bool:
    try:
        metadata.version(library)
    except metadata.PackageNotFoundError:
        return False
    return True
