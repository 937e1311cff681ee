"""The command that brings predictions from elsewhere."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotstudy.cli.options import Json, Quiet, RunsDir
from pilotstudy.console import output_width

if TYPE_CHECKING:
    from pilotstudy.arms.arm import Role
    from pilotstudy.runs.folder import Run

app = typer.Typer()


@app.command("import")
def import_run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the run to make, or to add to.")],
    predictions: Annotated[
        list[Path],
        typer.Option(metavar="FILE..", help="NPZ, Parquet or CSV; give it again, or list several files after it."),
    ],
    more: Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...", help="More files of predictions.")] = None,
    title: Annotated[str, typer.Option(help="Of tables and the page. Default: the name.")] = "",
    data_name: Annotated[str, typer.Option(help="What the images are called. Default: the name.")] = "",
    reference: Annotated[str | None, typer.Option(help="The arm that stands for no method at all.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="An arm that this is about.")] = None,
    baseline: Annotated[list[str] | None, typer.Option(help="An arm that methods are compared with.")] = None,
    claims: Annotated[
        Path | None, typer.Option(help="A TOML file of claims, as study files have them; they count as afterthoughts.")
    ] = None,
    runs_dir: RunsDir = Path("runs"),
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a run of predictions from a training script of your own: table, claims, compare and dashboard read it.

    NPZ: logits or probabilities (images × classes), labels, arm and seed (or in the name: ARM-seed3.npz). Parquet, CSV:
    a row for each image with label, arm, seed and logit_0, logit_1, .. or prob_0, prob_1, ..
    """
    from pilotstudy.console import message
    from pilotstudy.runs.folder import Run
    from pilotstudy.runs.importing import Words, import_predictions
    from pilotstudy.study.naming import check_run_name
    from pilotstudy.study.reading import read_claims

    given: dict[Role, list[str]] = {"method": method or [], "baseline": baseline or []}
    given["reference"] = [reference] if reference else []
    roles = {arm: role for role, arms in given.items() for arm in arms}
    words = Words(title, data_name, roles, read_claims(claims) if claims else ())
    run = Run.named(check_run_name(name, "NAME"), runs_dir)
    new = import_predictions(run, [*predictions, *(more or [])], words)
    print_import(run, len(new), as_json)
    if not new:
        message(f"run {name!r} has all of these predictions already")
    message(f"{run.files.hint('claims')} says which arm to take, {run.files.hint('dashboard')} draws it")


def print_import(run: "Run", new: int, as_json: bool) -> None:
    """What the run has now."""
    from pilotstudy.report import plain
    from pilotstudy.runs.results import Results

    rows = Results(run.files).rows()
    arms = run.frozen().declared()
    lines: list[dict[str, object]] = [
        {
            "arm": name,
            "seeds": sum(row.arm == name for row in rows),
            "modes": " ".join(arm.modes),
            "role": arm.role or "",
            "images": next(e.n for row in rows if row.arm == name for e in row.evaluations if e.split == "test"),
            "validation": all(row.has_validation for row in rows if row.arm == name),
        }
        for name, arm in arms.items()
    ]
    content = {"run": run.name, "folder": str(run.files.folder), "new": new, "trials": len(rows), "arms": lines}
    print(json.dumps(content) if as_json else plain.table(lines, output_width()))
