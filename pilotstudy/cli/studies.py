"""Commands that run things: train, run, resume, stop, plan, and what tells of runs under way."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pilotstudy.cli.evidence import print_results
from pilotstudy.cli.options import (
    WAIT,
    Concurrency,
    CpusPerTrial,
    DataDir,
    Epochs,
    GpusPerTrial,
    JobServer,
    Json,
    MaxCost,
    Mps,
    Name,
    Price,
    Quiet,
    RunArgument,
    RunsDir,
    Seeds,
    Set,
    StudyArgument,
    TimeBudget,
    TrainSize,
    Trials,
    Wait,
)

if TYPE_CHECKING:
    from pilotstudy.running import Limits, Options
    from pilotstudy.runs import Run
    from pilotstudy.spec import Study

app = typer.Typer()


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
    name: Name = None,
    runs_dir: RunsDir = Path("runs"),
    set_: Set = None,
    concurrency: Concurrency = None,
    cpus_per_trial: CpusPerTrial = None,
    gpus_per_trial: GpusPerTrial = None,
    mps: Mps = False,
    time_budget: TimeBudget = None,
    max_cost: MaxCost = None,
    price: Price = None,
    wait: Wait = WAIT,
    address: Annotated[str | None, typer.Option(help="A Ray cluster: HOST:PORT, or auto. Default: embedded.")] = None,
    data_dir: DataDir = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would run.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a whole study: every arm, the search, the confirmation. The same command again continues it."""
    from pilotstudy import report
    from pilotstudy.director import counts
    from pilotstudy.running import start
    from pilotstudy.runs import Run

    loaded = study_with(study, trials, seeds, epochs, train_size, set_)
    if dry_run:
        rows = [{"phase": phase, "trials": number} for phase, number in counts(loaded).items()]
        print(json.dumps(rows) if as_json else report.table(rows))
        return
    run = Run(runs_dir / (name or loaded.name))
    there = str(data_dir.resolve()) if data_dir else None
    options = run_options(loaded, there, cpus_per_trial, gpus_per_trial, concurrency, address, mps=mps)
    start(loaded, run, options, quiet=quiet, limits=run_limits(time_budget, max_cost, price, wait))
    print_results(run, "json" if as_json else "table")


def run_options(
    study: "Study",
    data_dir: str | None,
    cpus_per_trial: int | None,
    gpus_per_trial: str | None,
    concurrency: int | None,
    address: str | None = None,
    *,
    mps: bool = False,
) -> "Options":
    """How a study is run: what the command line says, else the study."""
    from pilotstudy.running import Options

    return Options(
        data_dir=data_dir,
        cpus_per_trial=cpus_per_trial or study.resources.cpus_per_trial,
        gpus_per_trial=gpu_share(study, gpus_per_trial),
        concurrency=concurrency or study.resources.concurrency,
        address=address,
        mps=mps,
    )


def run_limits(time_budget: float | None, max_cost: float | None, price: str | None, wait: float) -> "Limits":
    """When a run ends before it is done."""
    from pilotstudy.errors import InputError
    from pilotstudy.prices import price_of
    from pilotstudy.running import Limits

    if max_cost is not None and price is None:
        raise InputError(
            f"--max-cost {max_cost:g} needs --price: what a machine costs an hour (--price 0.7) or its GPU (--price L4)"
        )
    return Limits(time_budget, max_cost, None if price is None else price_of(price), wait)


def gpu_share(study: "Study", given: str | None) -> "float | Literal['auto']":
    """A trial's share of a GPU: what the command line says, else the study."""
    from pilotstudy.errors import InputError
    from pilotstudy.spec import share_of_gpu

    if given is None:
        return study.resources.gpus_per_trial or 0.0
    try:
        return share_of_gpu(given)
    except ValueError as error:
        raise InputError(f"--gpus-per-trial {given}: {error}") from error


@app.command()
def resume(
    run: RunArgument,
    runs_dir: RunsDir = Path("runs"),
    time_budget: TimeBudget = None,
    max_cost: MaxCost = None,
    price: Price = None,
    wait: Wait = WAIT,
    address: JobServer = None,
    quiet: Quiet = False,
) -> None:
    """Go on with a run that was interrupted, or whose trials failed."""
    limits = run_limits(time_budget, max_cost, price, wait)
    if address:
        from pilotstudy.cluster.jobs import Jobs

        print(Jobs(address).resume(run, limits))
        return
    from pilotstudy import running
    from pilotstudy.runs import Run

    found = Run.find(run, runs_dir)
    running.resume(found, quiet=quiet, limits=limits)
    print_results(found, "table")


