"""Single trials, packed small enough for thousands of them."""

import base64
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pilotstudy.metrics import scores
from pilotstudy.metrics.registry import headline_objectives, objectives
from pilotstudy.metrics.scores import Array
from pilotstudy.page.results import shown_metrics
from pilotstudy.page.rounding import rounded
from pilotstudy.page.training import Curves, curve_names
from pilotstudy.runs.folder import Run
from pilotstudy.runs.records import Bin, Status, TrialRow

MOST_TRACEBACKS = 20

# How numbers are packed: as steps from 0 to the first, the second for none; of 16 bits for curves, of 8 for shares.
CURVE_STEPS, NO_CURVE = 65534, 65535
SHARE_STEPS, NO_SHARE = 254, 255


def trials_section(run: Run, trials: Sequence[TrialRow], curves: Curves) -> dict[str, object]:
    """A column for each thing there is to know of a trial; curves and reliability packed as small whole numbers."""
    settings = dict.fromkeys(name for trial in trials for name in trial.settings)
    spans = [curves.spans.get(trial.key, slice(0, 0)) for trial in trials]
    lengths = [span.stop - span.start for span in spans]
    epochs = np.concatenate([np.zeros(0, int), *(np.arange(span.start, span.stop) for span in spans)])
    return {
        "columns": trial_columns(trials),
        "figures": list(headline_objectives()),
        "settings": {name: [rounded(trial.settings.get(name), 4) for trial in trials] for name in settings},
        "lengths": lengths,
        "curves": {name: packed_curves(curves.columns[name][epochs], lengths) for name in curve_names()},
        "reliability": packed_bins([trial.reliability for trial in trials]),
        "packing": {
            "curves": {"steps": CURVE_STEPS, "none": NO_CURVE},
            "shares": {"steps": SHARE_STEPS, "none": NO_SHARE},
        },
        "tracebacks": tracebacks(run, trials),
    }


def trial_columns(trials: Sequence[TrialRow]) -> dict[str, object]:
    columns: dict[str, object] = {
        "phase": [trial.phase for trial in trials],
        "arm": [trial.arm for trial in trials],
        "number": [trial.number for trial in trials],
        "seed": [trial.seed for trial in trials],
        "status": [trial.status for trial in trials],
        "epochs": [trial.epochs for trial in trials],
        "best_epoch": [trial.best_epoch for trial in trials],
        "error": [trial.error for trial in trials],
        "reused": [trial.reused for trial in trials],
        "retries": [trial.retries for trial in trials],
        "moves": [trial.moves for trial in trials],
        "seconds": [trial.training_seconds and round(trial.training_seconds, 1) for trial in trials],
    }
    figures = [last_validation(trial) for trial in trials]
    names = dict.fromkeys((*objectives(), *(metric["name"] for metric in shown_metrics())))
    return columns | {name: [rounded(of_trial.get(name), 4) for of_trial in figures] for name in names}


def last_validation(trial: TrialRow) -> Mapping[str, float]:
    """All validation figures of the point prediction at the last epoch."""
    wanted = "last", "point", "validation", False
    figures = (e.figures for e in trial.evaluations if (e.at, e.mode, e.split, e.scaled) == wanted)
    return next(figures, {})


def packed_curves(values: Array, lengths: Sequence[int]) -> dict[str, object]:
    """Each trial's numbers as 16-bit steps between its own extremes."""
    finite = np.isfinite(values)
    trial = np.repeat(np.arange(len(lengths)), lengths)
    low, high = np.full(len(lengths), np.inf), np.full(len(lengths), -np.inf)
    np.minimum.at(low, trial[finite], values[finite])
    np.maximum.at(high, trial[finite], values[finite])
    low, high = np.where(low > high, [[0.0], [1.0]], [low, high])
    width = np.where(high > low, high - low, 1.0)
    with np.errstate(invalid="ignore"):
        scaled = np.round((values - low[trial]) / width[trial] * CURVE_STEPS)
    steps = np.where(finite, scaled, NO_CURVE).astype(np.uint16)
    return {"low": rounded(low.tolist()), "high": rounded(high.tolist()), "data": encoded(steps)}


def packed_bins(trials: Sequence[Sequence[Bin]]) -> dict[str, str]:
    """Counts as 16-bit numbers, accuracy and confidence as shares (an empty bin has none); no bins, all zeros."""
    shape = (len(trials), scores.BINS)
    count = np.zeros(shape, np.uint16)
    accuracy, confidence = np.full(shape, NO_SHARE, np.uint8), np.full(shape, NO_SHARE, np.uint8)
    for row, bins in enumerate(trials):
        for column, each in enumerate(bins):
            if each.count and each.accuracy is not None and each.confidence is not None:
                count[row, column] = min(each.count, np.iinfo(count.dtype).max)
                accuracy[row, column] = round(SHARE_STEPS * each.accuracy)
                confidence[row, column] = round(SHARE_STEPS * each.confidence)
    return {"count": encoded(count), "accuracy": encoded(accuracy), "confidence": encoded(confidence)}


def encoded(values: NDArray[np.uint16] | NDArray[np.uint8]) -> str:
    """The bytes of numbers, little-endian, in base 64."""
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return base64.b64encode(little.tobytes()).decode()


def tracebacks(run: Run, trials: Sequence[TrialRow]) -> dict[int, str]:
    """Where failed trials failed, by their place; of many, the first ones."""
    failed = [place for place, trial in enumerate(trials) if trial.status == Status.FAILED][:MOST_TRACEBACKS]
    results = {place: run.result(trials[place].key) for place in failed}
    return {place: result.traceback for place, result in results.items() if result and result.traceback}
