"""Commands that read a run: its results, tables, claims, comparisons."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pilotstudy.cli import completion
from pilotstudy.cli.options import Json, Quiet, RunArgument, RunsDir, Wide
from pilotstudy.console import output_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pilotstudy.evidence.compare import RowComparison, RunComparison
    from pilotstudy.evidence.run_evidence import RunEvidence
    from pilotstudy.metrics.recalibration import Recalibration
    from pilotstudy.runs.folder import Run

app = typer.Typer()


@app.command()
def results(
    run: RunArgument,
    runs_dir: RunsDir = Path("runs"),
    form: Annotated[Literal["table", "csv", "json", "parquet"], typer.Option("--format")] = "table",
    wide: Wide = False,
    as_json: Json = False,
) -> None:
    """A row for each arm, mode and phase: test figures, mean and sample deviation over seeds."""
    from pilotstudy.evidence.run_evidence import RunEvidence
    from pilotstudy.evidence.summary import optimism, summary
    from pilotstudy.report import plain, texts
    from pilotstudy.runs.folder import Run

    evidence = RunEvidence(Run.find(run, runs_dir))
    if as_json or form == "json":
        print(json.dumps(results_record(evidence)))
        return
    rows = summary(evidence)
    records = [row.record() for row in rows]
    if form == "csv":
        print(plain.csv_text(records), end="")
    elif form == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(records), pa.PythonFile(sys.stdout.buffer, "w"))
    else:
        width = output_width(wide)
        print(texts.results_text(rows, optimism(evidence), width))
        print_outcome_and_answer(evidence, width)


def results_record(evidence: "RunEvidence") -> dict[str, object]:
    from dataclasses import asdict

    from pilotstudy.evidence.looking import outcome
    from pilotstudy.evidence.recommendation import answer
    from pilotstudy.evidence.summary import optimism, summary

    came = outcome(evidence)
    record: dict[str, object] = {
        "answer": answer(evidence).record(),
        "results": [row.record() for row in summary(evidence)],
        "optimism": [asdict(gap) for gap in optimism(evidence)],
    }
    return record | ({"until_decided": came.record()} if came else {})


def print_outcome_and_answer(evidence: "RunEvidence", width: int | None) -> None:
    from pilotstudy.evidence.looking import outcome
    from pilotstudy.evidence.recommendation import answer
    from pilotstudy.report.layout import filled
    from pilotstudy.report.texts import answer_text

    if came := outcome(evidence):
        print("", *(filled(words, width) for words in came.words), sep="\n")
    print("", answer_text(answer(evidence), width), sep="\n")


def print_ending(run: "Run", *, wide: bool = False, as_json: bool = False) -> None:
    """With what a run ends: its table, its claims in a line each, and what to do, which is to be seen last."""
    from pilotstudy.evidence.claims import judge_all
    from pilotstudy.evidence.run_evidence import RunEvidence
    from pilotstudy.evidence.summary import optimism
    from pilotstudy.report import texts
    from pilotstudy.report.formats import as_text
    from pilotstudy.report.table import build_table

    evidence, width = RunEvidence(run), output_width(wide)
    judged = judge_all(evidence)
    if as_json:
        print(json.dumps(results_record(evidence) | {"claims": [claim.record() for claim in judged]}))
        return
    print(as_text(build_table(evidence), width))
    if gaps := optimism(evidence):
        print("", texts.optimism_text(gaps, width), sep="\n")
    if judged:
        print("", texts.claims_in_short(judged, run.files.hint("claims"), width), sep="\n")
    print_outcome_and_answer(evidence, width)


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


Test = Annotated[str, typer.Option(help="A further test set of the study; test is its own.")]


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
    test: Test = "test",
    cost: Annotated[bool, typer.Option("--cost", help="Parameters, training seconds and passes at test, too.")] = False,
    runs_dir: RunsDir = Path("runs"),
    wide: Wide = False,
    as_json: Json = False,
) -> None:
    """A table to publish: every row with its spread and interval, the best marked only where it is really the best."""
    from pilotstudy.evidence.run_evidence import RunEvidence
    from pilotstudy.report.formats import FORMATS, as_text
    from pilotstudy.report.table import build_table
    from pilotstudy.runs.folder import Run

    recalibration = chosen_recalibration(recalibrate, scaled)
    evidence = RunEvidence(Run.find(run, runs_dir))
    metrics = chosen_metrics(metric, evidence, test)
    built = build_table(
        evidence,
        like_paper=bool(like),
        metrics=metrics,
        at=at,
        recalibration=recalibration,
        with_cost=cost,
        test=test,
    )
    if form == "text" and not as_json:
        print(as_text(built, output_width(wide)))
    else:
        print(FORMATS["json" if as_json else form](built))


@app.command()
def claims(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...", help="One run, or several to see beside each other.", autocompletion=completion.runs
        ),
    ],
    claim: Annotated[
        list[str] | None,
        typer.Option(help="One more, such as 'nll: pilot-a-aug < dropout@mc'; it counts as an afterthought."),
    ] = None,
    form: Annotated[Literal["text", "markdown", "csv", "json"], typer.Option("--format")] = "text",
    runs_dir: RunsDir = Path("runs"),
    wide: Wide = False,
    as_json: Json = False,
) -> None:
    """What runs say of their studies' claims: holds, fails or undecided, with the numbers."""
    from pilotstudy.console import message
    from pilotstudy.evidence.claims import judge_all
    from pilotstudy.evidence.claims_beside import ClaimBeside, claims_beside
    from pilotstudy.evidence.recommendation import answer
    from pilotstudy.evidence.reservations import reservations
    from pilotstudy.evidence.run_evidence import RunEvidence
    from pilotstudy.report import claims_beside as forms
    from pilotstudy.report.texts import answer_text, claims_text
    from pilotstudy.runs.folder import Run, distinct
    from pilotstudy.study.spec import Claim
    from pilotstudy.study.statements import Statement

    found = [Run.find(run, runs_dir) for run in runs]
    names, evidence = distinct([run.files.folder for run in found]), [RunEvidence(run) for run in found]
    for text in claim or []:
        for each in evidence:
            Statement.parse(text, each.known, each.kinds)  # tells what is wrong with it
    extra = [Claim(says=text, holds=text, only=()) for text in claim or []]
    form, width = "json" if as_json else form, output_width(wide)
    if len(evidence) > 1:
        judged = claims_beside(evidence, extra)
        print(forms.FORMATS[form](judged, names) if form != "text" else forms.as_text(judged, names, width))
        return
    own = judge_all(evidence[0], extra)
    if form == "json":
        print(json.dumps({"answer": answer(evidence[0]).record(), "claims": [claim.record() for claim in own]}))
    elif form == "text":
        told = claims_text(own, reservations(found[0]), width)
        print(answer_text(answer(evidence[0]), width), told, sep="\n\n")
    else:
        print(forms.FORMATS[form]([ClaimBeside.of_one(claim) for claim in own], names))
    if not own and len(arms := evidence[0].arms) > 1:
        right = next((name for name, arm in arms.items() if arm.role == "reference"), next(iter(arms)))
        left = next((name for name, arm in arms.items() if arm.role == "method" and name != right), None)
        left = left or next(name for name in arms if name != right)
        message(f"one to try: {found[0].files.hint('claims', '--claim', f'nll: {left} < {right}').strip('`')}")


