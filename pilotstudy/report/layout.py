"""Text that fits a width: tables whose columns are broken, left out with a word or folded below each other; prose."""

import re
import shlex
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

GAP = 2  # between columns
NARROWEST = 8  # that a cell is broken to, where nothing else helps
PROSE = 80  # of sentences, where no width is known


@dataclass(frozen=True)
class Column:
    """`least`: its cells are words that may be broken into lines, down to this width; 0: they may not.

    `extra`: what it adds, where a narrow table can do without; columns of one extra are shown all or not at all.
    `group`: columns of one group stay beside each other.
    """

    heading: str
    cells: Sequence[str]
    right: bool = False
    least: int = 0
    extra: str = ""
    group: str = ""

    @property
    def width(self) -> int:
        return max(map(len, (self.heading, *self.cells)))

    @property
    def narrow(self) -> int:
        return min(self.width, self.least) if self.least else self.width


Columns = Callable[[bool], Sequence[Column]]  # those of a table: as they are, or in few words where it is to be narrow


def table_text(columns: Sequence[Column], width: int | None) -> str:
    """A table whose first column names the rows."""
    return tables_text([("", lambda narrow: columns)], width)


def tables_text(tables: Iterable[tuple[str, Columns]], width: int | None) -> str:
    """Tables below each other, each with its title. Without a width, every column as it is.

    Else they are narrow where that is needed, extras are left out that do not fit, and a line says which; what does not
    fit then is folded into further tables below, and as a last resort cells are broken.
    """
    blocks, all_left_out = [], []
    for title, columns in tables:
        shown, left_out = without_extras(columns, width)
        parts = [block_text(block, width) for block in folded(shown, width)]
        parts[0] = f"{filled(title, width)}\n{parts[0]}" if title else parts[0]
        blocks += parts
        all_left_out += left_out
    if all_left_out:
        names = ", ".join(dict.fromkeys(all_left_out))
        blocks[-1] += "\n" + filled(f"not shown for want of room: {names}; --wide shows all", width)
    return "\n\n".join(blocks)


def total(widths: Iterable[int]) -> int:
    """Of columns beside each other."""
    return sum(width + GAP for width in widths) - GAP


def without_extras(columns: Columns, width: int | None) -> tuple[Sequence[Column], list[str]]:
    """The columns that are shown, and the extras that are not: the first come first, and none that breaks cells."""
    found = columns(False)
    if width is None or total(column.width for column in found) <= width:
        return found, []
    found = columns(True)
    extras = list(dict.fromkeys(column.extra for column in found if column.extra))
    kept = {""}
    for extra in extras:
        beside = [column for column in found if column.extra in {extra} | kept]
        if total(column.narrow if column.extra == extra else column.width for column in beside) <= width:
            kept.add(extra)
    return [column for column in found if column.extra in kept], [extra for extra in extras if extra not in kept]


def folded(columns: Sequence[Column], width: int | None) -> list[list[Column]]:
    """As many tables as it takes, each with the first column."""
    key, *others = columns
    if width is None or not others:
        return [list(columns)]
    groups: dict[object, list[Column]] = {}
    for place, column in enumerate(others):
        groups.setdefault(column.group or place, []).append(column)
    blocks = [[key]]
    for group in groups.values():
        if len(blocks[-1]) > 1 and total(column.narrow for column in (*blocks[-1], *group)) > width:
            blocks.append([key])
        blocks[-1] += group
    return blocks


def block_text(columns: Sequence[Column], width: int | None) -> str:
    """One table, its cells broken where that is needed."""
    widths = [column.width for column in columns] if width is None else shared_out(columns, width)
    lines = []
    for cells in zip(*((column.heading, *column.cells) for column in columns), strict=True):
        broken = [lines_of(cell, room) for cell, room in zip(cells, widths, strict=True)]
        for number in range(max(map(len, broken))):
            texts = [cell[number] if number < len(cell) else "" for cell in broken]
            padded = (
                text.rjust(room) if column.right else text.ljust(room)
                for text, room, column in zip(texts, widths, columns, strict=True)
            )
            lines.append((" " * GAP).join(padded).rstrip())
    return "\n".join(lines)


def shared_out(columns: Sequence[Column], width: int) -> list[int]:
    """How wide each column is: what can be broken gets the room that is left, the first column first."""
    widths = [column.narrow for column in columns]
    room = width - total(widths)
    for place, column in enumerate(columns):
        more = min(room, column.width - widths[place])
        if more > 0:
            widths[place] += more
            room -= more
    while room < 0 and max(widths) > NARROWEST:
        widest = widths.index(max(widths))
        widths[widest] -= 1
        room += 1
    return widths


def lines_of(cell: str, width: int) -> list[str]:
    """Broken after spaces and hyphens and before the marks of a row (`dropout@mc@tuned`), else anywhere."""
    lines = [""]
    for piece in re.split(r"(?<=[ -])|(?=@)", cell):
        if len(lines[-1] + piece.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += piece
        while len(lines[-1].rstrip()) > width:
            lines[-1:] = [lines[-1][:width], lines[-1][width:]]
    return [line.rstrip() for line in lines]


def filled(text: str, width: int | None, *, first: str = "", then: str = "") -> str:
    """A paragraph; `first` and `then` are put before its first line and before the others. Without a width, a line."""
    if width is None:
        return first + text
    return textwrap.fill(
        text, width, initial_indent=first, subsequent_indent=then, break_long_words=False, break_on_hyphens=False
    )


def command_text(command: str, width: int) -> str:
    """A command to copy: where it is too long, in several lines that a shell joins; an option stays with its value."""
    parts: list[str] = []
    for word in map(shlex.quote, shlex.split(command)):
        if parts and parts[-1].startswith("--") and " " not in parts[-1] and not word.startswith("-"):
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    lines = ["   "]
    for part in parts:
        if lines[-1].strip() and len(f"{lines[-1]} {part} \\") > width:
            lines[-1] += " \\"
            lines.append("       ")
        lines[-1] += f" {part}"
    return "\n".join(lines)
