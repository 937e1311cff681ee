"""Arms at settings where they do nothing: whole trainings end with the weights of vanilla's."""

import pytest
import torch
from torch import Tensor

from pilotstudy.study.recipe import Training
from pilotstudy.trial.trainer import Trainer
from tests.support.squares import make_trial

SGD = {"name": "sgd", "momentum": 0.9}
RECIPE = {"optimiser": SGD, "learning_rate": 0.02, "weight_decay": 1e-3, "gradient_clip": 0.3, "schedule": "cosine"}


def weights(data, arm: str, **settings) -> Tensor:
    trial = make_trial(arm, network="mlp-512", **settings)
    training = Training.model_validate({"epochs": 2, "batch_size": 32, **RECIPE})
    trainer = Trainer(trial.model_copy(update={"training": training}), data, torch.device("cpu"), 1)
    while not trainer.done:
        trainer.train_epoch()
    return torch.cat([p.detach().flatten() for p in trainer.regulariser.innermost.parameters()])


@pytest.fixture(scope="module")
def vanilla(squares) -> Tensor:
    return weights(squares, "vanilla")


@pytest.mark.parametrize(
    ("arm", "settings"),
    [
        ("label-smoothing", {"smoothing": 0.0}),
        ("focal", {"gamma": 0.0}),
        ("confidence-penalty", {"beta": 0.0}),
        ("mixup", {"alpha": 1e-9}),
        ("manifold-mixup", {"alpha": 1e-9}),
        ("regmixup", {"eta": 0.0}),
        ("r-drop", {"rate": 0.0, "alpha": 5.0}),
        ("multi-sample-dropout", {"rate": 0.0}),
        ("isda", {"strength": 0.0}),
        ("sam", {"rho": 0.0}),
        ("difference", {"t": 0.0}),
        ("pilot-star", {"t": 0.0, "dgm_width": 8, "z": 2}),
        ("mfvi", {"kl_weight": 0.0, "first_rho": -60.0}),
        ("gaussian-dropout", {"kl_weight": 0.0, "first_alpha": 1e-12}),
        ("variational-dropout", {"kl_weight": 0.0, "first_alpha": 1e-12}),
        ("concrete-dropout", {"length_scale": 0.0, "first_rate": 1e-30}),
        ("swag", {}),
        ("laplace", {}),
        ("passes+dropout", {"draws": 2, "disturbed": 1e-12}),
    ],
)
def test_an_arm_that_does_nothing_trains_as_vanilla(arm, settings, vanilla, squares):
    torch.testing.assert_close(weights(squares, arm, **settings), vanilla, rtol=0, atol=1e-6)
    assert vanilla.abs().max() > 0.05
