"""Training: the learning curves of each arm over its seeds, and the terms of its DGM."""

import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypedDict

import numpy as np

from pilotstudy.arms.arm import Declared
from pilotstudy.evidence.labels import row_label
from pilotstudy.metrics.registry import METRICS, headline_objectives
from pilotstudy.metrics.scores import Array
from pilotstudy.page.rounding import rounded
from pilotstudy.runs.records import Status, TrialRow
from pilotstudy.runs.results import Results
from pilotstudy.study.spec import Study
from pilotstudy.study.statements import Row

# Columns of the epochs, and how the page names them.
MORE = {"validation_entropy": "entropy of predictions", "train_loss": "training loss"}
DGM = {"reconstruction": "reconstruction", "kl": "KL", "hyperprior": "hyperprior", "gradient_norm": "gradient norm"}


def curve_names() -> dict[str, str]:
    """The curves that the page shows of every trial."""
    shown = (METRICS[name] for name in headline_objectives() if METRICS[name].every_epoch)
    return {f"validation_{metric.name}": f"validation {metric.short}" for metric in shown}


class Band(TypedDict):
    """Over seeds, by epoch."""

    mean: list[float]
    low: list[float]
    high: list[float]


class Curves:
    """The epochs of all trials, by key."""

    def __init__(self, results: Results):
        epochs = results.epochs
        self.columns: dict[str, Array] = {
            name: epochs[name].to_numpy().astype(float) for name in (*curve_names(), *MORE, *DGM)
        }
        self._layers = epochs["imputation_error"]
        keys = epochs["key"].combine_chunks().dictionary_encode()
        starts = np.flatnonzero(np.diff(keys.indices.to_numpy(), prepend=-1))  # a trial's rows lie together
        names = keys.dictionary.to_pylist()
        spans = pairwise([*starts.tolist(), len(epochs)])
        self.spans = {names[keys.indices[start].as_py()]: slice(start, end) for start, end in spans}

    def layers(self, key: str) -> list[list[float | None] | None]:
        """The imputation error of each layer, by epoch."""
        span = self.spans[key]
        errors: list[list[float | None] | None] = self._layers.slice(span.start, span.stop - span.start).to_pylist()
        return errors

    def get(self, key: str, name: str) -> Array:
        return self.columns[name][self.spans[key]] if key in self.spans else np.zeros(0)


def training_section(
    study: Study, trials: Sequence[TrialRow], curves: Curves, arms: Mapping[str, Declared]
) -> dict[str, object]:
    names = curve_names() | MORE
    lines = []
    for phase in "arms", "confirm":
        for arm in study.arms:
            own = [t for t in trials if (t.phase, t.arm, t.status) == (phase, arm, Status.FINISHED)]
            keys = [trial.key for trial in own if trial.key in curves.spans]
            if keys:
                row = Row(arm, "point", phase, arms.get(arm))
                lines.append(
                    {
                        "row": str(row),
                        "label": row_label(row),
                        "arm": row.arm,
                        "mode": row.mode,
                        "phase": phase,
                        "curves": {name: band([curves.get(key, name) for key in keys]) for name in names},
                        "dgm": dgm_terms(keys, curves),
                        "turn": turning_point([curves.get(key, "validation_nll") for key in keys]),
                    }
                )
    return {"rows": rounded(lines, 4), "curves": names, "dgm": DGM}


def band(seeds: Sequence[Array]) -> Band | None:
    """Mean, lowest and highest over seeds, for as many epochs as all of them have."""
    epochs = min(map(len, seeds))
    stacked = np.stack([values[:epochs] for values in seeds])
    if not epochs or np.isnan(stacked).all():
        return None
    return {"mean": stacked.mean(0).tolist(), "low": stacked.min(0).tolist(), "high": stacked.max(0).tolist()}


def dgm_terms(keys: Sequence[str], curves: Curves) -> dict[str, object] | None:
    """Over seeds, and the imputation error of each layer; None without a DGM."""
    terms: dict[str, object] = {name: band([curves.get(key, name) for key in keys]) for name in DGM}
    if all(term is None for term in terms.values()):
        return None
    return terms | {"imputation_error": imputation_errors([curves.layers(key) for key in keys])}


def imputation_errors(seeds: Sequence[list[list[float | None] | None]]) -> list[list[float]]:
    """[layer][epoch], mean over seeds."""
    epochs = min(map(len, seeds))
    depth = max((len(layers or []) for by_epoch in seeds for layers in by_epoch), default=0)
    errors = np.full((len(seeds), epochs, depth), np.nan)
    for seed, by_epoch in enumerate(seeds):
        for epoch, layers in enumerate(by_epoch[:epochs]):
            errors[seed, epoch, : len(layers or [])] = [np.nan if e is None else e for e in layers or []]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a layer that was never imputed
        by_layer: list[list[float]] = np.nanmean(errors, 0).T.tolist()
    return by_layer


def turning_point(seeds: Sequence[Array]) -> int | None:
    """The epoch from which the mean validation NLL only gets worse by more than a tenth: where overfitting starts."""
    over_seeds = band(seeds)
    if over_seeds is None or len(over_seeds["mean"]) < 3:
        return None
    curve = np.array(over_seeds["mean"])
    lowest = int(curve.argmin())
    return lowest + 1 if curve[-1] > 1.1 * curve[lowest] else None
