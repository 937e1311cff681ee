"""The command line: it parses and prints. Data go to stdout, messages to stderr."""

import os
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from pilotstudy.cli import begin, bring, jobs, lists, read, run
from pilotstudy.errors import ManyFaultsError, PilotstudyError

app = typer.Typer(
    help="Which regulariser makes my network accurate and honest about its uncertainty, and is the difference real?",
    epilog="Exit codes: 0 done, 1 a check failed or a bug in pilotstudy, 2 wrong input, 3 data missing or damaged, "
    "4 training diverged, 5 wrong or damaged checkpoint, 6 cannot write, "
    "7 the run is at work, 8 not all trials are done, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for part in begin, run, read, bring, jobs, lists:
    app.add_typer(part.app)


def version(show: bool) -> None:
    if show:
        from pilotstudy import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Anywhere: show the traceback of an error.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=version, is_eager=True, help="Show it.")] = False,
    uses: Annotated[
        list[Path] | None,
        typer.Option(
            "--uses", metavar="FILE", help="Before a command: a Python file with metrics, arms and networks of yours."
        ),
    ] = None,
) -> None:
    if uses:
        from pilotstudy.study import reading

        reading.read_uses([str(path) for path in uses], Path())


def main() -> None:
    """Every error a user can mend is a line, and its exit code; `--debug` shows where it came from."""
    debug = "--debug" in sys.argv
    try:
        code = app([word for word in sys.argv[1:] if word != "--debug"], standalone_mode=False)
        if code == 130:  # Ctrl-C
            fail(f"interrupted{how_to_go_on()}", code)
    except typer.TyperException as error:
        reason = in_our_words(in_a_line(error.format_message())).rstrip(".")  # type: ignore[attr-defined]
        code = fail(f"{reason}; --help tells more", 2) if reason else 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        if debug:
            raise
        code = fail(*explain(error))
    sys.exit(code if isinstance(code, int) else 0)


def explain(error: Exception) -> tuple[str, int]:
    if isinstance(error, ManyFaultsError):
        return str(error), error.exit_code
    if isinstance(error, PilotstudyError):
        return in_a_line(error), error.exit_code
    if isinstance(error, OSError):
        return in_a_line(f"{error.filename or 'a file'}: {error.strerror or error}"), 6
    bug = f"{type(error).__name__}: {error} (a bug in pilotstudy: please report it; --debug shows where)"
    return in_a_line(bug), 1


def in_our_words(reason: str) -> str:
    """What the library says of an option, as a study file's faults are told."""
    for theirs, ours in (
        (r"^Invalid value for '([^']+)'(?: / '[^']+')?:", r"\1:"),
        (r"\bValue error, ", ""),
        (r"\bInput should be (?=greater|less)", "it must be "),
        (r"\bInput should be\b", "expected"),
    ):
        reason = re.sub(theirs, ours, reason)
    return reason


def in_a_line(text: object) -> str:
    return " ".join(str(text).split())


def how_to_go_on() -> str:
    command = next((word for word in sys.argv[1:] if word in ("run", "resume", "train")), "")
    if command == "train":
        return "; with -o FOLDER the same command goes on where it stopped"
    return "; the same command goes on where it stopped" if command else ""


def fail(text: str, code: int) -> int:
    for line in text.split("\n"):
        print(f"pilotstudy: {line}", file=sys.stderr)
    return code
