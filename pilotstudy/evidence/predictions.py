"""The stored test predictions of a run, by row and seed, and the ensembles made of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from pilotstudy.arms.arm import Declared, Mode
from pilotstudy.errors import DataError
from pilotstudy.metrics.computation import Fitted, Points
from pilotstudy.metrics.recalibration import Recalibrate, Recalibration, fit, temperature_scaling
from pilotstudy.metrics.registry import METRICS
from pilotstudy.metrics.scores import Array, Labels
from pilotstudy.runs.records import At, Split, TrialRow
from pilotstudy.runs.schemas import TrialPredictions
from pilotstudy.study.statements import ENSEMBLE, Row

FLOOR_DRAWS = 200  # of a noise floor that is not in a trial's evaluations

BySeed = dict[int, Array]  # seed → log-probabilities [n, K] of the same points
Fits = dict[Row, dict[int, Fitted]]  # what is fitted on validation, by row and seed


@dataclass(frozen=True)
class StoredTrial:
    """A finished trial and what it predicted."""

    row: TrialRow
    predictions: TrialPredictions
    declared: Declared | None = None  # what there is to know of its arm

    def modes(self, at: At) -> list[Mode]:
        """That it predicted in at this epoch."""
        return sorted((mode for epoch, mode in self.predictions if epoch == at), key=("point", "mc").index)

    def named(self, mode: str) -> Row:
        return Row(self.row.arm, mode, self.row.phase, self.declared)

    def temperature(self, at: At, mode: str) -> float:
        """That was fitted on its validation predictions."""
        return next(e.temperature for e in self.row.evaluations if (e.at, e.mode, e.scaled) == (at, mode, True))

    def recalibrate(self, at: At, mode: Mode, recalibration: Recalibration) -> Recalibrate:
        """What recalibrates its predictions, fitted on those of validation."""
        if recalibration == "temperature":
            return temperature_scaling(self.temperature(at, mode))
        validation = self.predictions[at, mode].validation
        return fit(recalibration, validation.logits, validation.labels)


@dataclass(frozen=True)
class TestPredictions:
    """A run's predictions of the test points at one epoch, for each row and seed."""

    __test__ = False  # for pytest: not a class of tests

    rows: Mapping[Row, BySeed]
    labels: Labels
    fingerprint: str  # of the data
    floors: Mapping[str, Mapping[Row, Mapping[int, float]]]  # by metric: the noise floor of each network
    diverged: Mapping[Row, int] = field(default_factory=dict)  # how many seeds, of the rows that have such
    fit: Callable[[], Fits] = dict  # what metrics that need validation take; empty where a network has none

    @cached_property
    def fits(self) -> Fits:
        """Fitted when it is first asked for."""
        return self.fit()

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

    def at_points(self, points: NDArray[np.int64]) -> "SplitPredictions":
        """The same for some of the points, in this order."""
        order = np.argsort(self.points)
        at = order[np.searchsorted(self.points, points, sorter=order)]
        rows = {row: {seed: log_p[at] for seed, log_p in by_seed.items()} for row, by_seed in self.rows.items()}
        return SplitPredictions(points, self.labels[at], rows)


def gather(
    trials: Sequence[StoredTrial],
    at: At,
    *,
    recalibration: Recalibration,
    deep: bool,
    fingerprint: str,
    diverged: Mapping[Row, set[int]] | None = None,
    split: Split = "test",
    only: NDArray[np.int64] | None = None,
) -> TestPredictions:
    """All rows of these trials, with the paper's ensemble, and with deep ensembles too if `deep`.

    `recalibration`: fitted on validation, of an ensemble by itself, of recalibrated members. `diverged`: the seeds of
    rows that have no predictions because their training diverged. `split`: the study's own test images, or a further
    test set. `only`: these points of it, in this order.
    """
    recalibrated = Recalibrated(trials, at, recalibration, deep=deep)
    test = recalibrated.split(split)
    if only is not None:
        test = test.at_points(only)
    floors: dict[str, dict[Row, dict[int, float]]] = {
        name: {} if only is not None else stored_floors(trials, metric.floor, at, recalibration, split)
        for name, metric in METRICS.items()
        if metric.floor
    }
    for name, by_row in floors.items():
        for row in test.rows.keys() - by_row.keys():
            by_row[row] = floors_of(METRICS[name].floor, test.rows[row], test.labels)
    lost = with_ensembles(diverged or {}, test.rows)
    counted = {row: len(seeds) for row, seeds in lost.items()}
    return TestPredictions(test.rows, test.labels, fingerprint, floors, counted, recalibrated.fits)


