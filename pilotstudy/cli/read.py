"""Commands that read a run: its results, tables, claims, comparisons."""

import json
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pilotstudy.cli.options import Json, Quiet, RunArgument, RunsDir

if TYPE_CHECKING:
    from pilotstudy.evidence.run_evidence import RunEvidence
    from pilotstudy.metrics.recalibration import Recalibration
    from pilotstudy.runs.folder import Run

app = typer.Typer()


def wrapped(text: str) -> str:
    """For the width of the terminal, or of COLUMNS; 80 where there is neither."""
    return textwrap.fill(text, shutil.get_terminal_size().columns, break_long_words=False, break_on_hyphens=False)


def print_results(run: "Run", form: str) -> None:
    from dataclasses import asdict

    from pilotstudy.evidence.looking import outcome
    from pilotstudy.evidence.recommendation import answer
    from pilotstudy.evidence.run_evidence import RunEvidence
    from pilotstudy.evidence.summary import optimism, summary
    from pilotstudy.report import plain

    evidence = RunEvidence(run)
    rows, gaps = summary(evidence), optimism(evidence)
    records = [row.record() for row in rows]
    came = outcome(evidence) if form in ("json", "table") else None
    if form == "json":
        until_decided = {"until_decided": came.record()} if came else {}
        said = {"answer": answer(evidence).record(), "results": records, "optimism": [asdict(gap) for gap in gaps]}
        print(json.dumps(said | until_decided))
    elif form == "csv":
        print(plain.csv_text(records), end="")
    elif form == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(records), pa.PythonFile(sys.stdout.buffer, "w"))
    else:
        print(plain.results_text(rows, gaps))
        if came:
            print("", *came.words, sep="\n")
        print("", wrapped(answer(evidence).text), sep="\n")


@app.command()
def results(
    run: RunArgument,
    runs_dir: RunsDir = Path("runs"),
    form: Annotated[Literal["table", "csv", "json", "parquet"], typer.Option("--format")] = "table",
    as_json: Json = False,
) -> None:
    """A row for each arm, mode and phase: test figures, mean and sample deviation over seeds."""
    from pilotstudy.runs.folder import Run

    print_results(Run.find(run, runs_dir), "json" if as_json else form)


At = Annotated[
    Literal["last", "best"], typer.Option(help="Which epoch: the last, or that with the lowest validation NLL.")
]
RecalibrationName = Literal["temperature", "vector", "matrix", "platt"]
Recalibrate = Annotated[
    RecalibrationName | None,
    typer.Option(help="After recalibration fitted on validation; all but temperature may change the accuracy."),
]
Scaled = Annotated[bool, typer.Option("--scaled", help="Short for --recalibrate temperature.")]
Metrics = Annotated[list[str] | None, typer.Option("--metric", help="Default: accuracy, nll and ece.")]


def chosen_recalibration(recalibrate: RecalibrationName | None, scaled: bool) -> "Recalibration":
    from pilotstudy.errors import InputError

    if scaled and recalibrate not in (None, "temperature"):
        raise InputError(f"--scaled is short for --recalibrate temperature, not {recalibrate}: give one of them")
    return recalibrate or ("temperature" if scaled else "none")


Test = Annotated[
    str | None, typer.Option("--test", help="A further test set of the study. Default: its own test images.")
]


def chosen_metrics(given: list[str] | None, evidence: "RunEvidence", test: str) -> list[str]:
    from pilotstudy.errors import InputError, nearest
    from pilotstudy.metrics.ood import RESAMPLED_OOD_METRICS
    from pilotstudy.metrics.registry import resampled_metrics

    known = RESAMPLED_OOD_METRICS if evidence.is_ood(test) else resampled_metrics()
    for name in given or []:
        if name not in known:
            raise InputError(f"--metric {name}: {nearest(name, known)}")
    return given or list(evidence.headline(test))


@app.command()
def table(
    run: RunArgument,
    like: Annotated[Literal["paper"] | None, typer.Option(help="Its rows in its order, its figures beside.")] = None,
    form: Annotated[Literal["text", "markdown", "latex", "csv", "json", "html"], typer.Option("--format")] = "text",
    metric: Metrics = None,
    at: At = "last",
    recalibrate: Recalibrate = None,
    scaled: Scaled = False,
    test: Test = None,
    cost: Annotated[bool, typer.Option("--cost", help="Parameters, training seconds and passes at test, too.")] = False,
    runs_dir: RunsDir = Path("runs"),
    as_json: Json = False,
) -> None:
    """A table to publish: every row with its spread and interval, the best marked only where it is really the best."""
    from pilotstudy.evidence.run_evidence import RunEvidence
    from pilotstudy.report.formats import FORMATS
    from pilotstudy.report.table import build_table
    from pilotstudy.runs.folder import Run

    recalibration = chosen_recalibration(recalibrate, scaled)
    evidence = RunEvidence(Run.find(run, runs_dir))
    metrics = chosen_metrics(metric, evidence, test or "test")
    built = build_table(
        evidence,
        like_paper=bool(like),
        metrics=metrics,
        at=at,
        recalibration=recalibration,
        with_cost=cost,
        test=test or "test",
    )
    print(FORMATS["json" if as_json else form](built))


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
    from pilotstudy.console import message
    from pilotstudy.evidence.claims import judge_all
    from pilotstudy.evidence.recommendation import answer
    from pilotstudy.evidence.reservations import reservations
    from pilotstudy.evidence.run_evidence import RunEvidence
    from pilotstudy.report.plain import claims_text
    from pilotstudy.runs.folder import Run
    from pilotstudy.study.spec import Claim
    from pilotstudy.study.statements import Statement

    evidence = RunEvidence(Run.find(run, runs_dir))
    for text in claim or []:
        Statement.parse(text, evidence.known, evidence.kinds)  # tells what is wrong with it
    extra = [Claim(says=text, holds=text, only=()) for text in claim or []]
    judged = judge_all(evidence, extra)
    recommended = answer(evidence)
    if as_json:
        print(json.dumps({"answer": recommended.record(), "claims": [claim.record() for claim in judged]}))
    else:
        print(wrapped(recommended.text), claims_text(judged, reservations(evidence.run)), sep="\n\n")
    if not judged:
        message("--claim 'nll: pilot-a-aug < vanilla' tries one")


