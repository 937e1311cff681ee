"""The figures of ensembles, which no trial stored."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pilotstudy.evidence.predictions import TestPredictions
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics.registry import METRICS, evaluate
from pilotstudy.runs.records import At
from pilotstudy.study.statements import ENSEMBLE, Row


@dataclass(frozen=True)
class EnsembleRow:
    """An ensemble's test figures, mean over its seeds."""

    row: Row
    at: At
    scaled: bool
    seeds: int
    members: tuple[str, ...]
    figures: Mapping[str, float]  # by metric

    def record(self) -> dict[str, object]:
        """For files: a column for each metric."""
        own = {"row": str(self.row), "at": self.at, "scaled": self.scaled, "seeds": self.seeds}
        return own | {"members": ", ".join(self.members)} | dict(self.figures)


def ensemble_figures(evidence: RunEvidence, at: At = "last") -> list[EnsembleRow]:
    """Every ensemble with all metrics, as it is and, where it can be fitted, after temperature scaling."""
    ensembles = []
    for scaled in False, True:
        if scaled and evidence.lacks(at, scaled=True):
            continue
        predictions = evidence.at(at, scaled=scaled, deep=True)
        for row, by_seed in predictions.rows.items():
            if row.mode in (ENSEMBLE, "seeds"):
                figures = [evaluate(log_p, predictions.labels) for log_p in by_seed.values()]
                means = {name: float(np.mean([of_seed[name] for of_seed in figures])) for name in METRICS}
                members = member_names(predictions, row)
                ensembles.append(EnsembleRow(row, at, scaled, len(by_seed), members, means))
    return ensembles


def member_names(predictions: TestPredictions, ensemble: Row) -> tuple[str, ...]:
    """What an ensemble averages: baselines, or the seeds of a row."""
    if ensemble.mode == ENSEMBLE:
        return tuple(map(str, predictions.members))
    return tuple(f"seed {seed}" for seed in predictions.rows[replace(ensemble, mode="point")])
