"""The command that begins a study: it writes the first file."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="What the study, and its run, is called; with or without .toml.")],
    data: Annotated[
        str, typer.Option(help="A known data set, hf:owner/name, or a folder or .npz file of your own.")
    ] = "fashion",
    network: Annotated[str | None, typer.Option(help="Default: mlp-512, or with --lab the one in that file.")] = None,
    arms: Annotated[str | None, typer.Option(help="With commas between them; `pilotstudy arms` lists them.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The file. Default: NAME.toml, here.")] = None,
    lab: Annotated[bool, typer.Option("--lab", help="Also a Python file with a network, an arm and a metric.")] = False,
) -> None:
    """Write a short study file with comments, to change and to run."""
    from pilotstudy.console import message
    from pilotstudy.study.beginning import Beginning
    from pilotstudy.study.naming import check_run_name

    name = check_run_name(name, "NAME").removesuffix(".toml")
    listed = tuple(arm.strip() for arm in arms.split(",") if arm.strip()) if arms else ()
    files = Beginning(name, data, network, listed, lab).write(output or Path(f"{name}.toml"))
    for file in files:
        print(file)
    shown = shlex.quote(str(files[0]))
    message(
        f"next: pilotstudy run {shown} --dry-run (what would run), pilotstudy plan {shown} (how long), "
        f"pilotstudy run {shown}"
    )