@app.command()
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...", help="One run: its rows; several: the same rows.", autocompletion=completion.runs
        ),
    ],
    against: Annotated[
        str | None,
        typer.Option(
            help="With one run: the row to compare all others with. Default: the reference.",
            autocompletion=completion.arms,
        ),
    ] = None,
    metric: Metrics = None,
    at: At = "last",
    recalibrate: Recalibrate = None,
    scaled: Scaled = False,
    test: Test = "test",
    runs_dir: RunsDir = Path("runs"),
    wide: Wide = False,
    as_json: Json = False,
) -> None:
    """Differences with intervals and corrected p-values: between rows of one run, or between runs."""
    from pilotstudy.evidence.compare import compare_rows, compare_runs, reference_row
    from pilotstudy.evidence.run_evidence import RunEvidence
    from pilotstudy.report import texts
    from pilotstudy.runs.folder import Run
    from pilotstudy.study.statements import Row

    recalibration = chosen_recalibration(recalibrate, scaled)
    evidence = [RunEvidence(Run.find(run, runs_dir)) for run in runs]
    metrics = chosen_metrics(metric, evidence[0], test)
    comparisons: Sequence[RowComparison | RunComparison]
    if len(evidence) == 1:
        row = Row.parse(against, evidence[0].known) if against else reference_row(evidence[0])
        comparisons = within = compare_rows(evidence[0], row, metrics, at=at, recalibration=recalibration, test=test)
        text = texts.row_comparison_text(within, output_width(wide))
    else:
        comparisons = between = compare_runs(evidence, metrics, at=at, recalibration=recalibration, test=test)
        text = texts.run_comparison_text(between, output_width(wide))
    print(json.dumps([comparison.record() for comparison in comparisons]) if as_json else text)


