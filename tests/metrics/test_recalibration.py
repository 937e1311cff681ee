"""Recalibrations, against optimisers and models that were written by others."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from pilotstudy.metrics import recalibration, scores
from pilotstudy.metrics.recalibration import RECALIBRATIONS, fit


def sample(n: int = 800, classes: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are wrong by another factor and another constant for each class."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(n, classes)) * 3
    right = logits * random.uniform(0.2, 0.9, classes) + random.normal(size=classes)
    labels = (np.exp(scores.log_probabilities(right)).cumsum(1) > random.random((n, 1))).argmax(1)
    return logits, labels


def nll(log_p: np.ndarray, labels: np.ndarray) -> float:
    return float(-log_p[np.arange(len(labels)), labels].mean())


def least(loss, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """What torch's L-BFGS finds from zeros, with derivatives of its own."""
    parameters = [torch.zeros(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    optimiser = torch.optim.LBFGS(
        parameters, max_iter=2000, tolerance_grad=1e-11, tolerance_change=1e-16, line_search_fn="strong_wolfe"
    )

    def step() -> torch.Tensor:
        optimiser.zero_grad()
        value = loss(*parameters)
        value.backward()
        return value

    optimiser.step(step)
    return [parameter.detach().numpy() for parameter in parameters]


def test_vector_scaling_finds_the_least_nll():
    logits, labels = sample()
    z, y = torch.tensor(logits), torch.tensor(labels)
    w, b = least(lambda w, b: torch.nn.functional.cross_entropy(z * w + b, y), (4,), (4,))
    weights, bias = recalibration.fit_vector(logits, labels)
    np.testing.assert_allclose(weights, w, atol=1e-6)
    np.testing.assert_allclose(bias, b - b.mean(), atol=1e-6)
    np.testing.assert_allclose(
        fit("vector", logits, labels)(logits), scores.log_probabilities(logits * w + b), atol=1e-6
    )


@pytest.mark.parametrize(("n", "classes"), [(800, 4), (60, 6)])
def test_matrix_scaling_finds_the_least_penalised_nll(n, classes):
    """The objective of probmetrics' SMSCalibrator (ridge, λ = 1, ρ = τ = 1), after temperature scaling."""
    logits, labels = sample(n, classes)
    scaled = scores.log_probabilities(logits, scores.fit_temperature(logits, labels))
    z, y = torch.tensor(scaled), torch.tensor(labels)

    def loss(change: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        diagonal = change.diagonal().pow(2).sum()
        penalty = classes / n * (b.pow(2).sum() + diagonal)
        penalty = penalty + classes * (classes - 1) / n * (change.pow(2).sum() - diagonal)
        return torch.nn.functional.cross_entropy(z + torch.nn.functional.linear(z, change, b), y) + penalty

    change, b = least(loss, (classes, classes), (classes,))
    _, weights, bias = recalibration.fit_matrix(logits, labels)
    np.testing.assert_allclose(weights, np.eye(classes) + change, atol=1e-6)
    np.testing.assert_allclose(bias, b, atol=1e-6)
    expected = scores.log_probabilities(scaled + scaled @ change.T + b)
    np.testing.assert_allclose(fit("matrix", logits, labels)(logits), expected, atol=1e-6)


def test_platt_scaling_is_a_logistic_regression_of_each_class():
    logits, labels = sample()
    probabilities = np.exp(scores.log_probabilities(logits))
    odds = np.log(probabilities / (1 - probabilities))
    p = []
    for k in range(4):
        model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12, max_iter=1000)
        p.append(model.fit(odds[:, [k]], labels == k).predict_proba(odds[:, [k]])[:, 1])
    expected = np.stack(p, 1) / np.sum(p, 0)[:, None]
    np.testing.assert_allclose(np.exp(fit("platt", logits, labels)(logits)), expected, atol=1e-6)


@given(st.integers(5, 120), st.integers(2, 5), st.integers(0, 30))
@settings(deadline=None, max_examples=40)
def test_a_recalibration_gives_probabilities_and_is_no_worse_where_it_was_fitted(n, classes, seed):
    """Vector scaling has what temperature scaling has, and more; Platt scaling fits no NLL of all classes."""
    logits, labels = sample(n, classes, seed)
    found = {name: fit(name, logits, labels)(logits) for name in ("none", *RECALIBRATIONS)}
    for log_p in found.values():
        np.testing.assert_allclose(np.exp(log_p).sum(1), 1, atol=1e-9)
    assert nll(found["temperature"], labels) <= nll(found["none"], labels) + 1e-9
    assert nll(found["vector"], labels) <= nll(found["temperature"], labels) + 1e-9
    assert nll(found["matrix"], labels) <= nll(found["temperature"], labels) + 1e-9
    assert (found["temperature"].argmax(1) == logits.argmax(1)).all()


@pytest.mark.parametrize("name", RECALIBRATIONS)
@pytest.mark.parametrize("labels", ["without error", "of one class"])
def test_a_fit_to_what_can_be_told_without_error_ends(name, labels):
    logits, _ = sample(100)
    given_labels = logits.argmax(1) if labels == "without error" else np.zeros(100, int)
    log_p = fit(name, logits, given_labels)(logits)
    assert np.isfinite(log_p[np.arange(100), given_labels]).all()


@pytest.mark.parametrize("name", RECALIBRATIONS)
def test_what_was_calibrated_before_stays_as_it_is(name):
    """With many validation points; they are all that is looked at."""
    random = np.random.default_rng(0)
    logits = random.normal(size=(40_000, 3)) * 2
    p = np.exp(scores.log_probabilities(logits))
    labels = (p.cumsum(1) > random.random((40_000, 1))).argmax(1)
    assert np.abs(np.exp(fit(name, logits, labels)(logits)) - p).mean() < 0.01


def test_log_odds_of_the_sure_are_not_rounded():
    np.testing.assert_allclose(recalibration.log_odds(np.array([[50.0, 0.0, -5.0]])), [[50, -50, -55]], atol=0.01)
