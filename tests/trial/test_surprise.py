"""What a trial stores of surprise, and that it changes nothing else."""

import copy

import numpy as np
import pytest
import torch

from pilotstudy.method.pilot import Pilot
from pilotstudy.method.star import Star
from pilotstudy.method.surprise import surprise
from pilotstudy.runs import schemas
from pilotstudy.runs.layout import TrialFiles
from pilotstudy.runs.records import Status
from pilotstudy.trial.lifecycle import LiveTrial
from pilotstudy.trial.predicting import predict
from pilotstudy.trial.surprise import with_surprise
from pilotstudy.trial.trainer import Trainer
from tests.support.squares import make_trial

SMALL = {"dgm_width": 8, "z": 2}


def averaged(trial):
    average = trial.training.average.model_copy(update={"name": "ema"})
    return trial.model_copy(update={"training": trial.training.model_copy(update={"average": average})})


@pytest.mark.parametrize("arm", ["pilot-a-drop", "pilot-star", "pilot-a-aug+dropout", "passes+pilot-x-aug"])
def test_it_is_beside_the_last_point_predictions_and_all_else_is_as_it_was(arm, squares):
    trainer = Trainer(averaged(make_trial(arm, **SMALL)), squares)
    trainer.train_epoch()
    trainer.best.epoch = 0  # as if another epoch had been better
    trainer.best.state = copy.deepcopy(trainer.regulariser.state_dict())
    plain = predict(trainer)
    state, random = copy.deepcopy(trainer.state()), torch.get_rng_state()
    found = with_surprise(trainer, plain)
    assert torch.equal(random, torch.get_rng_state())
    now = trainer.state()
    for kept in "model", "averaging":
        torch.testing.assert_close(now[kept], state[kept], rtol=0, atol=0)
    assert list(found) == list(plain)
    for model, pair in found.items():
        for split, part in pair.splits.items():
            before = plain[model].splits[split]
            assert part.logits is before.logits
            assert part.expected_entropy is before.expected_entropy
            assert (part.surprise is not None) == (model == ("last", "point"))
    images = torch.from_numpy(squares.test_images)
    with trainer.averaging.used():
        with_its_dgm = next(part for part in trainer.regulariser.modules() if isinstance(part, Pilot | Star))
        expected = surprise(with_its_dgm, trainer.images.inputs(images))
    np.testing.assert_allclose(found["last", "point"].test.surprise, expected, rtol=1e-5)
    assert len(found["last", "point"].validation.surprise) == 60


def test_an_arm_without_a_dgm_has_none(squares):
    trainer = Trainer(make_trial("dropout"), squares)
    predictions = predict(trainer)
    assert with_surprise(trainer, predictions) is predictions


@pytest.mark.parametrize("test", [True, False])
def test_a_surprise_beyond_all_numbers_is_no_divergence(test, squares, tmp_path):
    files = TrialFiles.in_folder(tmp_path)
    live = LiveTrial(make_trial("pilot-star", epochs=1, **SMALL), squares, files, test=test)
    live.advance()
    with torch.no_grad():
        live.trainer.regulariser.dgm.decoder[0].weight.fill_(torch.inf)
    assert live.finish().status is Status.FINISHED
    part = schemas.load_predictions(files.predictions, has_test=test)["last", "point"].validation
    if test:
        assert (part.surprise == np.finfo(np.float32).max).all()
    else:
        assert part.surprise is None  # as trials of a search
