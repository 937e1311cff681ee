"""What a run's stored predictions say of its arms: figures with intervals, ensembles, differences. No training."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
from scipy.special import logsumexp

from pilotstudy import metrics, statistics, tables
from pilotstudy.errors import InputError
from pilotstudy.metrics import Array, Labels
from pilotstudy.results import Results
from pilotstudy.runs import Run
from pilotstudy.statements import Row
from pilotstudy.statistics import Estimate, Sample
from pilotstudy.tables import Predictions

PAPER_METRICS = ("accuracy", "nll", "ece")

Predicted = dict[int, Array]  # seed → log-probabilities [n, K] of the test points


@dataclass(frozen=True)
class Loaded:
    """The test predictions of a run, for each row and seed."""

    rows: dict[Row, Predicted]
    labels: Labels
    fingerprint: str
    floors: dict[Row, float]  # the ECE's noise floor, mean over seeds


Stored = list[tuple[dict[str, Any], list[Predictions]]]


def read(run: Run) -> Stored:
    """The finished trials outside the search, as rows of the table of trials, with their predictions."""
    trials = Results(run.files).trials.to_pylist()
    wanted = [trial for trial in trials if trial["phase"] != "search" and trial["status"] == "finished"]
    return [(trial, tables.load_predictions(run.files.trial(trial["key"]).predictions)) for trial in wanted]


def load(
    run: Run, at: str = "last", *, scaled: bool = False, deep: bool = False, stored: Stored | None = None
) -> Loaded:
    """All rows of a run, with the paper's ensemble, and with deep ensembles too if `deep`.

    `scaled`: after temperature scaling fitted on validation.
    """
    rows: dict[Row, Predicted] = {}
    validation: dict[Row, Predicted] = {}
    labels: dict[str, Labels] = {}
    floors: dict[Row, list[float]] = {}
    for trial, predictions in read(run) if stored is None else stored:
        temperatures = {e["mode"]: e["temperature"] for e in trial["evaluations"] if e["at"] == at and e["scaled"]}
        for found in trial["evaluations"]:
            if (found["at"], found["split"], found["scaled"]) == (at, "test", scaled):
                row = Row(trial["arm"], found["mode"], trial["phase"])
                floors.setdefault(row, []).append(found["ece_noise_floor"])
        for some in predictions:
            if some.at != at or (some.split == "validation" and not scaled):
                continue
            row = Row(trial["arm"], some.mode, trial["phase"])
            into = rows if some.split == "test" else validation
            temperature = temperatures[some.mode] if scaled else 1.0
            into.setdefault(row, {})[trial["seed"]] = metrics.log_probabilities(some.logits, temperature)
            labels[some.split] = some.labels
    if not rows:
        raise InputError(f"run {run.name!r} has no finished trial to look at yet")
    ensembles = ensemble_rows(rows, deep)
    if scaled:  # an ensemble has a temperature of its own
        on_validation = ensemble_rows(validation, deep)
        for row, predicted in ensembles.items():
            for seed, log_p in predicted.items():
                temperature = metrics.fit_temperature(on_validation[row][seed], labels["validation"])
                predicted[seed] = metrics.log_probabilities(log_p, temperature)
    for row, predicted in ensembles.items():
        floors[row] = [metrics.ece_noise_floor(np.exp(log_p).max(1), draws=200)[0] for log_p in predicted.values()]
    mean_floors = {row: float(np.mean(of_seeds)) for row, of_seeds in floors.items()}
    return Loaded(rows | ensembles, labels["test"], str(run.frozen()["fingerprint"]), mean_floors)


def average(members: Sequence[Array]) -> Array:
    """The logarithm of the mean of the members' probabilities."""
    return np.asarray(logsumexp(np.stack(members), axis=0) - np.log(len(members)))


def ensemble_rows(rows: dict[Row, Predicted], deep: bool) -> dict[Row, Predicted]:
    """The paper's ensemble, for each seed that all baselines have; if `deep`, also one of every arm's seeds."""
    found: dict[Row, Predicted] = {}
    baselines = [predicted for row, predicted in rows.items() if row.is_baseline and row.phase == "arms"]
    if len(baselines) > 1:
        common = sorted(set.intersection(*map(set, baselines)))
        if common:
            found[Row("ensemble", "ensemble")] = {s: average([one[s] for one in baselines]) for s in common}
    for row, predicted in rows.items():
        if deep and row.mode == "point" and len(predicted) > 1:
            found[replace(row, mode="seeds")] = {0: average(list(predicted.values()))}
    return found


