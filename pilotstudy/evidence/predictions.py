"""The stored test predictions of a run, by row and seed, and the ensembles made of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from pilotstudy.arms.arm import Declared
from pilotstudy.errors import DataError
from pilotstudy.metrics import scores
from pilotstudy.metrics.computation import Points
from pilotstudy.metrics.registry import METRICS
from pilotstudy.metrics.scores import Array, Labels
from pilotstudy.runs.records import At, TrialRow
from pilotstudy.runs.schemas import Predictions, TrialPredictions
from pilotstudy.study.statements import ENSEMBLE, Row

FLOOR_DRAWS = 200  # of an ensemble's noise floor; those of trials are in their evaluations

BySeed = dict[int, Array]  # seed → log-probabilities [n, K] of the same points


@dataclass(frozen=True)
class StoredTrial:
    """A finished trial and what it predicted."""

    row: TrialRow
    predictions: TrialPredictions
    declared: Declared | None = None  # what there is to know of its arm

    def temperature(self, at: At, mode: str) -> float:
        """That was fitted on its validation predictions."""
        return next(e.temperature for e in self.row.evaluations if (e.at, e.mode, e.scaled) == (at, mode, True))


@dataclass(frozen=True)
class TestPredictions:
    """A run's predictions of the test points at one epoch, for each row and seed."""

    __test__ = False  # for pytest: not a class of tests

    rows: Mapping[Row, BySeed]
    labels: Labels
    fingerprint: str  # of the data
    floors: Mapping[str, Mapping[Row, Mapping[int, float]]]  # by metric: the noise floor of each network
    diverged: Mapping[Row, int] = field(default_factory=dict)  # how many seeds, of the rows that have such

    @property
    def members(self) -> list[Row]:
        """What the paper's ensemble averages."""
        return [row for row in self.rows if row.in_ensemble]

    def floor(self, metric: str, row: Row) -> float | None:
        """The noise floor, mean over seeds; None where there is none."""
        by_seed = self.floors.get(metric, {}).get(row)
        return float(np.mean(list(by_seed.values()))) if by_seed else None


@dataclass(frozen=True)
class SplitPredictions:
    """The predictions of one split, all of the same points in the same order, whatever order they were stored in."""

    points: NDArray[np.int64]  # row numbers within the data set
    labels: Labels
    rows: dict[Row, BySeed]


def gather(
    trials: Sequence[StoredTrial],
    at: At,
    *,
    scaled: bool,
    deep: bool,
    fingerprint: str,
    diverged: Mapping[Row, set[int]] | None = None,
) -> TestPredictions:
    """All rows of these trials, with the paper's ensemble, and with deep ensembles too if `deep`.

    `scaled`: after temperature scaling fitted on validation, of an ensemble with a temperature of its own. `diverged`:
    the seeds of rows that have no predictions because their training diverged.
    """
    test = gather_split(trials, "test", at, scaled=scaled)
    ensembles = ensemble_rows(test.rows, deep)
    if scaled:
        validation = gather_split(trials, "validation", at, scaled=True)
        on_validation = ensemble_rows(validation.rows, deep)
        for row, by_seed in ensembles.items():
            for seed, log_p in by_seed.items():
                temperature = scores.fit_temperature(on_validation[row][seed], validation.labels)
                by_seed[seed] = scores.log_probabilities(log_p, temperature)
    floors = {
        name: stored_floors(trials, metric.floor, at, scaled=scaled)
        | {row: floors_of(metric.floor, by_seed, test.labels) for row, by_seed in ensembles.items()}
        for name, metric in METRICS.items()
        if metric.floor
    }
    lost = with_ensembles(diverged or {}, test.rows | ensembles)
    counted = {row: len(seeds) for row, seeds in lost.items()}
    return TestPredictions(test.rows | ensembles, test.labels, fingerprint, floors, counted)


