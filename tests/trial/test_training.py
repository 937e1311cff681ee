import math

import numpy as np
import pytest
import torch

from pilotstudy.arms.catalogue import arm_named
from pilotstudy.runs import schemas
from pilotstudy.runs.evaluating import evaluate
from pilotstudy.runs.layout import TrialFiles
from pilotstudy.runs.records import Status, TrialResult
from pilotstudy.trial import checkpoint
from pilotstudy.trial.lifecycle import train_trial
from pilotstudy.trial.scaling import Scaling
from pilotstudy.trial.trainer import Trainer
from tests.support.arms import TRAINABLE
from tests.support.squares import make_data, make_trial

# Small where an arm has a size, and annealed where it can be, so that a resumed trial must know its progress.
SMALL = {
    name: {key: value for key, value in settings.items() if key in arm_named(name).settings.model_fields}
    for name in TRAINABLE
    for settings in [{"dgm_width": 16, "z": 4, "mask_schedule": "annealed", "mask_rate": 0.9, "held_out": 0.25}]
}


def finished(arm: str, data, **options) -> TrialResult:
    return train_trial(make_trial(arm, **SMALL[arm], **options), data)


@pytest.mark.parametrize("arm", TRAINABLE)
def test_every_arm_trains_and_resumes_to_the_same_bits(arm, squares, tmp_path):
    """Two epochs at a stretch; then the same with an interruption after the first."""
    trial = make_trial(arm, **SMALL[arm])
    records = []
    whole = train_trial(trial, squares, tmp_path / "whole", on_epoch=records.append)
    assert whole.status is Status.FINISHED
    assert whole.epochs == len(records) == 2
    assert [each.mode for each in whole.evaluations].count("mc") == (8 if "mc" in arm_named(arm).modes else 0)
    assert all(math.isfinite(value) for each in whole.evaluations for value in each.figures.values())
    last = next(e for e in whole.evaluations if (e.at, e.mode, e.split) == ("last", "point", "test"))
    assert last.figures["accuracy"] > 0.5  # of three classes
    for record in records:
        assert {"train_loss", "validation_nll", "validation_ece", "images_per_second"} <= record.keys()
        if "pilot-" in arm and arm != "pilot-star":
            layers = 1 if "-x-" in arm else 3
            errors = [f"imputation_error_{layer}" for layer in range(layers)]
            assert {"reconstruction", "kl", "hyperprior", "gradient_norm", *errors} <= record.keys()

    # The checkpoint of the first epoch is all that is left of the first process; the second has random states of
    # its own until it is restored.
    trainer = Trainer(trial, squares)
    trainer.train_epoch()
    resumed = TrialFiles.in_folder(tmp_path / "resumed")
    checkpoint.save(resumed.checkpoint, trainer.state())
    torch.rand(17)
    after = train_trial(trial, squares, tmp_path / "resumed")
    assert after.evaluations == whole.evaluations
    first, second = (checkpoint.load(TrialFiles.in_folder(tmp_path / name).checkpoint) for name in ("whole", "resumed"))
    assert same(first["model"], second["model"])
    assert same(first["optimiser"], second["optimiser"])
    assert same(first["best"], second["best"])
    assert torch.equal(first["random"], second["random"])
    stored = [
        schemas.load_predictions(TrialFiles.in_folder(tmp_path / name).predictions) for name in ("whole", "resumed")
    ]
    assert stored[0].keys() == stored[1].keys()
    for model, pair in stored[0].items():
        again = stored[1][model].splits
        assert all(np.array_equal(part.logits, again[split].logits) for split, part in pair.splits.items())
    assert evaluate(stored[0]) == whole.evaluations  # every figure can be had again without training


def same(a, b) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def test_arms_of_a_seed_share_initial_weights_images_and_their_order(squares):
    weights, orders = [], []
    for arm in "vanilla", "pilot-a-aug", "dropout":
        trainer = Trainer(make_trial(arm, seed=3, **SMALL[arm]), squares)
        weights.append(trainer.regulariser.network.layer1.weight.detach().clone())
        orders.append(torch.cat([y for _, y in trainer.batches()]))
    assert torch.equal(weights[0], weights[1])
    assert torch.equal(weights[0], weights[2])
    assert torch.equal(orders[0], orders[1])
    other = Trainer(make_trial(seed=4), squares)
    assert not torch.equal(weights[0], other.regulariser.network.layer1.weight)
    assert not torch.equal(orders[0], torch.cat([y for _, y in other.batches()]))
    assert torch.equal(other.images.validation_rows, trainer.images.validation_rows)


def test_the_same_seed_gives_the_same_result_and_another_does_not(squares):
    assert finished("pilot-a-drop", squares).evaluations == finished("pilot-a-drop", squares).evaluations
    assert finished("vanilla", squares, seed=1).evaluations != finished("vanilla", squares).evaluations


def test_test_data_change_nothing_but_their_own_figures(squares):
    """Noise for test labels and images: every choice stays the same."""
    noisy = make_data(seed=9)
    noisy = type(squares)(**{**vars(squares), "test_images": noisy.test_images, "test_labels": noisy.test_labels[::-1]})
    ours, theirs = finished("pilot-a-aug", squares), finished("pilot-a-aug", noisy)
    assert ours.best_epoch == theirs.best_epoch

    def choices(result):
        return [each if each.split == "validation" else each.temperature for each in result.evaluations]

    assert choices(ours) == choices(theirs)
    assert ours.evaluations != theirs.evaluations


def test_the_scaling_standardises_with_training_images_only(squares):
    rows = np.arange(0, 100)
    scaling = Scaling.fit("standardised", squares.train_images, rows)
    x = scaling(torch.from_numpy(squares.train_images[rows]))
    assert x.mean().abs() < 1e-5
    assert x.std(unbiased=False).item() == pytest.approx(1, abs=1e-5)
    unit = Scaling.fit("unit", squares.train_images, rows)(torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1))
    assert unit.flatten().tolist() == [0.0, 1.0]


def test_a_last_batch_of_one_is_left_out_for_batch_norm():
    data = make_data(n=300)  # 60 validate, 240 train: a batch of 239 and one of 1
    trial = make_trial("batchnorm", epochs=1)
    trial = trial.model_copy(update={"training": trial.training.model_copy(update={"batch_size": 239})})
    assert train_trial(trial, data).status is Status.FINISHED


def test_bf16_trains(squares):
    trial = make_trial("pilot-a-aug", epochs=1, dgm_width=16, z=4)
    trial = trial.model_copy(update={"training": trial.training.model_copy(update={"precision": "bf16"})})
    assert train_trial(trial, squares).status is Status.FINISHED


def test_the_network_of_cnn_studies(squares):
    result = finished("pilot-a-aug", squares, network="cnn", epochs=1)
    assert result.status is Status.FINISHED
    assert {each.at for each in result.evaluations} == {"last", "best"}
