"""Everything that a run's page shows, as plain data: the same results give the same data.

It reads Parquet files and the frozen study, and nothing else, so that it can never disturb a run.
"""

from collections.abc import Mapping
from typing import TypedDict, final

from pilotstudy.errors import PilotstudyError
from pilotstudy.evidence.labels import row_label
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics.registry import headline_metrics
from pilotstudy.page.answer import AnswerSection, answer_section
from pilotstudy.page.calibration import calibration_section
from pilotstudy.page.made import made_section
from pilotstudy.page.results import ShownMetric, TableSection, shown_metrics, table_section
from pilotstudy.page.search import search_section
from pilotstudy.page.shift import shift_section
from pilotstudy.page.training import Curves, training_section
from pilotstudy.page.trials import trials_section
from pilotstudy.runs.folder import Run
from pilotstudy.runs.results import Results
from pilotstudy.runs.status import listed, overview, progress_of
from pilotstudy.study.statements import Row


@final
class PageData(TypedDict):
    """One JSON-able value for each section of the page."""

    run: Mapping[str, object]
    hints: Mapping[str, str]  # commands that tell more
    metrics: list[ShownMetric]
    arms: Mapping[str, str]  # the study's, and their labels
    answer: AnswerSection
    table: TableSection
    calibration: Mapping[str, object]
    shift: Mapping[str, object]
    search: Mapping[str, object]
    training: Mapping[str, object]
    trials: Mapping[str, object]
    made: Mapping[str, object]


@final
class Problem(TypedDict):
    """In place of a page's data: what is wrong with the run."""

    problem: str


def page_data(run: Run) -> PageData:
    evidence = RunEvidence(run)
    study, trials, curves = evidence.study, evidence.trial_rows, Curves(Results(run.files))
    return {
        "run": {**overview(run), "title": study.title, "phases": progress_of(run)},
        "hints": {"status": run.files.hint("status"), "errors": run.files.hint("status", "--errors")},
        "metrics": shown_metrics(),
        "arms": {arm: row_label(Row(arm, declared=evidence.arms.get(arm))) for arm in study.arms},
        "answer": answer_section(evidence),
        "table": table_section(evidence),
        "calibration": calibration_section(evidence),
        "shift": shift_section(evidence),
        "search": search_section(evidence),
        "training": training_section(study, trials, curves, evidence.arms),
        "trials": trials_section(run, trials, curves),
        "made": made_section(evidence),
    }


def page_data_or_problem(run: Run) -> PageData | Problem:
    """For a page that must go on while a run's files are being written."""
    try:
        return page_data(run)
    except (PilotstudyError, OSError, ValueError, LookupError) as error:
        return {"problem": f"{run.name}: {' '.join(str(error).split())[:300]}"}


def index_row(run: Run, content: PageData | Problem) -> dict[str, object]:
    """What the index of all runs says of one: its state, its best figures, and every row of its table."""
    if "problem" in content:
        return {**listed(run), "title": "", "problem": content["problem"], "take": "", "best": [], "rows": []}
    metrics = headline_metrics()
    columns = [f"{name}{part}" for name in metrics for part in ("", "_sd", "_low", "_high")]
    lines = [line for line in content["table"]["variants"]["last"] if line[metrics[0]] is not None]
    return {
        **overview(run),
        "title": run.study().title,
        "problem": "",
        "take": content["answer"]["take"],
        "best": [
            {name: card[name] for name in ("metric", "label", "value", "real")} for card in content["answer"]["cards"]
        ],
        "rows": [{name: line[name] for name in ("row", "label", "seeds", *columns)} for line in lines],
    }
