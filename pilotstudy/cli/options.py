"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from pilotstudy.cli import completion

StudyArgument = Annotated[
    str,
    typer.Argument(
        metavar="STUDY", help="A built-in study, or the path of a study file.", autocompletion=completion.studies
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(envvar="PILOTSTUDY_DATA", help="Folder with data sets, as Parquet or image folders; else download."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Wide = Annotated[
    bool,
    typer.Option("--wide", help="All columns, however wide; pipes and files get them anyway, unless COLUMNS is set."),
]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the study file.")]


def be_quiet(quiet: bool) -> bool:
    from pilotstudy import console

    console.quiet = quiet
    return quiet


def folder(text: "str | Path") -> Path:
    from pilotstudy.storage import place

    return place(text)


Quiet = Annotated[bool, typer.Option("--quiet", "-q", callback=be_quiet, help="No messages, only data and errors.")]
RunsDir = Annotated[
    Path,
    typer.Option(
        envvar="PILOTSTUDY_RUNS",
        parser=folder,
        metavar="FOLDER|URI",
        help="Where run folders lie: a folder, or s3://.. or gs://..",
    ),
]
RunArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run's name, or the path of its folder.", autocompletion=completion.runs),
]
Trials = Annotated[
    int | None, typer.Option(min=0, max=1_000_000, help="Search trials in all, shared equally by the searched arms.")
]
Seeds = Annotated[int | None, typer.Option(min=1, max=10_000, help="How many seeds each arm is trained with.")]
UntilDecided = Annotated[
    bool,
    typer.Option("--until-decided", help="Add seeds in planned looks (3, 5, 8, 12, 20) until the claims are decided."),
]
MaxSeeds = Annotated[
    int | None, typer.Option(min=2, max=10_000, help="With --until-decided: the seeds of the last look. Default: 20.")
]
Epochs = Annotated[int | None, typer.Option(help="Default: the study's.")]
TrainSize = Annotated[int | None, typer.Option(help="A class-balanced subset of the training images.")]
Concurrency = Annotated[int | None, typer.Option(min=1, help="Trials at once. Default: as many as fit.")]
CpusPerTrial = Annotated[int | None, typer.Option(min=1, help="CPUs, and so torch threads, of each trial.")]
TimeBudget = Annotated[float | None, typer.Option(min=0, help="Stop after this many seconds; `resume` goes on.")]
MaxCost = Annotated[
    float | None, typer.Option(min=0.01, help="Stop when this many dollars are spent, at --price; `resume` goes on.")
]
Price = Annotated[
    str | None,
    typer.Option(metavar="DOLLARS|GPU", help="What one machine costs an hour: dollars, or L4, A100, L4-spot, ..."),
]
Wait = Annotated[float, typer.Option(min=0, help="Minutes to wait for a cluster's first node before giving up.")]
Mps = Annotated[
    bool, typer.Option("--mps", help="Start NVIDIA's MPS on nodes that have it, for trials that share a GPU.")
]
WAIT = 30.0
Inline = Annotated[
    bool, typer.Option("--inline", help="Train in this process, one trial after another, without Ray: for debugging.")
]
Live = Annotated[bool, typer.Option("--live", help="Serve the run's page on localhost while it trains, and open it.")]
Port = Annotated[
    int | None, typer.Option(min=0, max=65535, help="With --live; 0 takes a free one. Default: 8266, or a free one.")
]
JobServer = Annotated[
    str | None,
    typer.Option(
        "--address", help="A cluster's job server, such as http://127.0.0.1:8265, for a run that was submitted."
    ),
]
GpusPerTrial = Annotated[str | None, typer.Option(help="1, 1/k for k trials on a GPU, or auto. Default: the CPU.")]
Name = Annotated[str | None, typer.Option(help="The run's name. Default: the study's.")]
