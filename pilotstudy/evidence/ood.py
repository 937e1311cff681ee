"""Figures of images that are out of distribution: how well each row tells them from the study's own test images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilotstudy.evidence.figures import Figures
from pilotstudy.evidence.predictions import (
    Recalibrated,
    SplitPredictions,
    StoredTrial,
    TestPredictions,
    places_of,
    with_ensembles,
)
from pilotstudy.metrics import scores
from pilotstudy.metrics.ood import Floats, Scored, auroc_and_influences, ood_value, scores_of
from pilotstudy.metrics.recalibration import Recalibration
from pilotstudy.metrics.resampling import Sample, resampled_weights
from pilotstudy.metrics.scores import Array
from pilotstudy.runs.records import Split
from pilotstudy.study.statements import ENSEMBLE, Row

ByScore = dict[str, Array]  # of all points, by the name of the score


@dataclass(frozen=True)
class OodPredictions(TestPredictions):
    """Predictions of the study's test images, then of images that are none of its classes (with the label −1)."""

    scores: Mapping[Row, Mapping[int, ByScore]] = field(default_factory=dict)

    @property
    def is_ood(self) -> NDArray[np.bool_]:
        return self.labels < 0

    def mean(self, metric: str, row: Row) -> float | None:
        """The mean over seeds; None where the row has no such score, or not of all seeds."""
        values = [ood_value(metric, by_score, self.is_ood) for by_score in self.scores[row].values()]
        known = [value for value in values if value is not None]
        return float(np.mean(known)) if known and len(known) == len(values) else None


def gather_ood(
    trials: Sequence[StoredTrial],
    split: Split,
    *,
    recalibration: Recalibration,
    deep: bool,
    fingerprint: str,
    diverged: Mapping[Row, set[int]],
) -> OodPredictions:
    """All rows of these trials at the last epoch, as `gather` has them."""
    recalibrated = Recalibrated(trials, "last", recalibration, deep=deep)
    parts = recalibrated.split("test"), recalibrated.split(split)
    seen, unseen = parts
    rows = {
        row: {seed: np.concatenate([log_p, unseen.rows[row][seed]]) for seed, log_p in by_seed.items()}
        for row, by_seed in seen.rows.items()
    }
    # After recalibration, logits and draws are no more those that were stored.
    stored = _stored(trials, split, parts) if recalibration == "none" else {}
    entropies = {row: [scores.entropies(np.exp(log_p)) for log_p in by_seed.values()] for row, by_seed in rows.items()}
    of_rows = {
        row: {
            seed: scores_of(log_p, *stored.get((row, seed), Stored(entropy=_of_members(row, seed, rows, entropies))))
            for seed, log_p in by_seed.items()
        }
        for row, by_seed in rows.items()
    }
    lost = {row: len(seeds) for row, seeds in with_ensembles(diverged, rows).items()}
    labels = np.concatenate([seen.labels, unseen.labels])
    return OodPredictions(rows, labels, fingerprint, {}, lost, scores=of_rows)


class Stored(NamedTuple):
    """What a network may have stored beside log-probabilities; see `scores_of`."""

    logits: Floats | None = None
    entropy: Floats | None = None
    surprise: Floats | None = None
    usual: Floats | None = None


def _stored(
    trials: Sequence[StoredTrial], split: Split, parts: Sequence[SplitPredictions]
) -> dict[tuple[Row, int], Stored]:
    """Of all networks, in the order of the points."""
    known = {}
    for trial in trials:
        for mode in trial.modes("last"):
            splits = trial.predictions["last", mode].splits
            own = [splits["test"], splits[split]]
            places = [places_of(p.points, o.rows, trial.row.name) for p, o in zip(parts, own, strict=True)]
            known[trial.named(mode), trial.row.seed] = Stored(
                _joined([part.logits for part in own], places) if mode == "point" else None,
                _joined([part.expected_entropy for part in own], places),
                _joined([part.surprise for part in own], places),
                splits["validation"].surprise,
            )
    return known


def _joined(columns: Sequence[Floats | None], places: Sequence[slice | NDArray[np.intp]]) -> Floats | None:
    """One after another, in this order; None where one is missing."""
    known = [column[at] for column, at in zip(columns, places, strict=True) if column is not None]
    return np.concatenate(known) if len(known) == len(columns) else None


def _of_members(
    row: Row, seed: int, rows: Mapping[Row, Mapping[int, Array]], entropies: Mapping[Row, list[Array]]
) -> Array | None:
    """The mean entropy of an ensemble's members; None of a network."""
    if row.mode == "seeds":
        return np.asarray(np.mean(entropies[replace(row, mode="point")], 0))
    if row.mode == ENSEMBLE:
        members = [entropies[each][list(rows[each]).index(seed)] for each in rows if each.in_ensemble]
        return np.asarray(np.mean(members, 0))
    return None


class OodFigures(Figures):
    """AUROCs of every row, and of any contrast between rows, with intervals."""

    def __init__(self, predictions: OodPredictions, metrics: Sequence[str], resamples: int, *, looks: float = 1):
        super().__init__(predictions, (), resamples, looks=looks)
        self.metrics = tuple(metrics)
        seed = int(predictions.fingerprint[:8] or "0", 16)
        weights = np.concatenate(list(resampled_weights(self.points, resamples, seed)))
        for metric in metrics:
            score = metric.removeprefix("auroc_")
            self.samples[metric] = {
                row: _sample(by_seed, score, predictions.is_ood, weights)
                for row, by_seed in predictions.scores.items()
                if all(score in by_score for by_score in by_seed.values())
            }


def _sample(
    by_seed: Mapping[int, ByScore], score: str, is_ood: NDArray[np.bool_], weights: NDArray[np.float32]
) -> Sample:
    columns = np.stack([auroc_and_influences(Scored(by_score[score], is_ood)) for by_score in by_seed.values()], 1)
    resampled = (weights @ columns.astype(np.float32)).astype(np.float64)
    return Sample(tuple(by_seed), columns.mean(0), resampled)
