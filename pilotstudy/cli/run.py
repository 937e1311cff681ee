"""Commands that run things: train, run, resume, stop, plan, and what tells of runs under way."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotstudy.cli import completion
from pilotstudy.cli.choices import engine_at, run_limits, study_with
from pilotstudy.cli.live import live_page
from pilotstudy.cli.options import (
    WAIT,
    Concurrency,
    CpusPerTrial,
    DataDir,
    Epochs,
    GpusPerTrial,
    Inline,
    JobServer,
    Json,
    Live,
    MaxCost,
    MaxSeeds,
    Mps,
    Name,
    Port,
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
    UntilDecided,
    Wait,
    Wide,
)
from pilotstudy.cli.read import print_ending
from pilotstudy.console import output_width

if TYPE_CHECKING:
    from pilotstudy.runs.folder import Run
    from pilotstudy.study.looks import Looks
    from pilotstudy.study.spec import Study

app = typer.Typer()


@app.command()
def train(
    study: StudyArgument,
    arm: Annotated[str, typer.Option(help="Which arm; `pilotstudy arms` lists them.", autocompletion=completion.arms)],
    seed: Annotated[int | None, typer.Option(min=0, max=2**62, help="Default: the study's first.")] = None,
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
    from pilotstudy.study.budget import fixed_trial

    loaded = study_with(study, epochs=epochs, train_size=train_size, set_=set_)
    trial = fixed_trial(loaded, arm, loaded.seeds[0] if seed is None else seed)

    from pilotstudy.runs.records import Status
    from pilotstudy.study.testsets import load_study_data
    from pilotstudy.trial import device as devices
    from pilotstudy.trial.lifecycle import train_trial

    where = devices.choose(device)
    data = load_study_data(loaded, data_dir)
    from pilotstudy.report.plain import EpochLines, trial_text

    with EpochLines(f"{arm}, seed {trial.seed}", trial.training.epochs) as lines:
        result = train_trial(trial, data, output, where=where, threads=threads, on_epoch=lines)
    print(result.to_json(indent=None) if as_json else trial_text(result, output_width()))
    if result.status is Status.DIVERGED:
        from pilotstudy.errors import DivergedError

        raise DivergedError(result.epochs or 0)


@app.command("run")
def run_study(
    study: StudyArgument,
    trials: Trials = None,
    seeds: Seeds = None,
    until_decided: UntilDecided = False,
    max_seeds: MaxSeeds = None,
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
    inline: Inline = False,
    live: Live = False,
    port: Port = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would run.")] = False,
    wide: Wide = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a whole study: every arm, the search, the confirmation. The same command again continues it."""
    from pilotstudy.evidence.looking import still_wanted
    from pilotstudy.runs.folder import Run
    from pilotstudy.schedule.conduct import start
    from pilotstudy.study.looks import asked_looks
    from pilotstudy.study.resources import Location

    changed = study_with(
        study,
        trials=trials,
        seeds=seeds,
        epochs=epochs,
        train_size=train_size,
        set_=set_,
        cpus_per_trial=cpus_per_trial,
        gpus_per_trial=gpus_per_trial,
        concurrency=concurrency,
        mps=mps,
    )
    changed, looks = asked_looks(changed, until_decided=until_decided, max_seeds=max_seeds, seeds=seeds)
    run = Run.named(changed.name if name is None else name, runs_dir)
    if dry_run:
        print_counts(changed, looks, as_json)
        return
    location = Location(str(data_dir.resolve()) if data_dir else None, address)
    limits = run_limits(time_budget, max_cost, price, wait)
    engine = engine_at(address, inline)
    with live_page(run, live, port):
        start(changed, run, location, engine, still_wanted, looks=looks, quiet=quiet, limits=limits)
    print_ending(run, wide=wide, as_json=as_json)


def print_counts(study: "Study", looks: "Looks | None", as_json: bool) -> None:
    """How many trials each phase would have; with looks, the least and the most."""
    from pilotstudy.report import plain
    from pilotstudy.study.budget import counts

    least, most = counts(study, looks), counts(study)
    rows: list[dict[str, object]] = [
        {"phase": phase} | ({"least": least[phase], "most": most[phase]} if looks else {"trials": most[phase]})
        for phase in most
    ]
    print(json.dumps(rows) if as_json else plain.table(rows, output_width()))


