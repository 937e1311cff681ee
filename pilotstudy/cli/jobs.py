"""Commands for studies on a cluster: submit, jobs, logs."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from pilotstudy.cli.choices import run_limits, study_with
from pilotstudy.cli.options import (
    WAIT,
    Concurrency,
    CpusPerTrial,
    Epochs,
    GpusPerTrial,
    Json,
    MaxCost,
    MaxSeeds,
    Mps,
    Name,
    Price,
    Seeds,
    Set,
    StudyArgument,
    TimeBudget,
    TrainSize,
    Trials,
    UntilDecided,
    Wait,
)
from pilotstudy.console import output_width

if TYPE_CHECKING:
    from pilotstudy.cluster.jobs import Jobs

app = typer.Typer()

Address = Annotated[str, typer.Option(help="The cluster's job server; `ray dashboard` or a tunnel brings it here.")]
DEFAULT = "http://127.0.0.1:8265"


@app.command()
def submit(
    study: StudyArgument,
    address: Address = DEFAULT,
    trials: Trials = None,
    seeds: Seeds = None,
    until_decided: UntilDecided = False,
    max_seeds: MaxSeeds = None,
    epochs: Epochs = None,
    train_size: TrainSize = None,
    name: Name = None,
    runs_dir: Annotated[
        str | None,
        typer.Option(
            envvar="PILOTSTUDY_RUNS",
            metavar="FOLDER|URI",
            help="Where run folders lie, seen by every node: s3://.., gs://.. or the whole path of a folder.",
        ),
    ] = None,
    set_: Set = None,
    concurrency: Concurrency = None,
    cpus_per_trial: CpusPerTrial = None,
    gpus_per_trial: GpusPerTrial = None,
    mps: Mps = False,
    time_budget: TimeBudget = None,
    max_cost: MaxCost = None,
    price: Price = None,
    wait: Wait = WAIT,
    data_dir: Annotated[str | None, typer.Option(help="Folder with data sets, as the cluster sees it.")] = None,
    install: Annotated[
        bool, typer.Option(help="Nodes install what we need beside Ray, once; needless where they have it (our image).")
    ] = True,
    follow: Annotated[bool, typer.Option("--follow", help="Show its output until it ends.")] = False,
) -> None:
    """Send a study to a cluster and come back at once. The same name again continues the run."""
    from pilotstudy.cluster.jobs import Jobs, everywhere
    from pilotstudy.errors import InputError
    from pilotstudy.study.looks import asked_looks
    from pilotstudy.study.naming import check_run_name

    if runs_dir is None:
        raise InputError(
            "give --runs-dir (or set PILOTSTUDY_RUNS): s3://bucket/runs, or the path of a folder that all nodes see"
        )
    everywhere("--runs-dir", runs_dir)
    if data_dir:
        everywhere("--data-dir", data_dir)
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
    _, looks = asked_looks(changed, until_decided=until_decided, max_seeds=max_seeds, seeds=seeds)
    limits = run_limits(time_budget, max_cost, price, wait)
    called = check_run_name(changed.name if name is None else name)
    sent = Jobs(address)
    run = sent.submit(changed, called, runs_dir, data_dir, limits, install=install, looks=looks)
    print(run, flush=True)
    if follow:
        show(sent, run)


def show(sent: "Jobs", run: str) -> None:
    from pilotstudy.errors import NotDoneError

    for text in sent.follow(run):
        print(text, end="", flush=True)
    state = str(sent.find(run).status.value)
    if state != "SUCCEEDED":
        raise NotDoneError(f"run {run!r} ended as {state.lower()}; {sent.hint('resume', run)} goes on")


@app.command("jobs")
def list_jobs(address: Address = DEFAULT, as_json: Json = False) -> None:
    """The studies that were sent to a cluster."""
    from pilotstudy.cluster.jobs import Jobs
    from pilotstudy.report import plain

    rows = Jobs(address).rows()
    print(json.dumps(rows) if as_json else plain.table(rows, output_width()) or "no studies were sent to this cluster")


@app.command()
def logs(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The name of a run that was submitted.")],
    address: Address = DEFAULT,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show its output until it ends.")] = False,
) -> None:
    """What a submitted study has printed."""
    from pilotstudy.cluster.jobs import Jobs

    sent = Jobs(address)
    if follow:
        show(sent, run)
    else:
        print(sent.logs(run), end="")
