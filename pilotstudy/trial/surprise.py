"""How surprising the images are to the DGM of an arm that has one, beside what was predicted for them.

It reads the test images again, after `trial.predicting`, and like that not in trials of a search. It decides nothing of
what is predicted, so it is no part of a trial's key, and a surprise beyond all numbers is no divergence.
"""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from pilotstudy.method.surprise import surprise, with_dgm
from pilotstudy.runs.schemas import TrialPredictions
from pilotstudy.trial.trainer import PREDICTION_BATCH, Trainer


def with_surprise(trainer: Trainer, predictions: TrialPredictions) -> TrialPredictions:
    """The same, with the surprise of all images in the point predictions of the last epoch."""
    at_last = predictions.get(("last", "point"))
    if at_last is None or with_dgm(trainer.regulariser) is None:
        return predictions
    data, rows = trainer.data, trainer.images.validation_rows.numpy()
    images = {"validation": data.train_images[rows], "test": data.test_images}
    images |= {test.name: test.images for test in data.tests}
    with trainer.averaging.used():
        found = {name: replace(part, surprise=_of(trainer, images[name])) for name, part in at_last.splits.items()}
    extra = {name: found[name] for name in at_last.extra}
    return {
        **predictions,
        ("last", "point"): at_last._replace(validation=found["validation"], test=found["test"], extra=extra),
    }


def _of(trainer: Trainer, images: NDArray[np.uint8]) -> NDArray[np.float32]:
    regulariser = with_dgm(trainer.regulariser)
    assert regulariser is not None
    batches = torch.from_numpy(images).split(PREDICTION_BATCH)
    found = torch.cat([surprise(regulariser, trainer.images.inputs(batch)) for batch in batches])
    return found.nan_to_num(nan=torch.finfo(found.dtype).max).cpu().numpy()
