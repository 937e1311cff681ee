"""The command line: it parses and prints. Data go to stdout, messages to stderr."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pilotstudy.errors import PilotstudyError

if TYPE_CHECKING:
    from pilotstudy.runs import Run
    from pilotstudy.spec import Study

app = typer.Typer(
    help="Which regulariser makes my network accurate and honest about its uncertainty, and is the difference real?",
    epilog="Exit codes: 0 done, 1 a fault of ours, 2 wrong input, 3 data missing or damaged, 4 training diverged, "
    "5 wrong or damaged checkpoint, 6 cannot write, 7 the run is at work, 8 not all trials are done, 130 interrupted.",
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


RunsDir = Annotated[Path, typer.Option(envvar="PILOTSTUDY_RUNS", help="Where run folders lie.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run's name, or the path of its folder.")]
Trials = Annotated[int | None, typer.Option(min=0, help="Search trials in all, shared equally by the searched arms.")]
Seeds = Annotated[int | None, typer.Option(min=1, help="How many seeds each arm is trained with.")]
Epochs = Annotated[int | None, typer.Option(help="Default: the study's.")]
TrainSize = Annotated[int | None, typer.Option(help="A class-balanced subset of the training images.")]
Concurrency = Annotated[int | None, typer.Option(min=1, help="Trials at once. Default: as many as fit.")]
CpusPerTrial = Annotated[int | None, typer.Option(min=1, help="CPUs, and so torch threads, of each trial.")]
TimeBudget = Annotated[float | None, typer.Option(min=0, help="Stop after this many seconds; `resume` goes on.")]


def study_with(
    study: str,
    trials: int | None,
    seeds: int | None,
    epochs: int | None,
    train_size: int | None,
    set_: list[str] | None,
) -> "Study":
    """The study with what the command line changes in it."""
    from pilotstudy import spec
    from pilotstudy.errors import InputError

    given = {"training.epochs": epochs, "data.train_size": train_size}
    overrides = {key: value for key, value in given.items() if value is not None}
    loaded = spec.load(study, overrides | dict(map(spec.parse_override, set_ or [])))
    if seeds is not None:
        loaded = loaded.model_copy(update={"seeds": tuple(range(seeds))})
    if trials is not None:
        if loaded.search is None:
            raise InputError(f"study {study} has no [search] section, so --trials has nothing to do")
        loaded = loaded.model_copy(update={"search": loaded.search.model_copy(update={"trials": trials})})
    return loaded


@app.command("run")
def run_study(
    study: StudyArgument,
    trials: Trials = None,
    seeds: Seeds = None,
    epochs: Epochs = None,
    train_size: TrainSize = None,
    name: Annotated[str | None, typer.Option(help="The run's name. Default: the study's.")] = None,
    runs_dir: RunsDir = Path("runs"),
    set_: Set = None,
    concurrency: Concurrency = None,
    cpus_per_trial: CpusPerTrial = None,
    gpus_per_trial: Annotated[str | None, typer.Option(help="1/k for k trials on a GPU, or auto.")] = None,
    time_budget: TimeBudget = None,
    address: Annotated[str | None, typer.Option(help="A Ray cluster: HOST:PORT, or auto. Default: embedded.")] = None,
    data_dir: DataDir = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would run.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a whole study: every arm, the search, the confirmation. The same command again continues it."""
    from pilotstudy import report
    from pilotstudy.director import counts
    from pilotstudy.running import Options, start
    from pilotstudy.runs import Run

    loaded = study_with(study, trials, seeds, epochs, train_size, set_)
    if dry_run:
        rows = [{"phase": phase, "trials": number} for phase, number in counts(loaded).items()]
        print(json.dumps(rows) if as_json else report.table(rows))
        return
    run = Run(runs_dir / (name or loaded.name))
    options = Options(
        data_dir=str(data_dir.resolve()) if data_dir else None,
        cpus_per_trial=cpus_per_trial or loaded.resources.cpus_per_trial,
        gpus_per_trial=share_of_gpu(gpus_per_trial or loaded.resources.gpus_per_trial),
        concurrency=concurrency or loaded.resources.concurrency,
        address=address,
    )
    start(loaded, run, options, quiet=quiet, time_budget=time_budget)
    print_results(run, "json" if as_json else "table")


def share_of_gpu(given: "str | float | None") -> "float | Literal['auto']":
    from pilotstudy.errors import InputError

    if given == "auto":
        return "auto"
    try:
        share = float(given or 0)
    except ValueError as error:
        raise InputError(f"--gpus-per-trial {given}: give a number such as 0.25, or auto") from error
    if share < 0 or (0 < share < 1 and abs(1 / share - round(1 / share)) > 1e-6) or (share > 1 and share % 1):
        raise InputError(f"--gpus-per-trial {given}: give 1/k (0.5, 0.25, ..) or a whole number")
    return share


