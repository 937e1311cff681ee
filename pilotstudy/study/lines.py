"""Where the keys of a TOML file stand: tomllib reads values and forgets their lines."""

import re
import tomllib
from bisect import bisect_right
from contextlib import suppress

KeyPath = tuple[str | int, ...]  # keys, and the numbers of what is in arrays

QUOTES = "\"'"
_STRING = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\]|\\.)*"|\'[^\']*\'', re.S)
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN = re.compile(r"[^,\]}\n#]+")  # numbers, dates, true and false
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")


def lines_of(text: str) -> dict[KeyPath, int]:
    """The line of every key and entry of a text that tomllib has read; of a section, that of its heading."""
    scanner = _Scanner(text)
    with suppress(IndexError, RecursionError, ValueError):  # without its line, an error can still be told
        scanner.read()
    return scanner.line_of


def key_parts(text: str) -> list[str]:
    """A dotted key, parts of which may be quoted: `search.space."training.learning_rate"`."""
    scanner = _Scanner(text)
    try:
        parts = scanner.key()
    except (IndexError, ValueError):
        return text.split(".")
    return parts if scanner.at == len(text) else text.split(".")


class _Scanner:
    """Goes through the text once; `at` is where it is."""

    def __init__(self, text: str):
        self.text, self.at = text, 0
        self.line_of: dict[KeyPath, int] = {}
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._entries: dict[KeyPath, int] = {}  # how many [[tables]] each array has so far

    def read(self) -> None:
        table: KeyPath = ()
        while True:
            self._skip()
            if self.at >= len(self.text):
                return
            if self.text[self.at] == "[":
                table = self._heading()
            else:
                self._pair(table)

    def key(self) -> list[str]:
        parts = []
        while True:
            self._skip()
            quoted = self.text[self.at] in QUOTES
            key = self._take(_STRING if quoted else _BARE)
            parts.append(tomllib.loads(f"key = {key}")["key"] if quoted else key)
            self._skip()
            if self.text[self.at : self.at + 1] != ".":
                return parts
            self.at += 1

    def _heading(self) -> KeyPath:
        start, brackets = self.at, 2 if self.text.startswith("[[", self.at) else 1
        self.at += brackets
        path: KeyPath = ()
        keys = self.key()
        for number, key in enumerate(keys):
            path += (key,)
            is_last = number == len(keys) - 1
            if is_last and brackets == 2:
                self._entries[path] = self._entries.get(path, 0) + 1
            elif is_last:
                self.line_of[path] = self._line(start)
            self.line_of.setdefault(path, self._line(start))
            if path in self._entries:
                path += (self._entries[path] - 1,)
                self.line_of.setdefault(path, self._line(start))
        self.at += brackets
        return path

    def _pair(self, table: KeyPath) -> None:
        start = self.at
        path = table
        for key in self.key():
            path += (key,)
            self.line_of.setdefault(path, self._line(start))
        self.at += 1  # the equals sign
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        self._skip()
        opening = self.text[self.at]
        if opening in "[{":
            self._inside(path, opening)
            return
        self._take(_STRING if opening in QUOTES else _PLAIN)

    def _inside(self, path: KeyPath, opening: str) -> None:
        """An array, or a table in braces."""
        self.at += 1
        number = 0
        while True:
            self._skip()
            if self.text[self.at] in "]}":
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
                number += 1
            elif opening == "{":
                self._pair(path)
            else:
                self.line_of.setdefault((*path, number), self._line(self.at))
                self._value((*path, number))

    def _skip(self) -> None:
        """Blanks, ends of lines and comments."""
        self._take(_BLANK)

    def _line(self, at: int) -> int:
        return bisect_right(self._starts, at)

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise ValueError(f"not TOML at {self.at}")
        self.at = match.end()
        return match[0]
