"""Further test sets: figures of every row by strength of a corruption, and what is recognised as unseen."""

from collections.abc import Sequence

from pilotstudy.evidence.labels import row_label
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.evidence.shift import TestFigure, figures_of_test
from pilotstudy.metrics.ood import OOD_METRICS
from pilotstudy.page.rounding import rounded

RESAMPLES = 500  # of the points: a page that is live is made again and again


def shift_section(evidence: RunEvidence) -> dict[str, object]:
    there = [name for name in evidence.tests if evidence.trials and not evidence.lacks(test=name)]
    figures = [figure for name in there for figure in figures_of_test(evidence, name, RESAMPLES)]
    return {
        "families": list(dict.fromkeys(figure.family for figure in figures if figure.family)),
        "shift": lines_of([figure for figure in figures if figure.kind == "shift"]),
        "ood": lines_of([figure for figure in figures if figure.kind == "ood"]),
        "ood_metrics": {name: metric.short for name, metric in OOD_METRICS.items()},
    }


def lines_of(figures: Sequence[TestFigure]) -> list[dict[str, object]]:
    """One for each test set and row, with a column for each metric and its parts."""
    lines: dict[tuple[str, str], dict[str, object]] = {}
    for figure in figures:
        row = figure.row
        own = {"row": str(row), "label": row_label(row), "arm": row.arm, "mode": row.mode, "phase": row.phase}
        of_test = {"test": figure.test, "family": figure.family, "strength": figure.strength}
        line = lines.setdefault((figure.test, str(row)), own | of_test | {"seeds": figure.seeds})
        for part in "", "_low", "_high", "_difference", "_difference_low", "_difference_high":
            line[f"{figure.metric}{part}"] = rounded(getattr(figure, part[1:] or "figure"))
    return list(lines.values())
