"""The predictions that are kept of a trial: both splits, in each mode, at the last epoch and at the best on validation.

This is the only place that reads the test images, and for a trial of a search it does not.
"""

import copy

import numpy as np

from pilotstudy.arms.arm import Mode
from pilotstudy.runs.records import At
from pilotstudy.runs.schemas import PredictionPair, Predictions, TrialPredictions
from pilotstudy.trial.trainer import Trainer


def predict(trainer: Trainer, *, test: bool = True) -> TrialPredictions:
    """For each mode first the last epoch, then the best; the model is left as it was. `test`: the test images, too."""
    with trainer.averaging.used():
        return _predict(trainer, test)


def _predict(trainer: Trainer, test: bool) -> TrialPredictions:
    pairs: dict[tuple[At, Mode], PredictionPair] = {}
    last = copy.deepcopy(trainer.regulariser.state_dict())
    for mode in trainer.modes:
        trainer.regulariser.load_state_dict(last)
        pairs["last", mode] = predict_splits(trainer, mode, test)
        if trainer.best.epoch == trainer.epoch:
            pairs["best", mode] = pairs["last", mode]
        else:
            trainer.regulariser.load_state_dict(trainer.best.state)
            pairs["best", mode] = predict_splits(trainer, mode, test)
    trainer.regulariser.load_state_dict(last)
    return pairs


def predict_splits(trainer: Trainer, mode: Mode, test: bool) -> PredictionPair:
    """What the model as it is now predicts for the validation images, and for the test images if asked."""
    if mode == "mc":
        trainer.prepare_sampling()
    data, rows = trainer.data, trainer.images.validation_rows.numpy()
    validation = Predictions(rows, data.train_labels[rows], trainer.validation_logits(mode))
    if not test:
        return PredictionPair(validation, Predictions(rows[:0], validation.labels[:0], validation.logits[:0]))
    of_test = Predictions(np.arange(len(data.test_labels)), data.test_labels, trainer.test_logits(mode))
    return PredictionPair(validation, of_test)
