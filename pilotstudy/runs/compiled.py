"""What code does that has no file, as in a notebook: its bytecode, so that a changed arm is another arm."""

import sys
from collections.abc import Iterator
from functools import partial
from types import CodeType, FunctionType

PLAIN = bool | int | float | str | bytes | None


def compiled(module: str, name: str) -> str:
    """A class or function of a module, with all that it needs of that module."""
    known = vars(sys.modules[module]) if module in sys.modules else {}
    reached: dict[str, list[str]] = {}
    waiting = [name]
    while waiting:
        wanted = waiting.pop()
        if wanted in known and wanted not in reached:
            parts = list(_parts(known[wanted], module))
            reached[wanted] = [text for text, _ in parts]
            waiting += [used for _, names in parts for used in names]
    return "\n".join([f"{module}.{name}", *(f"{each} {texts}" for each, texts in sorted(reached.items()))])


def _parts(value: object, module: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What something does, piece by piece, each with the names that it uses."""
    if isinstance(value, partial):
        yield repr((value.args, value.keywords)), ()
        yield from _parts(value.func, module)
    elif isinstance(value, classmethod | staticmethod):
        yield from _parts(value.__func__, module)
    elif isinstance(value, property):
        yield from _parts(value.fget, module)
    elif isinstance(value, FunctionType) and value.__module__ == module:
        yield repr((value.__defaults__, value.__kwdefaults__)), ()
        yield from parts_of(value.__code__)
    elif isinstance(value, type) and value.__module__ == module:
        yield repr(value.__bases__), tuple(base.__name__ for base in value.__bases__)
        for name, member in vars(value).items():
            if not name.startswith("__") or isinstance(member, FunctionType):
                yield name, ()
                yield from _parts(member, module)
    elif isinstance(value, PLAIN | tuple | list | dict):
        yield repr(value), ()


def parts_of(code: CodeType) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What code does, piece by piece, each with the names that it uses."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    constants = [each for each in code.co_consts if not isinstance(each, CodeType)]
    yield repr((code.co_code, constants, code.co_names, code.co_varnames)), code.co_names
    for each in inner:
        yield from parts_of(each)
