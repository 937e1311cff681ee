"""The table of figures, for each epoch, with and without temperature scaling."""

from typing import TypedDict, get_args

from pilotstudy.evidence import paper
from pilotstudy.evidence.costs import HEADINGS
from pilotstudy.evidence.figures import diverged_in_words
from pilotstudy.evidence.labels import row_label
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics.recalibration import Recalibration
from pilotstudy.metrics.registry import by_prominence
from pilotstudy.page.rounding import WHOLE, rounded
from pilotstudy.report.formats import line_record, published
from pilotstudy.report.table import Line, build_table
from pilotstudy.runs.records import At

SHOWN: tuple[Recalibration, ...] = ("none", "temperature")  # each epoch has a table of either


class TableSection(TypedDict):
    variants: dict[str, list[dict[str, object]]]  # last, last-scaled, best, best-scaled
    paper: bool
    costs: dict[str, str]  # headings by column
    notes: list[str]


class ShownMetric(TypedDict):
    """What the page must know of a metric."""

    name: str
    head: str
    column: str  # as the head of a column in the table
    better: int  # 1: higher is better; −1: lower
    in_table: bool
    has_floor: bool


def shown_metrics() -> list[ShownMetric]:
    """Those that the table shows, and those that a search may have improved."""
    return [
        {
            "name": metric.name,
            "head": metric.short,
            "column": metric.heading,
            "better": metric.sign,
            "in_table": metric.headline,
            "has_floor": bool(metric.floor),
        }
        for metric in by_prominence()
        if metric.headline or metric.objective
    ]


def table_section(evidence: RunEvidence) -> TableSection:
    study = evidence.study
    like_paper = bool(paper.printed_rows(study.network.name, study.data.name))
    variants: dict[str, list[dict[str, object]]] = {}
    notes: list[str] = []
    for at in get_args(At):
        for recalibration in SHOWN:
            name = at if recalibration == "none" else f"{at}-scaled"
            variants[name] = []
            if evidence.trials and not evidence.lacks(at, recalibration):
                table = build_table(evidence, like_paper=like_paper, at=at, recalibration=recalibration, with_cost=True)
                variants[name] = [page_line(line, like_paper=like_paper) for line in table.lines]
                notes = notes or list(table.notes)
    return {"variants": variants, "paper": like_paper, "costs": HEADINGS, "notes": notes}


def page_line(line: Line, *, like_paper: bool) -> dict[str, object]:
    # All digits: what is rounded once here and once on the page may differ from what the commands print.
    record = {name: rounded(value, WHOLE) for name, value in line_record(line, like_paper=like_paper).items()}
    printed = {f"{name}_printed": published(cell) for name, cell in line.cells.items()}
    diverged = {"diverged_in_words": diverged_in_words(line.diverged, line.seeds)}
    return record | {"label": row_label(line.row)} | diverged | printed
