"""One epoch, one step, one evaluation and one result, each against what it should be when done by hand."""

import copy
import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from pilotstudy.errors import InputError
from pilotstudy.metrics import registry, scores
from pilotstudy.runs import schemas
from pilotstudy.runs.evaluating import evaluate
from pilotstudy.runs.layout import TrialFiles
from pilotstudy.runs.records import TrialResult
from pilotstudy.trial import checkpoint
from pilotstudy.trial.lifecycle import train_trial
from pilotstudy.trial.predicting import predict
from pilotstudy.trial.scaling import Scaling
from pilotstudy.trial.trainer import MC_SAMPLES, Best, Trainer
from tests.support.squares import make_data, make_trial

SMALL = {"dgm_width": 16, "z": 4}


def changed(trial, part: str, **changes):
    """`part`: of the trial, such as its training."""
    return trial.model_copy(update={part: getattr(trial, part).model_copy(update=changes)})


def pictures(data, rows) -> torch.Tensor:
    return torch.from_numpy(data.train_images[rows]).float() / 255


# Epochs.


def test_the_loss_of_an_epoch_is_the_mean_over_its_images(squares):
    """Next to no learning, and a last batch that is smaller than the others."""
    trainer = Trainer(changed(make_trial(epochs=1), "training", learning_rate=1e-12, batch_size=150), squares)
    network = trainer.regulariser.network
    rows = trainer.images.train_rows.numpy()
    assert len(rows) == 180
    with torch.no_grad():
        expected = F.cross_entropy(network(pictures(squares, rows)), torch.from_numpy(squares.train_labels[rows]))
    assert trainer.train_epoch()["train_loss"] == pytest.approx(expected.item(), rel=1e-6)


def test_an_epoch_reports_the_dgms_terms_over_all_its_steps(squares):
    trainer = Trainer(make_trial("pilot-a-aug", **SMALL), squares)
    seen: dict[str, list[tuple[float, float]]] = {}
    progress = []
    step = trainer.step

    def watched(x, y):
        progress.append(trainer.regulariser.progress)
        loss, norm = step(x, y)
        for name, (total, number) in loss.terms.items():
            seen.setdefault(name, []).append((float(total), float(number)))
        return loss, norm

    trainer.step = watched
    record = trainer.train_epoch()
    for name, pairs in seen.items():
        mean = sum(total for total, _ in pairs) / sum(number for _, number in pairs)
        expected = math.sqrt(mean) if name.startswith("imputation_error") else mean
        assert record[name] == pytest.approx(expected, rel=1e-5), name
    assert {"reconstruction", "kl", "hyperprior", "imputation_error_0", "imputation_error_2"} <= seen.keys()
    trainer.train_epoch()
    assert progress == pytest.approx([k / 12 for k in range(12)])  # two epochs of six steps
    assert trainer.regulariser.progress == 1


def test_every_epoch_has_every_image_once_in_an_order_of_its_own(squares):
    trainer = Trainer(make_trial(), squares)
    orders = []
    for trainer.epoch in range(3):
        orders.append(torch.cat([x for x, _ in trainer.batches()]))
    expected = sorted(map(bytes, squares.train_images[trainer.images.train_rows.numpy()]))
    for x in orders:
        assert sorted(map(bytes, (255 * x).round().to(torch.uint8).numpy())) == expected
    assert not torch.equal(orders[0], orders[1])
    assert not torch.equal(orders[1], orders[2])


@pytest.fixture
def three_epochs(squares, monkeypatch):
    """A trainer whose second epoch is said to have the lowest NLL, and its weights after each."""
    trainer = Trainer(make_trial("dropout", epochs=3), squares)
    told = iter([0.9, 0.5, 0.7])
    accuracies = iter([0.1, 0.2, 0.9])  # which do not count

    def evaluate_epoch(logits, labels):
        return {"accuracy": next(accuracies), "nll": next(told), "ece": 0.1, "brier": 0.5, "entropy": 1.0}

    states = []
    with monkeypatch.context() as patch:
        patch.setattr(registry, "evaluate_epoch", evaluate_epoch)
        for _ in range(3):
            trainer.train_epoch()
            states.append(copy.deepcopy(trainer.regulariser.state_dict()))
    return trainer, states


