"""Commands about what there is: arms, studies, data sets, this machine."""

import json
from typing import Annotated

import typer

from pilotstudy.cli.options import DataDir, Json, Quiet

app = typer.Typer()
data_app = typer.Typer(help="Data sets: list, prepare, verify.", no_args_is_help=True)
app.add_typer(data_app, name="data")


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
    from pilotstudy import report

    if address and "://" in address:
        from pilotstudy.cluster.jobs import Jobs, everywhere

        if runs_dir:
            everywhere("--runs-dir", runs_dir)
        rows = Jobs(address).doctor(runs_dir, install=install)
    elif address:
        from pilotstudy.cluster import nodes

        rows = nodes.examine(address, runs_dir)
    else:
        from pilotstudy.doctor import examine

        rows = examine(data_dir, runs_dir)
    print(json.dumps(rows) if as_json else report.table(rows))
    if any(row["state"] == "fails" for row in rows):
        raise typer.Exit(1)