def gather_split(trials: Sequence[StoredTrial], split: str, at: At, *, scaled: bool) -> SplitPredictions:
    gathered: SplitPredictions | None = None
    for trial in trials:
        for mode in sorted((mode for epoch, mode in trial.predictions if epoch == at), key=("point", "mc").index):
            part: Predictions = getattr(trial.predictions[at, mode], split)
            if gathered is None:
                gathered = SplitPredictions(part.rows, part.labels, {})
            logits = part.logits[places_of(gathered.points, part.rows, trial.row.name)]
            row = Row(trial.row.arm, mode, trial.row.phase, trial.declared)
            temperature = trial.temperature(at, mode) if scaled else 1.0
            gathered.rows.setdefault(row, {})[trial.row.seed] = scores.log_probabilities(logits, temperature)
    assert gathered is not None, "there are no trials"
    return gathered


def places_of(points: NDArray[np.int64], stored: NDArray[np.int64], trial: str) -> slice | NDArray[np.intp]:
    """Where each of these points is among the stored ones, so that all trials can be compared point by point."""
    if np.array_equal(points, stored):
        return slice(None)
    order = np.argsort(stored, kind="stable")
    places = np.asarray(order[np.searchsorted(stored, points, sorter=order).clip(max=len(stored) - 1)])
    if len(points) != len(stored) or not np.array_equal(stored[places], points):
        raise DataError(
            f"{trial} predicted other images than the trials before it: remove its result and resume the run"
        )
    return places


def stored_floors(trials: Sequence[StoredTrial], floor: str, at: At, *, scaled: bool) -> dict[Row, dict[int, float]]:
    """The floors that trials have in their evaluations."""
    by_row: dict[Row, dict[int, float]] = {}
    for trial in trials:
        for evaluation in trial.row.evaluations:
            if (evaluation.at, evaluation.split, evaluation.scaled) == (at, "test", scaled):
                row = Row(trial.row.arm, evaluation.mode, trial.row.phase)
                by_row.setdefault(row, {})[trial.row.seed] = evaluation.figures[floor]
    return by_row


def floors_of(floor: str, by_seed: BySeed, labels: Labels) -> dict[int, float]:
    """The same of an ensemble."""
    return {seed: METRICS[floor].value(Points(log_p, labels, draws=FLOOR_DRAWS)) for seed, log_p in by_seed.items()}


def with_ensembles(diverged: Mapping[Row, set[int]], rows: Mapping[Row, BySeed]) -> dict[Row, set[int]]:
    """The diverged seeds of rows, and of the ensembles that lack such a network; what never finished is no member."""
    of_ensembles = {replace(row, mode="seeds"): seeds for row, seeds in diverged.items() if row.mode == "point"}
    of_members = set().union(*(seeds for row, seeds in diverged.items() if row.in_ensemble and row in rows))
    return dict(diverged) | of_ensembles | ({Row(ENSEMBLE, ENSEMBLE): of_members} if of_members else {})


def average(members: Sequence[Array]) -> Array:
    """The logarithm of the mean of the members' probabilities."""
    return np.asarray(logsumexp(np.stack(members), axis=0) - np.log(len(members)))


def ensemble_rows(rows: Mapping[Row, BySeed], deep: bool) -> dict[Row, BySeed]:
    """The paper's ensemble, for each seed that all baselines have; if `deep`, also one of every arm's seeds."""
    ensembles: dict[Row, BySeed] = {}
    members = [by_seed for row, by_seed in rows.items() if row.in_ensemble]
    if len(members) > 1:
        common = sorted(set.intersection(*map(set, members)))
        if common:
            ensembles[Row(ENSEMBLE, ENSEMBLE)] = {
                seed: average([by_seed[seed] for by_seed in members]) for seed in common
            }
    for row, by_seed in rows.items():
        if deep and row.mode == "point" and len(by_seed) > 1:
            ensembles[replace(row, mode="seeds")] = {0: average(list(by_seed.values()))}
    return ensembles
