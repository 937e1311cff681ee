"""What is wrong with a study: each fault with the key that it is about, all told at once, each with its line."""

import math
import reprlib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, time
from functools import cached_property
from typing import TYPE_CHECKING

from pydantic import BaseModel

from pilotstudy.errors import InputError, ManyFaultsError
from pilotstudy.study.lines import KeyPath, lines_of

if TYPE_CHECKING:
    from typing import NoReturn

WIDEST = 80  # letters of a value in a message
LONGEST = 1_000  # letters of a fault
MOST = 25  # faults that are told at once
DEEPEST = 24  # keys within keys
TOO_DEEP = "nested too deeply"
LARGEST = 2**63 - 1  # as in TOML


@dataclass(frozen=True)
class Fault:
    """`path`: of the key. `text`: what is wrong and what to do, for a line."""

    path: KeyPath
    text: str

    def covers(self, path: KeyPath) -> bool:
        """Whether it is about this key, or something that the key is in."""
        return path[: len(self.path)] == self.path


@dataclass
class Places:
    """Where each key of a study was written: a line of its file, of its file of claims, or an option of a command."""

    where: str  # for what stands nowhere
    file: str = ""
    text: str = ""
    options: dict[KeyPath, str] = field(default_factory=dict)
    claims: "Places | None" = None
    numbers: list[int] = field(default_factory=list)  # of the claims that are this study's, in their file

    @cached_property
    def lines(self) -> dict[KeyPath, int]:
        return lines_of(self.text)

    def find(self, path: KeyPath) -> tuple[int, int, str]:
        """The order in which it is told, and where it is."""
        for option, words in self.options.items():
            if path[: len(option)] == option:
                return 2, 0, words
        if path[:1] == ("claims",) and len(path) > 1 and isinstance(path[1], int) and path[1] < len(self.numbers):
            path = ("claims", self.numbers[path[1]], *path[2:])
            if self.claims is not None:
                return 1, *self.claims.find(path)[1:]
        for length in range(len(path), 0, -1):
            if line := self.lines.get(path[:length]):
                return 0, line, f"{self.file}, line {line}"
        return 3, 0, self.where


def refuse(faults: Iterable[Fault], places: Places) -> "NoReturn":
    """All of them as one error, in the order of the file."""
    placed = sorted(((places.find(fault.path), fault.text) for fault in faults), key=lambda each: each[0][:2])
    lines = list(dict.fromkeys(f"{place}: {printable(text)}" for (_, _, place), text in placed))
    if len(lines) == 1:
        raise InputError(lines[0])
    more = [f"{places.where}: {len(lines) - MOST:,} more faults"] if len(lines) > MOST else []
    raise ManyFaultsError(lines[:MOST] + more)


@contextmanager
def collecting(faults: list[Fault], path: KeyPath, before: str = "") -> Iterator[None]:
    """What is refused within is about this key; what comes after it is looked at, too. `before`: of its text."""
    try:
        yield
    except InputError as error:
        faults.append(Fault(path, f"{before}{error}"))


def dotted(path: KeyPath) -> str:
    return ".".join(part if len(part) <= WIDEST else f"{part[: WIDEST - 2]}.." for part in map(str, path))


def printable(text: str) -> str:
    """A text for a line of a terminal: what has no width, or moves the cursor, is spelled out; a long one is cut."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text[:LONGEST])


def shown(value: object) -> str:
    """A value for a message, shortened."""
    if isinstance(value, date | time):
        return str(value)
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = WIDEST
    short.maxlist = short.maxtuple = short.maxdict = 6
    short.maxlevel = 3
    try:
        text = short.repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        text = f"a {type(value).__name__} too large to print"
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 2]}.."


def odd_values(content: Mapping[str, object]) -> list[Fault]:
    """What no key of a study can be or have: dates, huge numbers, control characters, keys within keys without end."""
    faults = []
    waiting: list[tuple[KeyPath, object]] = [((), content)]
    while waiting:
        path, value = waiting.pop()
        if path and path[0] == "uses":
            continue  # texts of programs
        if len(path) > DEEPEST:
            faults.append(Fault(path[:3], f"{dotted(path[:3])}..: {TOO_DEEP}: a study has no such key"))
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                if why := _odd_key(key):
                    faults.append(Fault((*path, key), f"{dotted(path) or 'the study'}: {why}"))
                waiting.append(((*path, key), inner))
        elif isinstance(value, list | tuple):
            waiting += [((*path, number), inner) for number, inner in enumerate(value)]
        elif why := _odd(value):
            faults.append(Fault(path, f"{dotted(path)} = {shown(value)}: {why}"))
    return faults


def _odd_key(key: object) -> str:
    if not isinstance(key, str):
        return f"the key {shown(key)} is not a text"
    if not key.strip():
        return f"a key cannot be empty ({key!r})"
    return f"the key {shown(key)} has control characters" if _has_controls(key, "") else ""


def _odd(value: object) -> str:
    if value is None or isinstance(value, bool | BaseModel):
        return ""
    if isinstance(value, int):
        return "" if -LARGEST <= value <= LARGEST else "the number is too large"
    if isinstance(value, float):
        return "" if math.isfinite(value) else "expected a finite number"
    if isinstance(value, str):
        return "it has control characters: take them out" if _has_controls(value, "\n\t\r") else ""
    if isinstance(value, date | time):
        return "a study has no dates or times: put a text in quotes"
    return "expected a text, a number, true, false, a list or a table"


def _has_controls(text: str, allowed: str) -> bool:
    return any(unicodedata.category(letter) in ("Cc", "Cs") and letter not in allowed for letter in text)