@app.command()
def status(
    run: RunArgument,
    runs_dir: RunsDir = Path("runs"),
    errors: Annotated[
        bool, typer.Option("--errors", help="Why trials failed: each with its node and traceback.")
    ] = False,
    address: JobServer = None,
    as_json: Json = False,
) -> None:
    """How far a run is."""
    from pilotstudy import report

    if errors:
        print_errors(run, runs_dir, address, as_json)
        return
    if address:
        from pilotstudy.cluster.jobs import Jobs

        sent = Jobs(address)
        row = next(row for row in sent.rows() if row["job"] == sent.find(run).submission_id)
        row["last line"] = (sent.logs(run).strip().splitlines() or [""])[-1]
        print(json.dumps(row) if as_json else report.table([row]))
        return
    from pilotstudy.runs import Run, progress_of

    rows = progress_of(Run.find(run, runs_dir))
    print(json.dumps(rows) if as_json else report.table(rows))


def print_errors(run: str, runs_dir: Path, address: str | None, as_json: bool) -> None:
    from pilotstudy.errors import InputError
    from pilotstudy.runs import Run

    if address:
        raise InputError("--errors reads the run folder: give --runs-dir in place of --address")
    found = Run.find(run, runs_dir)
    rows = failures(found)
    if as_json:
        print(json.dumps(rows))
        return
    for row in rows:
        where = f" on {row['node']}" if row["node"] else ""
        print(f"{row['trial']}{where}: {row['error']}")
        print("".join(f"    {line}\n" for line in (row["traceback"] or "no traceback was kept").splitlines()))
    if not rows:
        print(f"no trial of {found.name} failed")


def failures(run: "Run") -> list[dict[str, str | None]]:
    """The trials that failed, each with its error, its node and its traceback, as far as they are known."""
    from pilotstudy.results import Results

    trials = Results(run.files).trials.select(["phase", "arm", "number", "key", "status", "error"]).to_pylist()
    rows = []
    for row in trials:
        if row["status"] == "failed":
            result = run.result(row["key"]) or {}
            name = f"{row['phase']} {row['arm']} {row['number']}"
            known = {key: result.get(key) for key in ("node", "traceback")}
            rows.append({"trial": name, "error": result.get("error") or row["error"], **known})
    return rows


@app.command("list")
def list_runs(runs_dir: RunsDir = Path("runs"), as_json: Json = False) -> None:
    """All runs."""
    from pilotstudy import report
    from pilotstudy.runs import Run, overview

    rows = [overview(run) for run in Run.all(runs_dir)]
    print(json.dumps(rows) if as_json else report.table(rows) or f"no runs in {runs_dir}")


@app.command()
def stop(run: RunArgument, runs_dir: RunsDir = Path("runs"), address: JobServer = None) -> None:
    """Ask a run to save and end, wherever it runs; `resume` goes on from there."""
    if address:
        from pilotstudy.cluster.jobs import Jobs

        Jobs(address).stop(run)
        return
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
    gpus_per_trial: GpusPerTrial = None,
    gpu: Annotated[
        str | None,
        typer.Option(help="On a machine with this GPU: T4, L4, A10G, A6000, A100 or H100; else on this one."),
    ] = None,
    price: Price = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """What a study would cost, in hours and dollars, from a few steps of each arm on the device that `run` will use."""
    from pilotstudy import prices, report

    loaded = study_with(study, trials, seeds, epochs, train_size, set_)
    share = gpu_share(loaded, gpus_per_trial)
    named = prices.find(gpu) if gpu else None
    dollars = prices.price_of(price) if price else None
    from pilotstudy.planning import plan as make

    found = make(
        loaded,
        data_dir,
        cpus=cpus_per_trial or loaded.resources.cpus_per_trial,
        concurrency=concurrency or loaded.resources.concurrency,
        share=share,
        gpu=named,
        price=dollars,
    )
    print(json.dumps(found) if as_json else report.plan_text(found))
