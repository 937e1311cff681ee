"""The figures of ensembles, which no trial stored."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pilotstudy.evidence.costs import Cost, costs
from pilotstudy.evidence.predictions import TestPredictions
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics.recalibration import Recalibration
from pilotstudy.metrics.registry import METRICS, evaluate
from pilotstudy.runs.records import At
from pilotstudy.study.statements import ENSEMBLE, Row


@dataclass(frozen=True)
class EnsembleRow:
    """An ensemble's test figures. `ensembles`: how many the figures are the mean of: the paper's has one for each seed,
    one of seeds is a single one. `members`: the networks of each.
    """

    row: Row
    at: At
    recalibration: Recalibration
    ensembles: int
    members: tuple[str, ...]
    figures: Mapping[str, float | None]  # by metric; None: its predictions cannot tell
    cost: Cost

    def record(self) -> dict[str, object]:
        """For files: a column for each metric."""
        own: dict[str, object] = {"row": str(self.row), "at": self.at, "recalibration": self.recalibration}
        own |= {"networks": len(self.members), "ensembles": self.ensembles}
        return own | {"members": ", ".join(self.members)} | dict(self.figures) | self.cost.record()


def ensemble_figures(
    evidence: RunEvidence, at: At = "last", recalibration: Recalibration = "temperature"
) -> list[EnsembleRow]:
    """Every ensemble with all metrics, as it is and, where it can be fitted, after a recalibration."""
    ensembles, by_row = [], costs(evidence)
    choices: list[Recalibration] = ["none"] if recalibration == "none" else ["none", recalibration]
    for applied in choices:
        if not evidence.lacks(at, applied):
            predictions = evidence.at(at, applied, deep=True)
            rows = [row for row in predictions.rows if row.mode in (ENSEMBLE, "seeds")]
            ensembles += [ensemble_row(predictions, row, at, applied, by_row[row]) for row in rows]
    return ensembles


def ensemble_row(
    predictions: TestPredictions, row: Row, at: At, recalibration: Recalibration, cost: Cost
) -> EnsembleRow:
    by_seed, fits = predictions.rows[row], predictions.fits.get(row, {})
    figures = [evaluate(log_p, predictions.labels, fitted=fits.get(seed)) for seed, log_p in by_seed.items()]
    told = figures[0].keys()
    means = {name: float(np.mean([each[name] for each in figures])) if name in told else None for name in METRICS}
    return EnsembleRow(row, at, recalibration, len(by_seed), member_names(predictions, row), means, cost)


def member_names(predictions: TestPredictions, ensemble: Row) -> tuple[str, ...]:
    """What an ensemble averages: baselines, or the seeds of a row."""
    if ensemble.mode == ENSEMBLE:
        return tuple(map(str, predictions.members))
    return tuple(f"seed {seed}" for seed in predictions.rows[replace(ensemble, mode="point")])
