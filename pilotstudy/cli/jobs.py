"""Commands for studies on a cluster: submit, jobs, logs."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from pilotstudy.cli.options import (
    Concurrency,
    CpusPerTrial,
    Epochs,
    GpusPerTrial,
    Json,
    Name,
    Seeds,
    Set,
    StudyArgument,
    TrainSize,
    Trials,
)
from pilotstudy.cli.studies import run_options, study_with

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
    epochs: Epochs = None,
    train_size: TrainSize = None,
    name: Name = None,
    runs_dir: Annotated[str, typer.Option(help="Where run folders lie, on storage that every node sees.")] = "runs",
    set_: Set = None,
    concurrency: Concurrency = None,
    cpus_per_trial: CpusPerTrial = None,
    gpus_per_trial: GpusPerTrial = None,
    data_dir: Annotated[str | None, typer.Option(help="Folder with data sets, as the cluster sees it.")] = None,
    install: Annotated[
        bool, typer.Option(help="Nodes install what we need beside Ray, once; needless where they have it (our image).")
    ] = True,
    follow: Annotated[bool, typer.Option("--follow", help="Show its output until it ends.")] = False,
) -> None:
    """Send a study to a cluster and come back at once. The same name again continues the run."""
    from pilotstudy.cluster.jobs import Jobs

    loaded = study_with(study, trials, seeds, epochs, train_size, set_)
    options = run_options(loaded, data_dir, cpus_per_trial, gpus_per_trial, concurrency)
    sent = Jobs(address)
    run = sent.submit(loaded, name or loaded.name, runs_dir, options, install=install)
    print(run, flush=True)
    if follow:
        show(sent, run)


def show(sent: "Jobs", run: str) -> None:
    from pilotstudy.errors import NotDoneError

    for text in sent.follow(run):
        print(text, end="", flush=True)
    state = str(sent.find(run).status.value)
    if state != "SUCCEEDED":
        raise NotDoneError(f"run {run!r} ended as {state.lower()}; `pilotstudy resume {run} --address ..` goes on")


@app.command("jobs")
def list_jobs(address: Address = DEFAULT, as_json: Json = False) -> None:
    """The studies that were sent to a cluster."""
    from pilotstudy import report
    from pilotstudy.cluster.jobs import Jobs

    rows = Jobs(address).rows()
    print(json.dumps(rows) if as_json else report.table(rows) or "no studies were sent to this cluster")


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