def alike(one: dict, other: dict) -> bool:
    return all(torch.equal(torch.as_tensor(one[name]), torch.as_tensor(other[name])) for name in one)


def test_the_best_epoch_is_the_one_with_the_lowest_nll_as_it_was_then(three_epochs):
    trainer, states = three_epochs
    assert (trainer.best.epoch, trainer.best.nll) == (2, 0.5)
    assert alike(trainer.best.state, states[1])
    assert not alike(states[1], states[2])


def test_the_evaluation_is_of_the_last_and_the_best_epoch_and_changes_neither(three_epochs, squares):
    trainer, states = three_epochs
    found = predict(trainer)
    assert alike(trainer.regulariser.state_dict(), states[2])
    rows = trainer.images.validation_rows.numpy()
    images = {"validation": pictures(squares, rows), "test": torch.from_numpy(squares.test_images).float() / 255}
    for at, state in ("last", states[2]), ("best", states[1]):
        trainer.regulariser.load_state_dict(state)
        for split, x in images.items():
            with torch.no_grad():
                expected = trainer.regulariser.network(x).numpy()
            np.testing.assert_allclose(getattr(found[at, "point"], split).logits, expected, atol=1e-5)
        for mode in "point", "mc":
            held_out, test, _ = found[at, mode]
            assert np.array_equal(test.labels, squares.test_labels)
            assert np.array_equal(held_out.rows, rows)
            assert held_out.labels.tolist() == [squares.train_labels[row] for row in rows]
    evaluations = evaluate(found)
    assert len(evaluations) == 16
    for one in evaluations:
        pair = found[one.at, one.mode]
        part = getattr(pair, one.split)
        t = scores.fit_temperature(pair.validation.logits, pair.validation.labels) if one.scaled else 1.0
        expected = -scores.log_probabilities(part.logits, t)[np.arange(len(part.labels)), part.labels].mean()
        assert (one.temperature, one.figures["nll"]) == pytest.approx((t, expected))


# Steps.


def test_a_step_follows_the_gradient_of_its_own_batch(squares):
    trainer = Trainer(make_trial(), squares)
    network = trainer.regulariser.network
    for x, y in list(trainer.batches())[:3]:
        expected = torch.autograd.grad(F.cross_entropy(network(x), y), list(network.parameters()))
        trainer.step(x, y)
        for parameter, gradient in zip(network.parameters(), expected, strict=True):
            torch.testing.assert_close(parameter.grad, gradient)


def test_the_optimiser_is_given_clipped_gradients(squares, monkeypatch):
    trainer = Trainer(make_trial("pilot-a-aug", **SMALL, gradient_clip=0.01), squares)
    norms = []
    step = trainer.optimiser.step

    def watched(*words):
        gradients = [p.grad for p in trainer.regulariser.dgm.parameters() if p.grad is not None]
        norms.append(torch.nn.utils.get_total_norm(gradients).item())
        return step(*words)

    monkeypatch.setattr(trainer.optimiser, "step", watched)
    x, y = next(trainer.batches())
    _, norm = trainer.step(x, y)
    assert norm > 1
    assert norms == pytest.approx([0.01], rel=1e-3)


# Inputs and predictions.


