"""Code that users bring: files that a study `uses`, and installed packages with an entry point `pilotstudy`.

What they register, with `pilotstudy.arm`, `network` and `metric`, is known by the name of its module; when a file is
loaded again in another version, what it had registered is forgotten first.
"""

import linecache
import sys
import traceback
from collections.abc import Callable
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from types import ModuleType

from pilotstudy.console import message
from pilotstudy.errors import InputError

GROUP = "pilotstudy"  # of entry points: each names a module, which registers when it is imported

_loaded: dict[str, str] = {}  # by module: the text of its file
_forgetting: list[Callable[[str], None]] = []


def on_forgetting(forget: Callable[[str], None]) -> Callable[[str], None]:
    """Has a catalogue told, when a module is loaded again, to forget what it had registered."""
    _forgetting.append(forget)
    return forget


@cache
def load_installed() -> None:
    """Imports what installed packages bring. One that is broken is said, and costs nobody else's commands."""
    for entry in metadata.entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            message(f"the installed extension {entry.name} ({entry.value}) was left out: {_in_a_line(error)}")


def load(name: str, text: str) -> None:
    """Executes a file of a user's, once for each of its versions; others import it by its name without `.py`."""
    module = module_name(name)
    if _loaded.get(module) == text:
        return
    if module not in _loaded and (module in sys.modules or module in sys.stdlib_module_names):
        raise InputError(f"uses: {name} has the name of a module that is there already: rename it")
    _forget(module)
    made = ModuleType(module)
    shown = f"<uses {name}>"
    made.__file__ = shown
    linecache.cache[shown] = (len(text), None, text.splitlines(keepends=True), shown)
    sys.modules[module] = made
    _loaded[module] = text
    try:
        exec(compile(text, shown, "exec"), made.__dict__)
    except KeyboardInterrupt:
        _forget(module)
        raise
    except BaseException as error:  # sys.exit, too
        _forget(module)
        raise InputError(f"uses: {name}{_line_of(error, shown)}: {_in_a_line(error)}{_hint(error)}") from error


def module_name(name: str) -> str:
    """Of a file: `my_lab.py` is the module my_lab."""
    stem = Path(name).stem
    if not name.endswith(".py") or not stem.isidentifier():
        raise InputError(f"uses: {name!r} is not the name of a Python file, such as my_lab.py")
    return stem


def text_of(module: str) -> str | None:
    """The text of a module that something was registered from; None where there is no file, as in a notebook."""
    if module in _loaded:
        return _loaded[module]
    path = getattr(sys.modules.get(module), "__file__", None)
    try:
        return Path(path).read_text("utf-8") if path else None
    except OSError:
        return None


def behind(made: Callable[..., object]) -> Callable[..., object]:
    """What is called in the end: without the arguments that `partial` binds."""
    return behind(made.func) if isinstance(made, partial) else made


def source_of(made: Callable[..., object]) -> tuple[str, str]:
    """The module of the code behind it, and its name there: of a method of a class, the class's."""
    function = behind(made)
    owner = getattr(function, "__self__", None)
    code = owner if isinstance(owner, type) else function
    return code.__module__, getattr(code, "__name__", "")


def declaring_module() -> str:
    """The module that calls the decorator which asks; the code that it declares may be of another."""
    return str(sys._getframe(2).f_globals.get("__name__", ""))


def is_from_file(module: str) -> bool:
    """Whether it came with a study, rather than from an installed package."""
    return module in _loaded


def is_own(module: str) -> bool:
    """Whether it is a user's own, rather than Python's or of a library."""
    package = module.split(".")[0]
    return is_installed(module) or package not in {*sys.stdlib_module_names, *_libraries()}


@cache
def _libraries() -> frozenset[str]:
    """The packages that are installed here."""
    return frozenset(metadata.packages_distributions())


def is_installed(module: str) -> bool:
    """Whether it is of a package that brings extensions wherever it is installed."""
    brought = {entry.module.split(".")[0] for entry in metadata.entry_points(group=GROUP)}
    return module.split(".")[0] in brought


def _forget(module: str) -> None:
    _loaded.pop(module, None)
    sys.modules.pop(module, None)
    for forget in _forgetting:
        forget(module)


def _line_of(error: BaseException, shown: str) -> str:
    """Where in the file it went wrong."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == shown]
    if isinstance(error, SyntaxError):
        lines = [error.lineno]
    return f", line {lines[-1]}" if lines else ""


def _hint(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return "; a file beside the study must be listed in `uses` before the one that imports it"
    return ""


def _in_a_line(error: BaseException) -> str:
    kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
    return " ".join(f"{kind}{error}".split())[:300]