@app.command()
def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="One run: its rows; several: the same rows.")],
    against: Annotated[
        str | None, typer.Option(help="With one run: the row to compare all others with. Default: the reference.")
    ] = None,
    metric: Metrics = None,
    at: At = "last",
    recalibrate: Recalibrate = None,
    scaled: Scaled = False,
    test: Test = None,
    runs_dir: RunsDir = Path("runs"),
    as_json: Json = False,
) -> None:
    """Differences with intervals and corrected p-values: between rows of one run, or between runs."""
    from pilotstudy.evidence.compare import compare_rows, compare_runs, reference_row
    from pilotstudy.evidence.run_evidence import RunEvidence
    from pilotstudy.report import plain
    from pilotstudy.runs.folder import Run
    from pilotstudy.study.statements import Row

    recalibration = chosen_recalibration(recalibrate, scaled)
    evidence = [RunEvidence(Run.find(run, runs_dir)) for run in runs]
    split = test or "test"
    metrics = chosen_metrics(metric, evidence[0], split)
    if len(evidence) == 1:
        row = Row.parse(against, evidence[0].known) if against else reference_row(evidence[0])
        within = compare_rows(evidence[0], row, metrics, at=at, recalibration=recalibration, test=split)
        records = [comparison.record() for comparison in within]
    else:
        between = compare_runs(evidence, metrics, at=at, recalibration=recalibration, test=split)
        records = [comparison.record() for comparison in between]
    print(json.dumps(records) if as_json else plain.table(records))


@app.command()
def ensembles(
    run: RunArgument,
    at: At = "last",
    recalibrate: Annotated[RecalibrationName, typer.Option(help="What is shown beside ensembles as they are.")] = (
        "temperature"
    ),
    runs_dir: RunsDir = Path("runs"),
    as_json: Json = False,
) -> None:
    """Ensembles from the stored predictions: the paper's, of all baselines, and of the seeds of every arm."""
    from pilotstudy.evidence.ensembles import ensemble_figures
    from pilotstudy.evidence.run_evidence import RunEvidence
    from pilotstudy.report.plain import ensembles_text
    from pilotstudy.runs.folder import Run

    rows = ensemble_figures(RunEvidence(Run.find(run, runs_dir)), at, recalibrate)
    print(json.dumps([row.record() for row in rows]) if as_json else ensembles_text(rows))


@app.command("tests")
def show_tests(run: RunArgument, runs_dir: RunsDir = Path("runs"), as_json: Json = False) -> None:
    """The study's further test sets: figures with the difference to the clean test, and what is recognised as new."""
    from pilotstudy.evidence.run_evidence import RunEvidence
    from pilotstudy.evidence.shift import all_test_figures
    from pilotstudy.report.plain import tests_text
    from pilotstudy.runs.folder import Run

    evidence = RunEvidence(Run.find(run, runs_dir))
    figures = all_test_figures(evidence)
    print(json.dumps([figure.record() for figure in figures]) if as_json else tests_text(figures))


@app.command()
def export(
    run: RunArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="A folder that does not exist yet.")],
    runs_dir: RunsDir = Path("runs"),
    quiet: Quiet = False,
) -> None:
    """Everything for an appendix: CSV, Parquet, LaTeX, the frozen study and a paragraph on the methods."""
    from pilotstudy.console import message
    from pilotstudy.report.export import export as write
    from pilotstudy.runs.folder import Run

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
    from pilotstudy.errors import InputError
    from pilotstudy.page import render
    from pilotstudy.runs.folder import Run

    if (run is None) != all_ or (all_ and live):
        raise InputError("give a run, with or without --live, or --all")
    if run is None:
        print(render.save_index(Run.all(runs_dir), runs_dir, output))
        return
    named_run = Run.find(run, runs_dir)
    if not live:
        print(render.save(named_run, output))
        return
    serve(named_run, port)


def serve(run: "Run", port: int) -> None:
    from pilotstudy.console import message
    from pilotstudy.errors import InputError
    from pilotstudy.page.server import server

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
