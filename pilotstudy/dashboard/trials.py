"""What a page shows of single trials and of their epochs, small enough for thousands of them."""

import base64
import json
import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilotstudy import metrics, tabulate
from pilotstudy.metrics import Array
from pilotstudy.results import OBJECTIVES, Results, validation_figures
from pilotstudy.spec import Study
from pilotstudy.statements import Row

CURVES = ("validation_nll", "validation_accuracy", "validation_ece")
LEARNING = (*CURVES, "validation_entropy", "train_loss")
DGM = ("reconstruction", "kl", "hyperprior", "gradient_norm")


def rounded(value: Any, digits: int = 5) -> Any:
    """Floats with few digits, for a small page."""
    if isinstance(value, dict):
        return {name: rounded(entry, digits) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(entry, digits) for entry in value]
    if isinstance(value, float):
        return None if not np.isfinite(value) else float(f"{value:.{digits}g}")
    return value


class Curves:
    """The epochs of all trials, by key."""

    def __init__(self, results: Results):
        found = results.epochs
        self.columns: dict[str, Array] = {
            name: found[name].to_numpy().astype(float) for name in dict.fromkeys((*LEARNING, *DGM))
        }
        self._layers = found["imputation_error"]
        keys = found["key"].combine_chunks().dictionary_encode()
        starts = np.flatnonzero(np.diff(keys.indices.to_numpy(), prepend=-1))  # a trial's rows lie together
        names = keys.dictionary.to_pylist()
        self.of = {names[keys.indices[a].as_py()]: slice(a, b) for a, b in pairwise([*starts.tolist(), len(found)])}

    def layers(self, key: str) -> list[list[float] | None]:
        """The imputation error of each layer, by epoch."""
        span = self.of[key]
        found: list[list[float] | None] = self._layers.slice(span.start, span.stop - span.start).to_pylist()
        return found

    def get(self, key: str, name: str) -> Array:
        return self.columns[name][self.of[key]] if key in self.of else np.zeros(0)


def training(study: Study, trials: Sequence[dict[str, Any]], curves: Curves) -> dict[str, Any]:
    """Learning curves of each arm over its seeds (mean and range), and the DGM's terms."""
    lines = []
    for phase in "arms", "confirm":
        for arm in study.arms:
            own = [t for t in trials if (t["phase"], t["arm"], t["status"]) == (phase, arm, "finished")]
            keys = [t["key"] for t in own if t["key"] in curves.of]
            if keys:
                row = Row(arm, "point", phase)
                lines.append(
                    {
                        "row": str(row),
                        "label": tabulate.label(row),
                        "phase": phase,
                        "curves": {name: band([curves.get(key, name) for key in keys]) for name in LEARNING},
                        "dgm": dgm(keys, curves),
                        "turn": turning_point([curves.get(key, "validation_nll") for key in keys]),
                    }
                )
    return {"rows": rounded(lines, 4)}


def band(values: Sequence[Array]) -> dict[str, list[float]] | None:
    """Mean, lowest and highest over seeds, for as many epochs as all of them have."""
    epochs = min(map(len, values))
    stacked = np.stack([one[:epochs] for one in values])
    if not epochs or np.isnan(stacked).all():
        return None
    return {"mean": stacked.mean(0).tolist(), "low": stacked.min(0).tolist(), "high": stacked.max(0).tolist()}


def dgm(keys: Sequence[str], curves: Curves) -> dict[str, Any] | None:
    """The DGM's terms over seeds, and the imputation error of each layer."""
    found: dict[str, Any] = {name: band([curves.get(key, name) for key in keys]) for name in DGM}
    if all(value is None for value in found.values()):
        return None
    by_seed = [curves.layers(key) for key in keys]
    epochs = min(map(len, by_seed))
    depth = max((len(errors or []) for seed in by_seed for errors in seed), default=0)
    table = np.full((len(keys), epochs, depth), np.nan)
    for s, seed in enumerate(by_seed):
        for e, errors in enumerate(seed[:epochs]):
            table[s, e, : len(errors or [])] = [np.nan if v is None else v for v in errors or []]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found["imputation_error"] = np.nanmean(table, 0).T.tolist()
    return found