class Recalibrated:
    """The predictions of all rows at one epoch, those of both splits recalibrated alike."""

    def __init__(self, trials: Sequence[StoredTrial], at: At, recalibration: Recalibration, *, deep: bool):
        self.trials, self.at, self.recalibration, self.deep = trials, at, recalibration, deep
        self.networks = {
            (trial.row.key, mode): trial.recalibrate(at, mode, recalibration)
            for trial in trials
            for mode in trial.modes(at)
        }

    def split(self, name: Split) -> SplitPredictions:
        """Of networks and of ensembles."""
        gathered = gather_split(self.trials, name, self.at, self.networks)
        ensembles = ensemble_rows(gathered.rows, self.deep)
        if self.recalibration != "none":
            ensembles = {
                row: {seed: self.ensembles[row][seed](log_p) for seed, log_p in by_seed.items()}
                for row, by_seed in ensembles.items()
            }
        return replace(gathered, rows=gathered.rows | ensembles)

    @cached_property
    def ensembles(self) -> dict[Row, dict[int, Recalibrate]]:
        """What recalibrates each ensemble, fitted on its own validation predictions."""
        validation = gather_split(self.trials, "validation", self.at, self.networks)
        return {
            row: {seed: fit(self.recalibration, log_p, validation.labels) for seed, log_p in by_seed.items()}
            for row, by_seed in ensemble_rows(validation.rows, self.deep).items()
        }

    def fits(self) -> Fits:
        """What metrics take from validation predictions; nothing where a trial has none."""
        if not all(trial.row.has_validation for trial in self.trials):
            return {}
        validation, known = self.split("validation"), self._known_temperatures()
        return {
            row: {seed: Fitted.on(log_p, validation.labels, known.get((row, seed))) for seed, log_p in by_seed.items()}
            for row, by_seed in validation.rows.items()
        }

    def _known_temperatures(self) -> dict[tuple[Row, int], float]:
        """With the least NLL on validation: of networks as they are, what they stored; of those scaled by it, 1."""
        if self.recalibration not in ("none", "temperature"):
            return {}
        is_scaled = self.recalibration == "temperature"
        return {
            (trial.named(mode), trial.row.seed): 1.0 if is_scaled else trial.temperature(self.at, mode)
            for trial in self.trials
            for mode in trial.modes(self.at)
        }


def gather_split(
    trials: Sequence[StoredTrial], split: Split, at: At, networks: Mapping[tuple[str, Mode], Recalibrate]
) -> SplitPredictions:
    """Of networks, without ensembles. `networks`: what makes log-probabilities of logits, by key and mode."""
    gathered: SplitPredictions | None = None
    for trial in trials:
        for mode in trial.modes(at):
            part = trial.predictions[at, mode].splits[split]
            if gathered is None:
                gathered = SplitPredictions(part.rows, part.labels, {})
            logits = part.logits[places_of(gathered.points, part.rows, trial.row.name)]
            log_p = networks[trial.row.key, mode](logits)
            gathered.rows.setdefault(trial.named(mode), {})[trial.row.seed] = log_p
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


def stored_floors(
    trials: Sequence[StoredTrial], floor: str, at: At, recalibration: Recalibration, split: Split
) -> dict[Row, dict[int, float]]:
    """The floors that trials have in their evaluations, which are as it is and after temperature scaling."""
    by_row: dict[Row, dict[int, float]] = {}
    if recalibration not in ("none", "temperature"):
        return by_row
    for trial in trials:
        for evaluation in trial.row.evaluations:
            if (evaluation.at, evaluation.split, evaluation.scaled) == (at, split, recalibration == "temperature"):
                row = Row(trial.row.arm, evaluation.mode, trial.row.phase)
                by_row.setdefault(row, {})[trial.row.seed] = evaluation.figures[floor]
    return by_row


def floors_of(floor: str, by_seed: BySeed, labels: Labels) -> dict[int, float]:
    """The same, computed."""
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
