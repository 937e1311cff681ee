"""The command line: it parses and prints. Data go to stdout, messages to stderr."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from pilotstudy.errors import PilotstudyError

app = typer.Typer(
    help="Which regulariser makes my network accurate and honest about its uncertainty, and is the difference real?",
    epilog="Exit codes: 0 done, 1 a fault of ours, 2 wrong input, 3 data missing or damaged, 4 training diverged, "
    "5 wrong or damaged checkpoint, 6 cannot write, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="Data sets: list, prepare, verify.", no_args_is_help=True)
app.add_typer(data_app, name="data")

StudyArgument = Annotated[str, typer.Argument(metavar="STUDY", help="A built-in study, or the path of a study file.")]
DataDir = Annotated[
    Path | None,
    typer.Option(envvar="PILOTSTUDY_DATA", help="Folder with data sets, as Parquet or image folders; else download."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the study file.")]


def version(show: bool) -> None:
    if show:
        from pilotstudy import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Anywhere: show the traceback of an error.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=version, is_eager=True, help="Show it.")] = False,
) -> None: ...


def be_quiet(quiet: bool) -> None:
    from pilotstudy import progress

    progress.quiet = quiet


Quiet = Annotated[bool, typer.Option("--quiet", "-q", callback=be_quiet, help="No messages, only data and errors.")]


@app.command()
def train(
    study: StudyArgument,
    arm: Annotated[str, typer.Option(help="Which arm; `pilotstudy arms` lists them.")],
    seed: Annotated[int | None, typer.Option(min=0, help="Default: the study's first.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Default: the study's.")] = None,
    train_size: Annotated[int | None, typer.Option(help="A class-balanced subset of the training images.")] = None,
    data_dir: DataDir = None,
    set_: Set = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write result, epochs, predictions and checkpoint there.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads. Default: all cores.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train one arm once and evaluate it. With -o, the same command again goes on where it was interrupted."""
    from pilotstudy import spec

    given = {"training.epochs": epochs, "data.train_size": train_size}
    overrides = {key: value for key, value in given.items() if value is not None}
    loaded = spec.load(study, overrides | dict(map(spec.parse_override, set_ or [])))
    trial = spec.trial(loaded, arm, loaded.seeds[0] if seed is None else seed)

    from pilotstudy import device as devices
    from pilotstudy.data.prepared import load
    from pilotstudy.trial import run

    where = devices.choose(device)
    data = load(trial.data.name, data_dir, trial.data.image_size)
    from pilotstudy.report import EpochLines, trial_text

    with EpochLines(f"{arm}, seed {trial.seed}", trial.training.epochs) as lines:
        result = run(trial, data, output, where=where, threads=threads, on_epoch=lines)
    print(json.dumps(result) if as_json else trial_text(result))
    if result["status"] == "diverged":
        from pilotstudy.errors import DivergedError

        raise DivergedError(result["epochs"])


@app.command("arms")
def list_arms(as_json: Json = False) -> None:
    """The arms: what each does, its settings with their defaults, and what a search may change."""
    from pilotstudy.arms import arms
    from pilotstudy.report import arms_rows, arms_text

    print(json.dumps(arms_rows(arms().values())) if as_json else arms_text(arms().values()))


@app.command("studies")
def list_studies(as_json: Json = False) -> None:
    """The built-in studies."""
    from pilotstudy import report, spec

    studies = [spec.load(name) for name in spec.builtin()]
    rows = [
        {"study": s.name, "title": s.title, "data": s.data.name, "network": s.network.name, "arms": len(s.arms)}
        for s in studies
    ]
    print(json.dumps(rows) if as_json else report.table(rows))


@data_app.command("list")
def data_list(data_dir: DataDir = None, as_json: Json = False) -> None:
    """The known data sets: where each would come from, and whether it is prepared."""
    from pilotstudy import report
    from pilotstudy.data import prepared

    rows = [prepared.describe(name, data_dir) for name in prepared.NAMES]
    print(json.dumps(rows) if as_json else report.table(rows))


@data_app.command("prepare")
def data_prepare(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Known data sets, or folders of your own.")],
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Download or read a data set and prepare it, so that no study has to wait for it."""
    from pilotstudy import report
    from pilotstudy.data import prepared

    rows = [prepared.summary(prepared.load(name, data_dir)) for name in names]
    print(json.dumps(rows) if as_json else report.table(rows))


@data_app.command("verify")
def data_verify(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Default: all prepared ones.")] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Read every prepared image again and compare with its fingerprint. Exit code 3 if one is damaged."""
    from pilotstudy import report
    from pilotstudy.data import prepared
    from pilotstudy.errors import DataError

    rows = [prepared.describe(name, data_dir, verify=True) for name in names or prepared.NAMES]
    print(json.dumps(rows) if as_json else report.table(rows))
    damaged = [row["name"] for row in rows if row["state"] == "damaged"]
    if damaged:
        raise DataError(f"damaged: {', '.join(damaged)}; `pilotstudy data prepare {damaged[0]}` makes it anew")


@app.command()
def doctor(data_dir: DataDir = None, as_json: Json = False) -> None:
    """What works on this machine, and what to do about the rest. Exit code 1 if a study could not run."""
    from pilotstudy import report
    from pilotstudy.doctor import examine

    rows = examine(data_dir)
    print(json.dumps(rows) if as_json else report.table(rows))
    if any(row["state"] == "fails" for row in rows):
        raise typer.Exit(1)


def main() -> None:
    """Every error a user can mend is one line and its exit code; `--debug` shows where it came from."""
    debug = "--debug" in sys.argv
    try:
        code = app([word for word in sys.argv[1:] if word != "--debug"], standalone_mode=False)
        if code == 130:  # Ctrl-C
            fail("interrupted; with -o FOLDER the same command goes on where it stopped", code)
    except typer.TyperException as error:
        reason = error.format_message().rstrip(".")  # type: ignore[attr-defined]
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
    if isinstance(error, PilotstudyError):
        return str(error), error.exit_code
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'}: {error.strerror or error}", 6
    return f"{type(error).__name__}: {error} (a fault of ours; --debug shows where)", 1


def fail(text: str, code: int) -> int:
    print(f"pilotstudy: {' '.join(text.split())}", file=sys.stderr)
    return code