class Evidence:
    """Figures of every row, and of any contrast between rows, with intervals."""

    def __init__(self, loaded: Loaded, names: Sequence[str] = PAPER_METRICS, resamples: int = statistics.RESAMPLES):
        self.points = len(loaded.labels)
        self.samples: dict[str, dict[Row, Sample]] = {name: {} for name in names}
        flat = [(row, seed, log_p) for row, predicted in loaded.rows.items() for seed, log_p in predicted.items()]
        # The seed comes from the data, so runs on the same test points are resampled alike, and others apart.
        seed = int(loaded.fingerprint[:8] or "0", 16)
        values, resampled = statistics.resample([log_p for *_, log_p in flat], loaded.labels, names, resamples, seed)
        for name in names:
            start = 0
            for row, members in groupby(flat, key=lambda entry: entry[0]):
                seeds = tuple(seed for _, seed, _ in members)
                span = slice(start, start + len(seeds))
                self.samples[name][row] = Sample(seeds, values[name][span], resampled[name][:, span])
                start = span.stop

    @classmethod
    def of(
        cls, run: Run, names: Sequence[str] = PAPER_METRICS, at: str = "last", *, scaled: bool = False
    ) -> "Evidence":
        return cls(load(run, at, scaled=scaled), names)

    @property
    def rows(self) -> list[Row]:
        return list(next(iter(self.samples.values())))

    def figure(self, metric: str, row: Row) -> Estimate:
        found = statistics.contrast([(1.0, self.samples[metric][row])], [row.phase])
        assert found
        most = np.inf if metric in ("nll", "entropy", "brier") else 1.0
        return replace(found, low=max(found.low, 0.0), high=min(found.high, most))

    def contrast(self, metric: str, terms: Sequence[tuple[float, Row]], constant: float = 0.0) -> Estimate | None:
        """Σ coefficient · figure + constant; rows of the same phase are paired by seed."""
        samples = [(c, self.samples[metric][row]) for c, row in terms]
        # An ensemble of seeds is a single network: nothing to pair it with.
        groups = [(row.phase, str(row) if row.mode == "seeds" else "") for _, row in terms]
        return statistics.contrast(samples, groups, constant)

    def difference(self, metric: str, ours: Row, theirs: Row) -> Estimate | None:
        return self.contrast(metric, [(1.0, ours), (-1.0, theirs)])

    def best(self, metric: str, rows: Sequence[Row]) -> tuple[Row | None, list[Row]]:
        """The row that is really the best (None if that cannot be said), and all that may be.

        It must differ from each of the others at the level over their number, since it was chosen by looking.
        """
        better = statistics.METRICS[metric].better
        if not better:
            return None, []
        leader = max(rows, key=lambda row: better * self.figure(metric, row).value)
        others = [row for row in rows if row != leader]
        level = (1 - statistics.LEVEL) / max(1, len(others))
        differences = {row: self.difference(metric, leader, row) for row in others}
        near = [row for row, d in differences.items() if d is None or d.seeds < 2 or d.p > level]
        return (None if near or not others else leader), [leader, *near]


def ensembles(run: Run, at: str = "last") -> list[dict[str, Any]]:
    """Every ensemble with all metrics, as it is and after temperature scaling: mean over its seeds."""
    found = []
    for scaled in False, True:
        loaded = load(run, at, scaled=scaled, deep=True)
        for row, predicted in loaded.rows.items():
            if row.mode in ("ensemble", "seeds"):
                figures = [metrics.evaluate(log_p, loaded.labels) for log_p in predicted.values()]
                means = {name: float(np.mean([one[name] for one in figures])) for name in figures[0]}
                found.append({"row": str(row), "at": at, "scaled": scaled, "seeds": len(predicted), **means})
    return found


def budget(run: Run) -> dict[str, Any]:
    """What each arm was given: seeds, epochs, search trials."""
    study = run.study()
    searched = study.search.arms if study.search and study.search.trials else ()
    each = study.search.trials // len(searched) if study.search and searched else 0
    return {
        "seeds": len(study.seeds),
        "epochs": study.training.epochs,
        "train_size": study.data.train_size,
        "search_trials": {arm: each for arm in searched},
        "confirm_seeds": study.search.confirm_seeds if study.search else 0,
    }
