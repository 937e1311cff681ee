"""The predictions that are kept of a trial: both splits, in each mode, at the last epoch and at the best on validation.

The study's further test sets are predicted at the last epoch.

Beside `trial.surprise` this is the only place that reads the test images, and for a trial of a search it does not.
"""

import copy

import numpy as np
from numpy.typing import NDArray

from pilotstudy.arms.arm import Mode
from pilotstudy.runs.records import At
from pilotstudy.runs.schemas import ModelPredictions, Predictions, TrialPredictions
from pilotstudy.trial.trainer import Trainer


def predict(trainer: Trainer, *, test: bool = True) -> TrialPredictions:
    """For each mode first the last epoch, then the best; the model is left as it was. `test`: what tests, too."""
    with trainer.averaging.used():
        return _predict(trainer, test)


def are_finite(predictions: TrialPredictions) -> bool:
    """Whether all of them are numbers: those of a network whose validation loss was finite need not be."""
    parts = [part for model in predictions.values() for part in model.splits.values()]
    known = [array for part in parts for array in (part.logits, part.expected_entropy) if array is not None]
    return all(np.isfinite(array).all() for array in known)


def _predict(trainer: Trainer, test: bool) -> TrialPredictions:
    pairs: dict[tuple[At, Mode], ModelPredictions] = {}
    last = copy.deepcopy(trainer.regulariser.state_dict())
    for mode in trainer.modes:
        trainer.regulariser.load_state_dict(last)
        at_last = predict_splits(trainer, mode, test)
        pairs["last", mode] = at_last._replace(extra=predict_tests(trainer, mode)) if test else at_last
        if trainer.best.epoch == trainer.epoch:
            pairs["best", mode] = at_last
        else:
            trainer.regulariser.load_state_dict(trainer.best.state)
            pairs["best", mode] = predict_splits(trainer, mode, test)
    trainer.regulariser.load_state_dict(last)
    return pairs


def predict_splits(trainer: Trainer, mode: Mode, test: bool) -> ModelPredictions:
    """What the model as it is now predicts for the validation images, and for the test images if asked."""
    data, rows = trainer.data, trainer.images.validation_rows.numpy()
    validation = Predictions(rows, data.train_labels[rows], trainer.validation_logits_prepared(mode))
    if not test:
        return ModelPredictions(validation, Predictions(rows[:0], validation.labels[:0], validation.logits[:0]))
    all_rows = np.arange(len(data.test_labels))
    return ModelPredictions(validation, _of_images(trainer, mode, data.test_images, data.test_labels, all_rows))


def predict_tests(trainer: Trainer, mode: Mode) -> dict[str, Predictions]:
    """What the model as it is now predicts for the study's further test sets, by name."""
    return {test.name: _of_images(trainer, mode, test.images, test.labels, test.rows) for test in trainer.data.tests}


def _of_images(
    trainer: Trainer, mode: Mode, images: NDArray[np.uint8], labels: NDArray[np.int64], rows: NDArray[np.int64]
) -> Predictions:
    return Predictions(rows, labels, *trainer.predict_images(images, mode))
