"""Commands about what there is: arms, studies, data sets, this machine."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from pilotstudy.cli import completion
from pilotstudy.cli.options import DataDir, Json, Quiet, Wide, folder
from pilotstudy.console import output_width

app = typer.Typer()
data_app = typer.Typer(help="Data sets: list, prepare, verify.", no_args_is_help=True)
app.add_typer(data_app, name="data")


@app.command("arms")
def list_arms(as_json: Json = False) -> None:
    """The arms: what each does, its settings with their defaults, and what a search may change."""
    from pilotstudy.arms.catalogue import all_arms
    from pilotstudy.report.plain import arms_rows, arms_text

    print(json.dumps(arms_rows(all_arms().values())) if as_json else arms_text(all_arms().values(), output_width()))


@app.command("check")
def check_file(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|RUN", parser=folder, help="A Python file such as my_lab.py, or the folder of a run."
        ),
    ],
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Hold the arms, networks and metrics of a file to the contract of our own. Exit code 1 if one does not keep it."""
    from pilotstudy import extensions
    from pilotstudy.errors import InputError
    from pilotstudy.report import plain
    from pilotstudy.runs.folder import Run
    from pilotstudy.runs.trust import trust
    from pilotstudy.study import reading
    from pilotstudy.study.spec import Used

    if path.is_dir():
        uses = Run.find(str(path), path.parent).study().uses
    else:
        uses = tuple(Used.model_validate(used) for used in reading.read_uses([path.name], path.parent))
    for used in uses:
        extensions.load(used.name, used.text)
    from pilotstudy.schedule.contract import check_module

    rows = [each.record() for used in uses for each in check_module(extensions.module_name(used.name))]
    if not rows:
        raise InputError(
            f"{path} declares nothing: put @pilotstudy.arm, .network or .metric before a function or class"
        )
    print(json.dumps(rows) if as_json else plain.table(rows, output_width()))
    if any(row["state"] == "fails" for row in rows):
        raise typer.Exit(1)
    trust(uses)


@app.command("studies")
def list_studies(as_json: Json = False) -> None:
    """The built-in studies."""
    from pilotstudy.report import plain
    from pilotstudy.study import reading

    studies = [reading.read_study(name) for name in reading.builtin_studies()]
    rows = [
        {"study": s.name, "title": s.title, "data": s.data.name, "network": s.network.name, "arms": len(s.arms)}
        for s in studies
    ]
    print(json.dumps(rows) if as_json else plain.table(rows, output_width()))


@data_app.command("list")
def data_list(data_dir: DataDir = None, wide: Wide = False, as_json: Json = False) -> None:
    """What is prepared, from whatever folder, and the known data sets that are not: where each would come from."""
    from pilotstudy.data import prepared

    print_data(prepared.data_rows(data_dir), as_json, wide)


def print_data(rows: Sequence[Mapping[str, str | int | None]], as_json: bool, wide: bool = False) -> None:
    from pilotstudy.report import plain

    short = [{**row, "fingerprint": str(row["fingerprint"] or "")[:12]} for row in rows]
    text = plain.table(short, output_width(wide), extras=["fingerprint"])
    print(json.dumps(list(rows)) if as_json else text or "nothing is prepared")


@data_app.command("prepare")
def data_prepare(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="Known data sets, or your own: a folder, a .npz file, hf:owner/name.",
            autocompletion=completion.data_sets,
        ),
    ],
    data_dir: DataDir = None,
    wide: Wide = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Download or read a data set and prepare it, so that no study has to wait for it."""
    from pilotstudy.data import dataset

    print_data([dataset.summary(dataset.load_data(name, data_dir)) for name in names], as_json, wide)


@data_app.command("verify")
def data_verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Default: all prepared ones.", autocompletion=completion.data_sets),
    ] = None,
    data_dir: DataDir = None,
    wide: Wide = False,
    as_json: Json = False,
) -> None:
    """Read every prepared image again and compare with its fingerprint. Exit code 3 if one is damaged."""
    from pilotstudy.data import prepared
    from pilotstudy.errors import DataError

    rows = prepared.verified_rows(names, data_dir)
    print_data(rows, as_json, wide)
    damaged = [row for row in rows if row["state"] == "damaged"]
    if damaged:
        command = shlex.join(["pilotstudy", "data", "prepare", *prepared.how_to_prepare(damaged[0])])
        raise DataError(f"damaged: {', '.join(str(row['name']) for row in damaged)}; `{command}` makes it anew")


@app.command()
def doctor(
    address: Annotated[
        str | None,
        typer.Option(help="A cluster instead: HOST:PORT or auto, or its job server, such as http://127.0.0.1:8265."),
    ] = None,
    runs_dir: Annotated[
        str | None,
        typer.Option(
            envvar="PILOTSTUDY_RUNS", metavar="FOLDER|URI", help="Also try whether runs can be written there."
        ),
    ] = None,
    install: Annotated[
        bool, typer.Option(help="Through a job server: nodes install what we need beside Ray, as `submit` has them do.")
    ] = True,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """What works on this machine, or on each kind of node of a cluster, and what to do about the rest.

    Exit code 1 if a study could not run.
    """
    from pilotstudy.report import plain

    if address and "://" in address:
        from pilotstudy.cluster.jobs import Jobs, everywhere

        if runs_dir:
            everywhere("--runs-dir", runs_dir)
        rows = Jobs(address).doctor(runs_dir, install=install)
    elif address:
        from pilotstudy.cluster import nodes

        rows = nodes.examine(address, runs_dir)
    else:
        from pilotstudy.schedule.doctor import examine

        rows = examine(data_dir, runs_dir)
    print(json.dumps(rows) if as_json else plain.table(rows, output_width()))
    if any(row["state"] == "fails" for row in rows):
        raise typer.Exit(1)
