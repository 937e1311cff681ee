"""Further test sets: figures of every row by strength of a corruption, and what is recognised as unseen."""

from collections.abc import Mapping, Sequence

import numpy as np

from pilotstudy.evidence.labels import row_label
from pilotstudy.evidence.recommendation import answer
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.evidence.shift import TestFigure, figures_of_test
from pilotstudy.metrics.ood import OOD_METRICS, SCORES
from pilotstudy.metrics.registry import METRICS, headline_metrics
from pilotstudy.page.rounding import rounded
from pilotstudy.study.statements import Row

FEW = 8  # lines of a figure that can be told apart
DIGITS = 8


def shift_section(evidence: RunEvidence) -> dict[str, object]:
    there = [name for name in evidence.tests if evidence.trials and not evidence.lacks(test=name)]
    figures = [figure for name in there for figure in figures_of_test(evidence, name)]
    corrupted = [figure for figure in figures if figure.family]
    return {
        "families": list(dict.fromkeys(figure.family for figure in corrupted)),
        "begin": rows_to_begin(evidence, corrupted) if corrupted else [],
        "rows": {str(row): facts_of(row) for row in dict.fromkeys(figure.row for figure in figures)},
        "reference": next((str(row) for f in corrupted if is_fixed(row := f.row) and row.role == "reference"), None),
        "shift": packed(lines_of([figure for figure in figures if figure.kind == "shift"])),
        "ood": packed(lines_of([figure for figure in figures if figure.kind == "ood"])),
        "ood_metrics": {name: metric.short for name, metric in OOD_METRICS.items()},
        "ood_scores": SCORES,
    }


def rows_to_begin(evidence: RunEvidence, corrupted: Sequence[TestFigure]) -> list[str]:
    """The rows that the lines begin with: the reference, what the answer takes, the best on clean and on corrupted
    images, the study's methods; then others until there are enough.
    """
    rows = list(dict.fromkeys(figure.row for figure in corrupted))
    figures = evidence.figures()
    fixed = [row for row in rows if is_fixed(row)]
    wanted = dict.fromkeys(row for row in fixed if row.role == "reference")
    taken = answer(evidence).row
    wanted |= dict.fromkeys(row for row in rows if str(row) == taken)
    for metric in headline_metrics():
        of_row = {row: [f.figure for f in corrupted if (f.row, f.metric) == (row, metric)] for row in rows}
        robust = max(rows, key=lambda row: METRICS[metric].sign * np.mean(of_row[row]))
        wanted |= dict.fromkeys(row for row in (figures.best(metric, rows).leader, robust) if row)
    for row in (*(row for row in fixed if row.role == "method"), *fixed, *rows):
        if len(wanted) < FEW:
            wanted[row] = None
    return [str(row) for row in rows if row in wanted]


def is_fixed(row: Row) -> bool:
    """Whether it is of networks as they are, at the study's own settings."""
    return (row.mode, row.phase) == ("point", "arms")


def facts_of(row: Row) -> dict[str, object]:
    return {"label": row_label(row), "arm": row.arm, "mode": row.mode, "phase": row.phase}


def lines_of(figures: Sequence[TestFigure]) -> list[dict[str, object]]:
    """One for each test set and row, with a column for each metric and its parts."""
    lines: dict[tuple[str, str], dict[str, object]] = {}
    for figure in figures:
        row = str(figure.row)
        of_test = {"test": figure.test, "family": figure.family, "strength": figure.strength}
        line = lines.setdefault((figure.test, row), {"row": row} | of_test | {"seeds": figure.seeds})
        for part in "", "_low", "_high", "_difference", "_difference_low", "_difference_high":
            line[f"{figure.metric}{part}"] = rounded(getattr(figure, part[1:] or "figure"), DIGITS)
    return list(lines.values())


def packed(lines: Sequence[Mapping[str, object]]) -> dict[str, list[object]]:
    """By column, each name once: a study of many arms and corruptions has thousands of lines."""
    names = dict.fromkeys(name for line in lines for name in line)
    return {name: [line.get(name) for line in lines] for name in names}