@app.command()
def resume(
    run: RunArgument,
    runs_dir: RunsDir = Path("runs"),
    time_budget: TimeBudget = None,
    max_cost: MaxCost = None,
    price: Price = None,
    wait: Wait = WAIT,
    address: JobServer = None,
    inline: Inline = False,
    live: Live = False,
    port: Port = None,
    wide: Wide = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a run that was interrupted, or whose trials failed."""
    limits = run_limits(time_budget, max_cost, price, wait)
    if address:
        from pilotstudy.cluster.jobs import Jobs
        from pilotstudy.errors import InputError

        if live:
            raise InputError("--live serves the page of a run that trains from here: leave it out with --address")
        print(Jobs(address).resume(run, limits))
        return
    from pilotstudy.evidence.looking import still_wanted
    from pilotstudy.runs.folder import Run
    from pilotstudy.schedule import conduct

    interrupted = Run.find(run, runs_dir)
    engine = engine_at(None if inline else interrupted.frozen().location.address, inline)
    with live_page(interrupted, live, port):
        conduct.resume(interrupted, engine, still_wanted, quiet=quiet, limits=limits)
    print_ending(interrupted, wide=wide, as_json=as_json)


@app.command()
def status(
    run: RunArgument,
    runs_dir: RunsDir = Path("runs"),
    errors: Annotated[
        bool, typer.Option("--errors", help="Why trials failed: each with its node and traceback.")
    ] = False,
    address: JobServer = None,
    wide: Wide = False,
    as_json: Json = False,
) -> None:
    """How far a run is, what it trains now and since when, and when it will end."""
    if errors:
        print_errors(run, runs_dir, address, as_json)
        return
    if address:
        from pilotstudy.cluster.jobs import Jobs
        from pilotstudy.report import plain

        sent = Jobs(address)
        row = next(row for row in sent.rows() if row["job"] == sent.find(run).submission_id)
        row["last line"] = (sent.logs(run).strip().splitlines() or [""])[-1]
        print(json.dumps(row) if as_json else plain.table([row], output_width(wide)))
        return
    from dataclasses import asdict

    from pilotstudy.report.progress import status_text
    from pilotstudy.runs.folder import Run
    from pilotstudy.runs.status import status_of

    local = Run.find(run, runs_dir)
    found = status_of(local)
    if not as_json:
        print(status_text(local, found, output_width(wide)))
        return
    print(json.dumps({**found, "answer": answer_record(local)}, default=asdict))


def answer_record(run: "Run") -> dict[str, object] | None:
    """None where it cannot be told, which is no reason not to tell how far a run is."""
    from pilotstudy.console import message
    from pilotstudy.errors import PilotstudyError
    from pilotstudy.evidence.recommendation import answer
    from pilotstudy.evidence.run_evidence import RunEvidence

    try:
        return answer(RunEvidence(run)).record()
    except PilotstudyError as error:
        message(f"the answer cannot be told: {error}")
        return None


def print_errors(run: str, runs_dir: Path, address: str | None, as_json: bool) -> None:
    from pilotstudy.errors import InputError
    from pilotstudy.runs.folder import Run

    if address:
        raise InputError("--errors reads the run folder: give --runs-dir in place of --address")
    named_run = Run.find(run, runs_dir)
    rows = failures(named_run)
    if as_json:
        print(json.dumps(rows))
        return
    for row in rows:
        where = f" on {row['node']}" if row["node"] else ""
        print(f"{row['trial']}{where}: {row['error']}")
        print("".join(f"    {line}\n" for line in (row["traceback"] or "no traceback was kept").splitlines()))
    if not rows:
        print(f"no trial of {named_run.name} failed")


def failures(run: "Run") -> list[dict[str, str | None]]:
    """The trials that failed, each with its error, its node and its traceback, as far as they are known."""
    from pilotstudy.runs.records import Status
    from pilotstudy.runs.results import Results

    rows = []
    for row in Results(run.files).rows():
        if row.status is Status.FAILED:
            result = run.result(row.key)
            error, node, traceback = (result.error, result.node, result.traceback) if result else (None, None, None)
            rows.append({"trial": row.name, "error": error or row.error, "node": node, "traceback": traceback})
    return rows


@app.command("list")
def list_runs(runs_dir: RunsDir = Path("runs"), wide: Wide = False, as_json: Json = False) -> None:
    """All runs, the last started first: their states, and how far they are."""
    from pilotstudy.console import message
    from pilotstudy.report.progress import list_text
    from pilotstudy.runs.folder import Run
    from pilotstudy.runs.status import listed

    rows = sorted(map(listed, Run.all(runs_dir)), key=lambda row: str(row["started"] or ""), reverse=True)
    if as_json:
        print(json.dumps(rows))
        return
    print(list_text(rows, output_width(wide)) or f"no runs in {runs_dir}")
    for row in rows:
        if row["problem"]:
            message(f"run {row['run']!r} cannot be read: {row['problem']}")


@app.command()
def stop(run: RunArgument, runs_dir: RunsDir = Path("runs"), address: JobServer = None) -> None:
    """Ask a run to save and end, wherever it runs; `resume` goes on from there."""
    if address:
        from pilotstudy.cluster.jobs import Jobs

        Jobs(address).stop(run)
        return
    from pilotstudy.console import message
    from pilotstudy.errors import InputError
    from pilotstudy.runs.folder import Run
    from pilotstudy.storage import write

    named_run = Run.find(run, runs_dir)
    if not named_run.at_work():
        raise InputError(f"run {named_run.name!r} is not at work")
    write(named_run.files.stop, "")
    message(f"asked {named_run.holder()} to stop; {named_run.files.hint('resume')} goes on")


@app.command()
def show(study: StudyArgument, set_: Set = None, as_json: Json = False) -> None:
    """A study as it would run, with every default filled in; what is not set is a comment."""
    from pilotstudy.study import toml

    loaded = study_with(study, set_=set_).model_dump()
    loaded.pop("imported")  # what only `pilotstudy import` makes
    print(json.dumps(loaded) if as_json else toml.toml_text(loaded, unset=True), end="\n" if as_json else "")


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
    from pilotstudy.report import plain
    from pilotstudy.schedule import prices

    changed = study_with(
        study,
        trials=trials,
        seeds=seeds,
        epochs=epochs,
        train_size=train_size,
        set_=set_,
        cpus_per_trial=cpus_per_trial,
        gpus_per_trial=gpus_per_trial,
        concurrency=concurrency,
    )
    named = prices.find(gpu) if gpu else None
    dollars = prices.price_of(price) if price else None
    from pilotstudy.schedule.plan import plan_study

    estimate = plan_study(changed, data_dir, gpu=named, price=dollars)
    print(json.dumps(estimate) if as_json else plain.plan_text(estimate, output_width()))
