"""What a page shows of single trials and of their epochs, small enough for thousands of them."""

import base64
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
from numpy.typing import NDArray

from pilotstudy import metrics, tables, tabulate
from pilotstudy.files import is_remote
from pilotstudy.metrics import Array
from pilotstudy.results import OBJECTIVES, validation_figures
from pilotstudy.runs import Run
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
    """The epochs of all trials, read together: thousands of small files would take long one by one."""

    def __init__(self, run: Run, keys: Sequence[str]):
        folder: Any = run.files.epochs
        store = folder.fs if is_remote(folder) else None
        there = {path.stem: path.path if store else str(path) for path in folder.glob("*.parquet")}
        paths = sorted({there[key] for key in keys if key in there})
        self.of: dict[str, slice] = {}
        self.columns: dict[str, Array] = {}
        self._layers: Any = None
        if not paths:
            return
        names = [*dict.fromkeys(("epoch", *CURVES, *LEARNING, *DGM))]
        wanted = [*names, "imputation_error", "__filename"]
        small = ds.ParquetFragmentScanOptions(pre_buffer=False)  # thousands of small files: nothing to read ahead
        form = ds.ParquetFileFormat(default_fragment_scan_options=small)
        found = ds.dataset(paths, schema=tables.EPOCHS, format=form, filesystem=store).to_table(columns=wanted)
        file = found["__filename"].combine_chunks().dictionary_encode()
        starts = np.flatnonzero(np.r_[True, np.diff(file.indices.to_numpy()) != 0])
        for start, end in zip(starts, [*starts[1:], len(found)], strict=True):
            key = Path(found["__filename"][int(start)].as_py()).stem
            self.of[key] = slice(int(start), int(end))
        self.columns = {name: found[name].to_numpy().astype(float) for name in names}
        self._layers = found["imputation_error"]

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
    lengths = [curves.of[t["key"]].stop - curves.of[t["key"]].start if t["key"] in curves.of else 0 for t in trials]
    return {
        "columns": columns,
        "settings": {name: [rounded(one.get(name), 4) for one in settings] for name in names},
        "lengths": lengths,
        "curves": {name: packed([curves.get(trial["key"], name) for trial in trials]) for name in CURVES},
        "reliability": packed_bins([trial["reliability"] or [] for trial in trials]),
    }


def packed(trials: Sequence[Array]) -> dict[str, Any]:
    """Each trial's numbers as 16-bit steps between its own extremes; 65535 is none."""
    lows, highs, steps = [], [], [np.zeros(0, "<u2")]
    for values in trials:
        known = values[np.isfinite(values)]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
        scaled = np.round((np.clip(values, low, high) - low) / ((high - low) or 1) * 65534)
        steps.append(np.where(np.isfinite(values), scaled, 65535).astype("<u2"))
        lows.append(rounded(low))
        highs.append(rounded(high))
    return {"low": lows, "high": highs, "data": encode(np.concatenate(steps))}


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
