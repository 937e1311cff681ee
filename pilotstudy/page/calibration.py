"""Calibration: reliability, entropies and risk against coverage of every row, over seeds."""

import warnings
from collections.abc import Sequence

import numpy as np

from pilotstudy.evidence.labels import row_label
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics import scores
from pilotstudy.metrics.computation import Points
from pilotstudy.page.rounding import WHOLE, rounded
from pilotstudy.study.statements import Row

ENTROPY_BINS = 25
COVERAGE_STEPS = 50
FIGURES = "accuracy", "confidence", "ece", "floor"  # of a row; the rest are curves


def calibration_section(evidence: RunEvidence) -> dict[str, object]:
    sizes = {"bins": scores.BINS, "entropy_bins": ENTROPY_BINS, "coverage_steps": COVERAGE_STEPS}
    if not evidence.trials:
        return {"rows": [], "points": 0, "most_entropy": 0, **sizes}
    predictions = evidence.at()
    rows = [
        row_calibration(
            row,
            [Points(log_p, predictions.labels) for log_p in by_seed.values()],
            predictions.floor("ece", row),
        )
        for row, by_seed in predictions.rows.items()
    ]
    classes = next(iter(next(iter(predictions.rows.values())).values())).shape[1]
    return {
        "rows": [{name: rounded(row[name], WHOLE if name in FIGURES else 4) for name in row} for row in rows],
        "points": len(predictions.labels),
        "most_entropy": rounded(float(np.log(classes)), 4),
        **sizes,
    }


def row_calibration(row: Row, seeds: Sequence[Points], floor: float | None) -> dict[str, object]:
    return {
        "row": str(row),
        "label": row_label(row),
        "arm": row.arm,
        "mode": row.mode,
        "phase": row.phase,
        "seeds": len(seeds),
        "accuracy": float(np.mean([points.correct.mean() for points in seeds])),
        "confidence": float(np.mean([points.confidence.mean() for points in seeds])),
        "ece": float(np.mean([points.reliability.expected_error for points in seeds])),
        "floor": floor,
        "width": mean_reliability(seeds, equal_mass=False),
        "mass": mean_reliability(seeds, equal_mass=True),
        "entropy": entropy_histogram(seeds),
        "risk": risk_coverage(seeds),
    }


def mean_reliability(seeds: Sequence[Points], *, equal_mass: bool) -> dict[str, list[float | None]]:
    """By bin: the mean over seeds of its bounds, accuracy, confidence and count, and the seeds' range of accuracy."""
    diagrams = [scores.binned(points.confidence, points.correct, equal_mass=equal_mass) for points in seeds]
    accuracy = np.stack([diagram.accuracy for diagram in diagrams])
    confidence = np.stack([diagram.confidence for diagram in diagrams])
    count = np.stack([diagram.count for diagram in diagrams])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a bin that is empty for every seed
        parts = {
            "accuracy": np.nanmean(accuracy, 0),
            "low": np.nanmin(accuracy, 0),
            "high": np.nanmax(accuracy, 0),
            "confidence": np.nanmean(confidence, 0),
        }
    parts |= {
        "lower": np.mean([diagram.lower for diagram in diagrams], 0),
        "upper": np.mean([diagram.upper for diagram in diagrams], 0),
        "count": count.mean(0),
    }
    return {name: [None if np.isnan(v) else float(v) for v in values] for name, values in parts.items()}


def entropy_histogram(seeds: Sequence[Points]) -> list[float]:
    """The share of test points in each of ENTROPY_BINS bins from 0 to ln K, mean over seeds."""
    shares = []
    for points in seeds:
        span = (0, float(np.log(points.p.shape[1])) + 1e-9)
        shares.append(np.histogram(scores.entropies(points.p), ENTROPY_BINS, span)[0] / len(points.labels))
    return [float(share) for share in np.mean(shares, 0)]


def risk_coverage(seeds: Sequence[Points]) -> list[float]:
    """The error rate among the most confident 2 %, 4 %, .. 100 % of the points, mean over seeds."""
    n = len(seeds[0].labels)
    at = np.maximum(np.ceil(np.arange(1, COVERAGE_STEPS + 1) / COVERAGE_STEPS * n).astype(int), 1) - 1
    risks = [scores.selective_risk(points.confidence, points.correct)[at] for points in seeds]
    return [float(risk) for risk in np.mean(risks, 0)]
