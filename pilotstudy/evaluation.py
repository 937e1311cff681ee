"""The final evaluation: every metric, for each mode, at the last epoch and at the best on validation."""

import copy
from typing import Any

import numpy as np

from pilotstudy import metrics
from pilotstudy.tables import At, Predictions
from pilotstudy.training import Trainer


def predict(trainer: Trainer) -> list[Predictions]:
    """All predictions that are kept. This is the only place that reads the test images."""
    found: list[Predictions] = []
    last = copy.deepcopy(trainer.regulariser.state_dict())
    data, rows = trainer.data, trainer.validation_rows.numpy()
    test_rows = np.arange(len(data.test_labels))
    for mode in trainer.modes:
        states: tuple[tuple[At, Any], ...] = ("last", last), ("best", trainer.best.state)
        for at, state in states:
            if at == "best" and trainer.best.epoch == trainer.epoch:
                validation, test = found[-2].logits, found[-1].logits
            else:
                trainer.regulariser.load_state_dict(state)
                validation, test = trainer.validation_logits(mode), trainer.test_logits(mode)
            found.append(Predictions(at, mode, "validation", rows, data.train_labels[rows], validation))
            found.append(Predictions(at, mode, "test", test_rows, data.test_labels, test))
    trainer.regulariser.load_state_dict(last)
    return found


def evaluate(predictions: list[Predictions]) -> list[dict[str, Any]]:
    """A row of metrics for each epoch, mode and split, as it is and after temperature scaling.

    The temperature is fitted on the validation data of the same epoch and mode.
    """
    rows = []
    for validation, test in zip(predictions[::2], predictions[1::2], strict=True):
        temperature = metrics.fit_temperature(validation.logits, validation.labels)
        for some in validation, test:
            for scaled in False, True:
                t = temperature if scaled else 1.0
                row = {"at": some.at, "mode": some.mode, "split": some.split, "scaled": scaled, "temperature": t}
                rows.append(row | {"n": len(some.labels)} | metrics.evaluate(some.logits, some.labels, t))
    return rows


def reliability(some: Predictions, *, equal_mass: bool = False, bins: int = metrics.BINS) -> list[dict[str, Any]]:
    """The reliability diagram's bins; those that are empty have no confidence and no accuracy."""
    p = np.exp(metrics.log_probabilities(some.logits))
    found = metrics.binned(*metrics.confidences(p, some.labels), bins, equal_mass=equal_mass)
    return [
        {
            "lower": float(found.lower[m]),
            "upper": float(found.upper[m]),
            "count": int(found.count[m]),
            "confidence": float(found.confidence[m]) if found.count[m] else None,
            "accuracy": float(found.accuracy[m]) if found.count[m] else None,
        }
        for m in range(bins)
    ]