@app.command()
def ensembles(
    run: RunArgument,
    at: At = "last",
    recalibrate: Annotated[RecalibrationName, typer.Option(help="What is shown beside ensembles as they are.")] = (
        "temperature"
    ),
    runs_dir: RunsDir = Path("runs"),
    wide: Wide = False,
    as_json: Json = False,
) -> None:
    """Ensembles from the stored predictions: the paper's, of all baselines, and of the seeds of every arm."""
    from pilotstudy.evidence.ensembles import ensemble_figures
    from pilotstudy.evidence.run_evidence import RunEvidence
    from pilotstudy.report.texts import ensembles_text
    from pilotstudy.runs.folder import Run

    rows = ensemble_figures(RunEvidence(Run.find(run, runs_dir)), at, recalibrate)
    print(json.dumps([row.record() for row in rows]) if as_json else ensembles_text(rows, output_width(wide)))


@app.command("tests")
def show_tests(run: RunArgument, runs_dir: RunsDir = Path("runs"), wide: Wide = False, as_json: Json = False) -> None:
    """The study's further test sets: figures with the difference to the clean test, and what is recognised as new."""
    from pilotstudy.evidence.run_evidence import RunEvidence
    from pilotstudy.evidence.shift import all_test_figures
    from pilotstudy.report.texts import tests_text
    from pilotstudy.runs.folder import Run

    evidence = RunEvidence(Run.find(run, runs_dir))
    figures = all_test_figures(evidence)
    if as_json:
        print(json.dumps([figure.record() for figure in figures]))
    else:
        print(tests_text(figures, output_width(wide)))


@app.command()
def export(
    run: RunArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="For an appendix: a folder that does not exist yet.")
    ] = None,
    predictions: Annotated[
        bool, typer.Option("--predictions/--no-predictions", help="Whether --output gets every image's logits.")
    ] = True,
    optuna: Annotated[Path | None, typer.Option(help="For optuna-dashboard: a new SQLite file.")] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="For TensorBoard: a new log folder.")] = None,
    mlflow: Annotated[Path | None, typer.Option(help="For MLflow: a new folder, with mlflow.db in it.")] = None,
    runs_dir: RunsDir = Path("runs"),
    quiet: Quiet = False,
) -> None:
    """For an appendix: CSV, Parquet, LaTeX, the frozen study, a paragraph on the methods. Or its trials for a tool."""
    from pilotstudy.console import message
    from pilotstudy.report.doors.writing import export_to
    from pilotstudy.runs.folder import Run

    doors = {"optuna": optuna, "tensorboard": tensorboard, "mlflow": mlflow}
    for said in export_to(Run.find(run, runs_dir), output, doors, predictions=predictions):
        message(said)


@app.command()
def dashboard(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN...", help="One run: its page; several: one that compares them.", autocompletion=completion.runs
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Default: dashboard.html in the run folder; of several, comparison.html here."
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Serve it on localhost and update it while the study runs.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --live; 0 takes a free one.")] = 8266,
    all_: Annotated[bool, typer.Option("--all", help="A page for every run, and an index of them.")] = False,
    runs_dir: RunsDir = Path("runs"),
    quiet: Quiet = False,
) -> None:
    """A page that tells the story of a study, or compares several: one HTML file that opens anywhere, no network."""
    from pilotstudy.errors import InputError
    from pilotstudy.page import render
    from pilotstudy.runs.folder import Run

    if bool(runs) == all_ or (all_ and live):
        raise InputError("give a run, with or without --live, several runs to compare, or --all")
    if not runs:
        print(render.save_index(Run.all(runs_dir), runs_dir, output))
        return
    if live and len(runs) > 1:
        raise InputError("--live is for one run: leave it out to compare several")
    first, *others = (Run.find(run, runs_dir) for run in runs)
    if others:
        print(render.save_comparison([first, *others], output))
    elif live:
        serve(first, port)
    else:
        print(render.save(first, output))


def serve(run: "Run", port: int) -> None:
    from pilotstudy.console import message
    from pilotstudy.errors import InputError
    from pilotstudy.page.server import LivePage, server

    try:
        serving = server(LivePage(run), port)
    except OSError as error:
        raise InputError(f"port {port} is taken: give another with --port") from error
    print(f"http://127.0.0.1:{serving.server_address[1]}/", flush=True)
    message("Ctrl-C ends the server; the run goes on")
    with serving:
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            return
