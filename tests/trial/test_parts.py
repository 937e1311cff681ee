"""The parts that a trainer is made of, each by itself."""

import dataclasses

import numpy as np
import pytest
import torch

from pilotstudy.method.regulariser import Regulariser
from pilotstudy.runs.evaluating import evaluate
from pilotstudy.runs.schemas import ModelPredictions
from pilotstudy.study.spec import Data
from pilotstudy.trial.images import TrialImages
from pilotstudy.trial.lifecycle import parameters
from pilotstudy.trial.model import build_model
from pilotstudy.trial.optimising import Optimising
from pilotstudy.trial.predicting import predict
from pilotstudy.trial.trainer import Trainer
from tests.support.arms import TRAINABLE
from tests.support.cuda_trials import CUDA, trial_of
from tests.support.pretended import pretended
from tests.support.squares import make_trial

CPU = torch.device("cpu")


def images_of(data, where=CPU, **settings) -> TrialImages:
    return TrialImages(Data(name="squares", validation=60, **settings), data, where)


def test_images_are_split_and_every_training_image_comes_once_an_epoch(squares):
    images = images_of(squares)
    assert not set(images.train_rows.tolist()) & set(images.validation_rows.tolist())
    assert len(images.train_rows) + len(images.validation_rows) == len(squares.train_labels)
    batches = list(images.batches(seed=3, epoch=0, size=32))
    assert [len(y) for _, y in batches] == [32, 32, 32, 32, 32, 20]
    pixels = torch.from_numpy(squares.train_images)[images.train_rows]
    x = torch.cat([x for x, _ in batches])
    assert x.dtype == torch.float32
    assert torch.equal(x.flatten(1).sum(1).sort()[0], images.inputs(pixels).flatten(1).sum(1).sort()[0])
    y = torch.cat([y for _, y in batches])
    for other, same in ((3, 0), True), ((3, 1), False), ((4, 0), False):
        again = torch.cat([y for _, y in images.batches(*other, size=32)])
        assert torch.equal(y, again) == same


def test_images_go_to_the_device_and_models_are_built_on_the_cpu(squares):
    with pretended():
        images = images_of(squares, CUDA, scaling="standardised")
        for tensor in images.pixels, images.labels, images.scaling.mean, images.inputs(torch.zeros(2, 1, 8, 8)):
            assert tensor.device.type == "cuda"
        for name in "example", "mean", "deviation":
            assert getattr(images.described, name).device.type == "cpu"
        trial = trial_of("pilot-a-aug")
        model = build_model(trial, squares.shape, 3, images.described, CUDA)
        assert {parameter.device.type for parameter in model.parameters()} == {"cuda"}


@pytest.mark.parametrize("arm", TRAINABLE)
def test_every_arm_starts_from_the_weights_of_its_seed(arm, squares):
    described = images_of(squares).described

    def network(trial) -> dict[str, torch.Tensor]:
        torch.rand(17)  # whatever was drawn before
        return dict(build_model(trial, squares.shape, 3, described, CPU).innermost.named_parameters())

    ours, vanilla = network(make_trial(arm, seed=5)), network(make_trial("vanilla", seed=5))
    assert all(torch.equal(ours[name], weights) for name, weights in vanilla.items())
    other = network(make_trial(arm, seed=6))
    assert not torch.equal(ours["layer1.weight"], other["layer1.weight"])


def test_the_optimiser_has_the_groups_of_the_arm(squares):
    trial = make_trial("pilot-a-aug", dgm_width=8, z=2, dgm_learning_rate=0.02)
    model = build_model(trial, squares.shape, 3, images_of(squares).described, CPU)
    recipe = trial.training.model_copy(update={"learning_rate": 0.01})
    optimiser = Optimising(model, recipe, captured=False)
    assert sorted(group["lr"] for group in optimiser.param_groups) == [0.01, 0.02]
    grouped = [p for group in optimiser.param_groups for p in group["params"]]
    assert len(grouped) == len(list(model.parameters()))
    assert not any(group["capturable"] for group in optimiser.param_groups)
    assert all(group["capturable"] for group in Optimising(model, recipe, captured=True).param_groups)


def test_predictions_are_of_the_last_and_the_best_epoch_and_leave_the_model_alone(squares):
    trainer = Trainer(make_trial("dropout", epochs=3), squares, CPU, 1)
    for _ in range(3):
        trainer.train_epoch()
    trainer.best = dataclasses.replace(
        trainer.best, epoch=2, state=Trainer(trainer.trial, squares).regulariser.state_dict()
    )
    before = {name: value for name, value in trainer.regulariser.state_dict().items()}
    pairs = predict(trainer)
    after = trainer.regulariser.state_dict()
    assert all(torch.equal(torch.as_tensor(value), torch.as_tensor(after[name])) for name, value in before.items())
    assert set(pairs) == {(at, mode) for at in ("last", "best") for mode in ("point", "mc")}
    rows = trainer.images.validation_rows.numpy()
    for (at, mode), pair in pairs.items():
        assert np.array_equal(pair.validation.labels, squares.train_labels[rows])
        assert np.array_equal(pair.test.labels, squares.test_labels)
        if at == "last":
            assert np.array_equal(pair.validation.logits, trainer.validation_logits(mode))
        else:
            assert not np.array_equal(pair.validation.logits, pairs["last", mode].validation.logits)
    trainer.best = dataclasses.replace(trainer.best, epoch=3)
    again = predict(trainer)
    assert again["best", "mc"].test is again["last", "mc"].test


def test_an_evaluation_does_not_depend_on_the_order_of_predictions(squares):
    trainer = Trainer(make_trial("dropout"), squares, CPU, 1)
    trainer.train_epoch()
    pairs = predict(trainer)
    backwards = {model: ModelPredictions(test=pair.test, validation=pair.validation) for model, pair in pairs.items()}
    backwards = dict(reversed(backwards.items()))
    assert set(map(str, evaluate(pairs))) == set(map(str, evaluate(backwards)))
    for evaluation in evaluate(pairs):
        assert evaluation.n == (60 if evaluation.split == "validation" else 120)
        assert (evaluation.temperature == 1.0) == (not evaluation.scaled)


def test_parameters_are_those_of_the_network_and_of_what_the_arm_has_beside_it():
    """Also those that the arm holds itself, or that an arm within another one holds."""
    network = torch.nn.Linear(3, 2)
    inner = Regulariser(network)
    inner.own = torch.nn.Parameter(torch.zeros(5))
    assert parameters(Regulariser(network)) == {"network": 8}
    assert parameters(inner) == {"network": 8, "arm": 5}
    assert parameters(Regulariser(inner)) == {"network": 8, "arm": 5}
