"""What a trial does for arms that keep weights, fit themselves to the training images, or are optimisers."""

import copy

import numpy as np
import pytest
import torch

from pilotstudy.arms.catalogue import arm_named
from pilotstudy.errors import InputError
from pilotstudy.method.langevin import LangevinOptimiser
from pilotstudy.method.regulariser import Regulariser
from pilotstudy.runs.records import Status
from pilotstudy.schedule.beforehand import check_models
from pilotstudy.study.reading import validate_study
from pilotstudy.study.recipe import Training
from pilotstudy.trial import checkpoint
from pilotstudy.trial.lifecycle import train_trial
from pilotstudy.trial.optimising import has_own_optimiser
from pilotstudy.trial.predicting import predict
from pilotstudy.trial.trainer import MC_SAMPLES, Trainer
from tests.support.cuda_trials import CUDA, trial_of
from tests.support.pretended import pretended
from tests.support.squares import make_trial

CPU = torch.device("cpu")
BAYESIAN = ["concrete-dropout", "gaussian-dropout", "variational-dropout", "mfvi", "sgld", "swag", "laplace"]


def trial_with(arm: str, *, epochs: int = 2, **recipe):
    trial = make_trial("vanilla")
    training = Training.model_validate({"epochs": epochs, "batch_size": 32} | recipe)
    settings = arm_named(arm).settings().model_dump()
    return trial.model_copy(update={"arm": arm, "settings": settings, "training": training})


def test_the_training_images_come_whole_in_order_and_as_they_are(squares, monkeypatch):
    told = []

    def after_epoch(self, batches):
        told.append(("epoch", self.progress, [torch.cat(part) for part in zip(*batches, strict=True)]))

    def prepare_sampling(self, batches, samples):
        told.append(("sampling", samples, [torch.cat(part) for part in zip(*batches, strict=True)]))

    monkeypatch.setattr(Regulariser, "after_epoch", after_epoch)
    monkeypatch.setattr(Regulariser, "prepare_sampling", prepare_sampling)
    trainer = Trainer(trial_with("dropout", augmentation="paper"), squares, CPU, 1)
    trainer.train_epoch()
    trainer.train_epoch()
    predict(trainer)
    rows = trainer.images.train_rows
    assert [(what, value) for what, value, _ in told[:3]] == [("epoch", 0.5), ("epoch", 1.0), ("sampling", MC_SAMPLES)]
    for _, _, (x, y) in told:
        assert torch.equal(y, torch.from_numpy(squares.train_labels)[rows])
        assert torch.equal(x, trainer.images.inputs(torch.from_numpy(squares.train_images)[rows]))
    assert trainer.images.described.train_size == len(rows) == 180


@pytest.mark.parametrize("arm", ["swag", "laplace"])
def test_predictions_are_prepared_for_each_state_and_draw_nothing_of_the_trainings(arm, squares):
    trainer = Trainer(trial_with(arm, epochs=4), squares, CPU, 1)
    for _ in range(4):
        trainer.train_epoch()
    trainer.best.epoch = 3  # another than the last
    state = torch.get_rng_state()
    first, second = predict(trainer), predict(trainer)
    assert torch.equal(torch.get_rng_state(), state)
    for key, pair in first.items():
        assert np.array_equal(pair.test.logits, second[key].test.logits)
    with torch.random.fork_rng(devices=[]):
        trainer.regulariser.load_state_dict(trainer.best.state)
        trainer.prepare_sampling()
        assert np.array_equal(trainer.predict_images(squares.test_images, "mc").logits, first["best", "mc"].test.logits)


def test_an_arms_own_optimiser_takes_the_recipes_rate_schedule_and_decay(squares):
    trial = trial_with("sgld", optimiser="sgd", schedule="linear", weight_decay=0.25, learning_rate=0.01)
    trainer = Trainer(trial, squares, CPU, 1)
    optimiser = trainer.optimiser.optimisers[0]
    assert isinstance(optimiser, LangevinOptimiser)
    assert {group["weight_decay"] for group in optimiser.param_groups} == {0.0, 0.25}
    trainer.optimiser.schedule(1.0)
    assert {group["lr"] for group in optimiser.param_groups} == {0.005}
    assert trainer.notes == ["sgld is an optimiser: of the recipe's, only rate, schedule and decay apply"]
    assert has_own_optimiser(trainer.regulariser)
    assert not has_own_optimiser(Trainer(trial_with("swag"), squares, CPU, 1).regulariser)


def test_steps_of_an_own_optimiser_are_not_captured(squares):
    with pretended():
        trainer = Trainer(trial_of("sgld", cuda_graph=True), squares, CUDA, 1)
    assert trainer.graph is None
    assert trainer.notes[-1] == "steps were ordinary ones: an arm's own optimiser cannot be captured as a CUDA graph"


@pytest.mark.parametrize("average", ["ema", "swa"])
@pytest.mark.parametrize("arm", BAYESIAN)
def test_averages_of_the_recipe(arm, average, squares):
    trial = trial_with(arm, average=average)
    if arm in ("sgld", "swag"):
        with pytest.raises(InputError, match=f"{arm} keeps weights of its own over training: leave out training.aver"):
            Trainer(trial, squares, CPU, 1)
    else:
        assert train_trial(trial, squares).status is Status.FINISHED


def test_a_study_is_told_beforehand_that_an_arm_and_an_average_do_not_go_together(squares):
    content = {"title": "", "data": {"name": "squares", "validation": 60}, "network": "mlp-512"}
    training = {"epochs": 2, "average": "swa"}
    study = validate_study(content | {"training": training, "arms": {"vanilla": {}, "swag": {}}}, "test")
    with pytest.raises(InputError, match="swag keeps weights of its own"):
        check_models(study, squares)


@pytest.mark.parametrize(
    "arm", ["sgld+dropout", "swag+batchnorm", "mfvi+data-aug", "concrete-dropout+l2", "dropout+laplace", "mfvi+laplace"]
)
def test_composed_arms_train_sample_and_resume_to_the_bit(arm, squares, tmp_path):
    trial = trial_with(arm)
    whole = Trainer(trial, squares, CPU, 1)
    whole.train_epoch()
    checkpoint.save(tmp_path / "c.pt", whole.state())
    whole.train_epoch()
    resumed = Trainer(trial, squares, CPU, 1)
    resumed.restore(checkpoint.load(tmp_path / "c.pt"))
    resumed.train_epoch()
    first, second = predict(whole), predict(resumed)
    for key, pair in first.items():
        assert np.isfinite(pair.test.logits).all()
        assert np.array_equal(pair.test.logits, second[key].test.logits)


@pytest.mark.parametrize("arm", ["dropout+swag", "pilot-a-aug+sgld", "mfvi+concrete-dropout", "swag+mfvi"])
def test_arms_with_a_loss_or_weights_of_their_own_come_first(arm):
    with pytest.raises(InputError, match="has a loss or weights of its own, so it must come first"):
        arm_named(arm)


def test_what_an_arm_keeps_is_of_the_epochs_so_far(squares):
    """Weights of SGLD and moments of SWAG at the best epoch are not those of the last."""
    for arm, name in ("sgld", "is_kept"), ("swag", "count"):
        trainer = Trainer(trial_with(arm, epochs=4), squares, CPU, 1)
        for _ in range(3):
            trainer.train_epoch()
        before = copy.deepcopy(trainer.regulariser.state_dict()[name])
        trainer.train_epoch()
        assert trainer.regulariser.state_dict()[name].sum() > before.sum()
