"""Commands that read a run: its results, tables, claims, comparisons."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pilotstudy.cli.options import Json, Quiet, RunArgument, RunsDir

if TYPE_CHECKING:
    from pilotstudy.runs import Run

app = typer.Typer()


def print_results(run: "Run", form: str) -> None:
    from pilotstudy import report
    from pilotstudy.results import Results, optimism, summary

    results = Results(run.files)
    rows = summary(results)
    if form == "json":
        print(json.dumps({"results": rows, "optimism": optimism(results.trials.to_pylist())}))
    elif form == "csv":
        print(report.csv(rows), end="")
    elif form == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), pa.PythonFile(sys.stdout.buffer, "w"))
    else:
        print(report.results_text(rows, optimism(results.trials.to_pylist())))


@app.command()
def results(
    run: RunArgument,
    runs_dir: RunsDir = Path("runs"),
    form: Annotated[Literal["table", "csv", "json", "parquet"], typer.Option("--format")] = "table",
    as_json: Json = False,
) -> None:
    """A row for each arm, mode and phase: test figures, mean and sample deviation over seeds."""
    from pilotstudy.runs import Run

    print_results(Run.find(run, runs_dir), "json" if as_json else form)


At = Annotated[
    Literal["last", "best"], typer.Option(help="Which epoch: the last, or that with the lowest validation NLL.")
]
Scaled = Annotated[bool, typer.Option("--scaled", help="After temperature scaling fitted on validation.")]
Metrics = Annotated[list[str] | None, typer.Option("--metric", help="Default: accuracy, nll and ece.")]


def chosen_metrics(given: list[str] | None) -> list[str]:
    from pilotstudy import statements
    from pilotstudy.errors import InputError, nearest

    for name in given or []:
        if name not in statements.METRICS:
            raise InputError(f"--metric {name}: {nearest(name, statements.METRICS)}")
    return given or ["accuracy", "nll", "ece"]


@app.command()
def table(
    run: RunArgument,
    like: Annotated[Literal["paper"] | None, typer.Option(help="Its rows in its order, its figures beside.")] = None,
    form: Annotated[Literal["text", "markdown", "latex", "csv", "json", "html"], typer.Option("--format")] = "text",
    metric: Metrics = None,
    at: At = "last",
    scaled: Scaled = False,
    runs_dir: RunsDir = Path("runs"),
    as_json: Json = False,
) -> None:
    """A table to publish: every row with its spread and interval, the best marked only where it is really the best."""
    from pilotstudy import tabulate
    from pilotstudy.runs import Run

    names = chosen_metrics(metric)
    found = tabulate.build(Run.find(run, runs_dir), like_paper=bool(like), names=names, at=at, scaled=scaled)
    print(tabulate.FORMATS["json" if as_json else form](found))


@app.command()
def claims(
    run: RunArgument,
    claim: Annotated[
        list[str] | None,
        typer.Option(help="One more, such as 'nll: pilot-a-aug < dropout@mc'; it counts as an afterthought."),
    ] = None,
    runs_dir: RunsDir = Path("runs"),
    as_json: Json = False,
) -> None:
    """What the run says of the study's claims: holds, fails or undecided, with the numbers."""
    from pilotstudy import claims as judging
    from pilotstudy import report
    from pilotstudy.runs import Run
    from pilotstudy.spec import Claim
    from pilotstudy.statements import Statement

    for text in claim or []:
        Statement.parse(text)  # tells what is wrong with it
    extra = [Claim(says=text, holds=text, only=()) for text in claim or []]
    found = judging.judge_all(Run.find(run, runs_dir), extra)
    print(json.dumps(judging.rows(found)) if as_json else report.claims_text(found))


@app.command()
def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="One run: its rows; several: the same rows.")],
    against: Annotated[str, typer.Option(help="Within one run: the row to compare all others with.")] = "vanilla",
    metric: Metrics = None,
    at: At = "last",
    scaled: Scaled = False,
    runs_dir: RunsDir = Path("runs"),
    as_json: Json = False,
) -> None:
    """Differences with intervals and corrected p-values: between rows of one run, or between runs."""
    from pilotstudy import comparing, report, statements
    from pilotstudy.runs import Run

    names = chosen_metrics(metric)
    found = [Run.find(run, runs_dir) for run in runs]
    if len(found) == 1:
        rows = comparing.within(found[0], statements.Row.parse(against), names, at=at, scaled=scaled)
    else:
        rows = comparing.between(found, names, at=at, scaled=scaled)
    print(json.dumps(rows) if as_json else report.table(rows))


@app.command()
def ensembles(run: RunArgument, at: At = "last", runs_dir: RunsDir = Path("runs"), as_json: Json = False) -> None:
    """Ensembles from the stored predictions: the paper's, of all baselines, and of the seeds of every arm."""
    from pilotstudy import evidence, report
    from pilotstudy.runs import Run

    rows = evidence.ensembles(Run.find(run, runs_dir), at)
    shown = ("row", "scaled", "seeds", "accuracy", "nll", "ece", "ece_noise_floor", "brier", "aurc", "entropy")
    print(json.dumps(rows) if as_json else report.table([{name: row[name] for name in shown} for row in rows]))


@app.command()
def export(
    run: RunArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="A folder that does not exist yet.")],
    runs_dir: RunsDir = Path("runs"),
    quiet: Quiet = False,
) -> None:
    """Everything for an appendix: CSV, Parquet, LaTeX, the frozen study and a paragraph on the methods."""
    from pilotstudy.exporting import export as write
    from pilotstudy.progress import message
    from pilotstudy.runs import Run

    message(f"{write(Run.find(run, runs_dir), output)} files in {output}")


@app.command()
def dashboard(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="A run's name, or the path of its folder.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Default: dashboard.html in the run folder.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Serve it on localhost and update it while the study runs.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --live; 0 takes a free one.")] = 8266,
    all_: Annotated[bool, typer.Option("--all", help="A page for every run, and an index of them.")] = False,
    runs_dir: RunsDir = Path("runs"),
    quiet: Quiet = False,
) -> None:
    """A page that tells the story of a study: one HTML file that opens anywhere, with no network."""
    from pilotstudy.dashboard import page
    from pilotstudy.errors import InputError
    from pilotstudy.runs import Run

    if (run is None) != all_ or (all_ and live):
        raise InputError("give a run, with or without --live, or --all")
    if run is None:
        print(page.save_index(Run.all(runs_dir), runs_dir, output))
        return
    found = Run.find(run, runs_dir)
    if not live:
        print(page.save(found, output))
        return
    serve(found, port)


def serve(run: "Run", port: int) -> None:
    from pilotstudy.dashboard.live import server
    from pilotstudy.errors import InputError
    from pilotstudy.progress import message

    try:
        serving = server(run, port)
    except OSError as error:
        raise InputError(f"port {port} is taken: give another with --port") from error
    print(f"http://127.0.0.1:{serving.server_address[1]}/", flush=True)
    message("Ctrl-C ends the server; the run goes on")
    with serving:
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            return