def turning_point(values: Sequence[Array]) -> int | None:
    """The epoch from which the mean validation NLL only gets worse by more than a tenth: where overfitting starts."""
    found = band(values)
    if found is None or len(found["mean"]) < 3:
        return None
    curve = np.array(found["mean"])
    lowest = int(curve.argmin())
    return lowest + 1 if curve[-1] > 1.1 * curve[lowest] else None


def trial_columns(study: Study, trials: Sequence[dict[str, Any]], curves: Curves) -> dict[str, Any]:
    """A column for each thing there is to know of a trial; curves and reliability packed as small whole numbers."""
    settings = [json.loads(trial["settings"]) for trial in trials]
    names = dict.fromkeys(name for one in settings for name in one)
    figures = [validation_figures(trial["evaluations"]) or {} for trial in trials]
    columns: dict[str, Any] = {
        name: [trial[name] for trial in trials]
        for name in (
            "phase",
            "arm",
            "number",
            "seed",
            "status",
            "epochs",
            "best_epoch",
            "error",
            "reused",
            "retries",
            "moves",
        )
    }
    columns["seconds"] = [trial["training_seconds"] and round(trial["training_seconds"], 1) for trial in trials]
    columns |= {name: [rounded(figure.get(name), 4) for figure in figures] for name in OBJECTIVES}
    spans = [curves.of.get(trial["key"], slice(0, 0)) for trial in trials]
    lengths = [span.stop - span.start for span in spans]
    rows = np.concatenate([np.zeros(0, int), *(np.arange(span.start, span.stop) for span in spans)])
    return {
        "columns": columns,
        "settings": {name: [rounded(one.get(name), 4) for one in settings] for name in names},
        "lengths": lengths,
        "curves": {name: packed(curves.columns[name][rows], lengths) for name in CURVES},
        "reliability": packed_bins([trial["reliability"] or [] for trial in trials]),
    }


def packed(values: Array, lengths: Sequence[int]) -> dict[str, Any]:
    """Each trial's numbers as 16-bit steps between its own extremes; 65535 is none."""
    known = np.isfinite(values)
    trial = np.repeat(np.arange(len(lengths)), lengths)
    low, high = np.full(len(lengths), np.inf), np.full(len(lengths), -np.inf)
    np.minimum.at(low, trial[known], values[known])
    np.maximum.at(high, trial[known], values[known])
    low, high = np.where(low > high, [[0.0], [1.0]], [low, high])
    width = np.where(high > low, high - low, 1.0)
    with np.errstate(invalid="ignore"):
        scaled = np.round((values - low[trial]) / width[trial] * 65534)
    steps = np.where(known, scaled, 65535).astype("<u2")
    return {"low": rounded(low.tolist()), "high": rounded(high.tolist()), "data": encode(steps)}


def packed_bins(trials: Sequence[Sequence[dict[str, Any]]]) -> dict[str, str]:
    """Counts as 16-bit numbers, accuracy and confidence in 254ths (255: an empty bin); no bins, all zeros."""
    shape = (len(trials), metrics.BINS)
    count, accuracy, confidence = np.zeros(shape, "<u2"), np.full(shape, 255, "u1"), np.full(shape, 255, "u1")
    for row, bins in enumerate(trials):
        for m, one in enumerate(bins):
            if one["count"]:
                count[row, m] = min(one["count"], 65535)
                accuracy[row, m], confidence[row, m] = (round(254 * one[name]) for name in ("accuracy", "confidence"))
    return {"count": encode(count), "accuracy": encode(accuracy), "confidence": encode(confidence)}


def encode(values: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()