def print_results(run: "Run", form: str) -> None:
    from pilotstudy import report
    from pilotstudy.results import Results, optimism, summary

    results = Results(run.files)
    rows = summary(results)
    if form == "json":
        print(json.dumps({"results": rows, "optimism": optimism(results)}))
    elif form == "csv":
        print(report.csv(rows), end="")
    elif form == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), pa.PythonFile(sys.stdout.buffer, "w"))
    else:
        print(report.results_text(rows, optimism(results)))


@app.command()
def resume(
    run: RunArgument, runs_dir: RunsDir = Path("runs"), time_budget: TimeBudget = None, quiet: Quiet = False
) -> None:
    """Go on with a run that was interrupted, or whose trials failed."""
    from pilotstudy import running
    from pilotstudy.runs import Run

    found = Run.find(run, runs_dir)
    running.resume(found, quiet=quiet, time_budget=time_budget)
    print_results(found, "table")


@app.command()
def results(
    run: RunArgument,
    runs_dir: RunsDir = Path("runs"),
    form: Annotated[str, typer.Option("--format", help="table, csv, json or parquet.")] = "table",
    as_json: Json = False,
) -> None:
    """A row for each arm, mode and phase: test figures, mean and sample deviation over seeds."""
    from pilotstudy.errors import InputError
    from pilotstudy.runs import Run

    if form not in ("table", "csv", "json", "parquet"):
        raise InputError(f"--format {form}: choose table, csv, json or parquet")
    print_results(Run.find(run, runs_dir), "json" if as_json else form)


@app.command()
def status(run: RunArgument, runs_dir: RunsDir = Path("runs"), as_json: Json = False) -> None:
    """How far a run is."""
    from pilotstudy import report
    from pilotstudy.runs import Run, progress_of

    rows = progress_of(Run.find(run, runs_dir))
    print(json.dumps(rows) if as_json else report.table(rows))


@app.command("list")
def list_runs(runs_dir: RunsDir = Path("runs"), as_json: Json = False) -> None:
    """All runs."""
    from pilotstudy import report
    from pilotstudy.runs import Run, overview

    rows = [overview(run) for run in Run.all(runs_dir)]
    print(json.dumps(rows) if as_json else report.table(rows) or f"no runs in {runs_dir}")


@app.command()
def stop(run: RunArgument, runs_dir: RunsDir = Path("runs")) -> None:
    """Ask a run to save and end, wherever it runs; `resume` goes on from there."""
    from pilotstudy.errors import InputError
    from pilotstudy.files import write
    from pilotstudy.progress import message
    from pilotstudy.runs import Run

    found = Run.find(run, runs_dir)
    if not found.at_work():
        raise InputError(f"run {found.name!r} is not at work")
    write(found.files.stop, "")
    message(f"asked {found.holder()} to stop; `pilotstudy resume {found.name}` goes on")


@app.command()
def show(study: StudyArgument, as_json: Json = False) -> None:
    """A study as it would run, with every default filled in."""
    from pilotstudy import report, spec

    loaded = spec.load(study).model_dump()
    print(json.dumps(loaded) if as_json else report.toml(loaded), end="\n" if as_json else "")


@app.command()
def plan(
    study: StudyArgument,
    trials: Trials = None,
    seeds: Seeds = None,
    epochs: Epochs = None,
    train_size: TrainSize = None,
    set_: Set = None,
    concurrency: Concurrency = None,
    cpus_per_trial: CpusPerTrial = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """What a study would cost: its trials by phase and arm, timed with a few steps of each, and when it would end."""
    from pilotstudy import report
    from pilotstudy.planning import plan as make

    loaded = study_with(study, trials, seeds, epochs, train_size, set_)
    found = make(loaded, data_dir, concurrency, cpus_per_trial or loaded.resources.cpus_per_trial)
    print(json.dumps(found) if as_json else report.plan_text(found))


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
            fail(f"interrupted; {how_to_go_on()}", code)
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


def how_to_go_on() -> str:
    words = sys.argv[1:]
    if "run" in words[:1] or "resume" in words[:1]:
        return "`pilotstudy resume` with the run's name goes on, and so does the same command"
    return "with -o FOLDER the same command goes on where it stopped"


def fail(text: str, code: int) -> int:
    print(f"pilotstudy: {' '.join(text.split())}", file=sys.stderr)
    return code
