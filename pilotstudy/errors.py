"""Everything that can go wrong in a way a user can mend. Each kind has its exit code; the message is one line."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class PilotstudyError(Exception):
    """What is wrong, where, and what to do about it."""

    exit_code = 1

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: one line, as the command line does."""
        return [f"{type(self).__name__}: {self}"]


class InputError(PilotstudyError):
    """An unknown study, arm, key or data set, or a value that does not fit."""

    exit_code = 2


class WrongStudyError(InputError, ValueError):
    """A study that is given in Python, with something wrong in it."""


class ManyFaultsError(InputError):
    """Several at once, of one file: a line for each."""

    def __init__(self, lines: "list[str]"):
        super().__init__("\n".join(" ".join(line.split()) for line in lines))


class NewerFormatError(InputError):
    """A file of a format that a later version of pilotstudy brought."""

    def __init__(self, path: object, written: int, newest: int):
        super().__init__(
            f"{path} was written by a newer pilotstudy (format {written}; this one reads up to {newest}): "
            "upgrade pilotstudy"
        )


class DeviceError(InputError):
    """A GPU was asked for and cannot be used on this node."""


class CaptureError(PilotstudyError):
    """Steps that cannot be captured as a CUDA graph; the trial starts again with ordinary ones."""


class DataError(PilotstudyError):
    """A data set that cannot be had, or that is damaged."""

    exit_code = 3


class DivergedError(PilotstudyError):
    """A training loss that is not finite."""

    exit_code = 4

    def __init__(self, epoch: int):
        super().__init__(f"the loss was not finite in epoch {epoch}: lower the learning rate or the decoder's")
        self.epoch = epoch


class AllDivergedError(PilotstudyError):
    """A run of which no trial came to an end."""

    exit_code = 4


class CheckpointError(PilotstudyError):
    """A checkpoint that is damaged or belongs to another trial."""

    exit_code = 5


class StorageError(PilotstudyError):
    """A file that cannot be written."""

    exit_code = 6


class RunLockedError(PilotstudyError):
    """A run folder that another process is working on."""

    exit_code = 7


class NotDoneError(PilotstudyError):
    """A run that ended before all of its trials did: stopped, out of time, or with trials that failed."""

    exit_code = 8


class InterruptedRunError(PilotstudyError):
    """Ctrl-C, after everything was saved."""

    exit_code = 130


MOST = 100  # letters of a word that are compared
LISTED = 20  # names


def nearest(word: str, known: "list[str] | tuple[str, ...]") -> str:
    """A question or a list, to end a sentence of an error message with; a section in common makes no names near."""
    from difflib import get_close_matches

    section = word[: word.rfind(".") + 1]
    by_ending = {name.removeprefix(section): name for name in known}
    near = get_close_matches(word.removeprefix(section)[:MOST], by_ending, 1, cutoff=0.6)
    if near:
        return f"did you mean {by_ending[near[0]]!r}?"
    return f"known are {', '.join(known[:LISTED])}{', ..' if len(known) > LISTED else '.'}"


def with_parentheses(declaring: Callable[P, R]) -> Callable[P, R]:
    """A decorator of users' code that takes a name, and says so where it is written without its parentheses."""

    @wraps(declaring)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        if args and not isinstance(args[0], str):
            word = f"@pilotstudy.{declaring.__name__}"
            raise InputError(f'{word} needs parentheses with a name, which is a text: write {word}("NAME", ..)')
        return declaring(*args, **options)

    return checked