def test_the_scaling_is_that_of_the_rows_it_is_given():
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (200, 2, 4, 4), dtype=np.uint8)
    images[::2] //= 4  # so that it matters which
    rows = np.arange(0, 200, 2)
    scaling = Scaling.fit("standardised", images, rows)
    wanted = images[rows] / 255
    np.testing.assert_allclose(scaling.mean, wanted.mean((0, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(scaling.deviation, wanted.std((0, 2, 3)), rtol=1e-5)


def test_a_trial_is_scaled_with_its_training_images_alone(squares):
    images = Trainer(changed(make_trial(), "data", scaling="standardised", train_size=30), squares).images
    wanted = squares.train_images[images.train_rows.numpy()] / 255
    assert len(wanted) == 30
    for described in images.scaling, images.described:  # what the network is given, and what arms are told
        assert described.mean.item() == pytest.approx(wanted.mean(), rel=1e-5)
        assert described.deviation.item() == pytest.approx(wanted.std(), rel=1e-5)


def test_predictions_draw_from_the_trials_seed_and_leave_the_trainings_draws_alone(squares):
    trainer, other = (Trainer(make_trial("dropout", seed=seed), squares) for seed in (0, 5))
    other.regulariser.load_state_dict(trainer.regulariser.state_dict())
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    first = trainer.validation_logits("mc")
    assert torch.equal(torch.rand(4), expected)
    assert np.array_equal(trainer.validation_logits("mc"), first)
    assert np.array_equal(trainer.validation_logits("point"), other.validation_logits("point"))
    assert not np.array_equal(other.validation_logits("mc"), first)  # else seeds would share their draws


def test_monte_carlo_takes_ten_draws(squares, monkeypatch):
    trainer = Trainer(make_trial("dropout"), squares)
    asked = []
    own = trainer.regulariser.predict_sampled
    monkeypatch.setattr(trainer.regulariser, "predict_sampled", lambda x, n: asked.append(n) or own(x, n))
    trainer.validation_logits("point")
    trainer.predict_images(trainer.data.test_images, "mc")
    assert asked == [MC_SAMPLES] == [10]


# Results.


def test_a_resumed_trial_tells_of_all_its_epochs(squares, tmp_path):
    files = TrialFiles.in_folder(tmp_path)
    trainer = Trainer(make_trial(), squares)
    first = trainer.train_epoch()
    checkpoint.save(files.checkpoint, trainer.state())
    records = []
    result = train_trial(make_trial(), squares, tmp_path, on_epoch=records.append)
    assert result.training_seconds == pytest.approx(first["seconds"] + records[0]["seconds"])
    table = schemas.read(files.epochs, schemas.epochs_schema())
    assert table["epoch"].to_pylist() == [1, 2]
    assert table["train_loss"][0].as_py() == pytest.approx(first["train_loss"])


def test_the_result_of_other_data_is_not_taken(squares, tmp_path):
    train_trial(make_trial(epochs=1), squares, tmp_path)
    with pytest.raises(InputError, match="holds another trial's result"):
        train_trial(make_trial(epochs=1), make_data(seed=1), tmp_path)


def test_the_validations_reliability_is_that_of_the_last_epoch(squares, tmp_path):
    """The first epoch is made to be the best, so that the two differ."""
    files = TrialFiles.in_folder(tmp_path)
    trainer = Trainer(make_trial(epochs=2), squares)
    trainer.train_epoch()
    trainer.best = Best(1, -1.0, copy.deepcopy(trainer.regulariser.state_dict()))
    checkpoint.save(files.checkpoint, trainer.state())
    result = train_trial(make_trial(epochs=2), squares, tmp_path)
    assert result.best_epoch == 1
    filled = [one for one in result.validation_reliability if one.count]
    ece = sum(one.count * abs(one.accuracy - one.confidence) for one in filled) / 60
    figures = {
        one.at: one.figures["ece"]
        for one in result.evaluations
        if (one.mode, one.split, one.scaled) == ("point", "validation", False)
    }
    assert ece == pytest.approx(figures["last"])
    assert figures["last"] != pytest.approx(figures["best"])
    assert TrialResult.from_json(files.result.read_bytes(), files.result) == result
