"""Metrics that need more than a sum over points, each against an independent reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar
from sklearn.metrics import log_loss, roc_auc_score

from pilotstudy.metrics import registry, scores
from pilotstudy.metrics.computation import Fitted, Points
from pilotstudy.metrics.smooth_ece import smooth_ece


def sample(n: int, seed: int = 0, classes: int = 5, steps: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Over-confident log-probabilities, of logits on a grid where `steps` says so, so that many are equal."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(n, classes)) * 3
    logits = np.round(logits * steps) / steps if steps else logits
    labels = (np.exp(scores.log_probabilities(logits, 2.0)).cumsum(1) > random.random((n, 1))).argmax(1)
    return scores.log_probabilities(logits), labels


# AUGRC.


@given(st.integers(2, 200), st.integers(0, 50), st.sampled_from([0, 1, 3]))
@settings(deadline=None)
def test_augrc_is_what_it_is_by_the_auroc_of_failures(n, seed, steps):
    """Traub et al. (2024), for n points: ties count half, as in an AUROC."""
    log_p, labels = sample(n, seed, steps=steps)
    points = Points(log_p, labels)
    wrong = int(n - points.correct.sum())
    auroc = roc_auc_score(points.correct, points.confidence) if 0 < wrong < n else 1.0
    expected = ((1 - auroc) * wrong * (n - wrong) + wrong * (wrong + 1) / 2) / n**2
    assert registry.METRICS["augrc"].value(points) == pytest.approx(expected, abs=1e-12)


def test_augrc_is_the_mean_of_joint_risks_over_coverages():
    log_p, labels = sample(200)
    p = np.exp(log_p)
    order = np.argsort(-p.max(1))
    wrong = (p.argmax(1) != labels)[order]
    slow = np.mean([wrong[:k].sum() / 200 for k in range(1, 201)])
    assert registry.evaluate(log_p, labels)["augrc"] == pytest.approx(slow, abs=1e-12)


def test_the_influences_on_augrc_are_its_derivatives():
    """By the weight of a point, with ties too: what one more of it among many changes, times their number."""
    log_p, labels = sample(60, steps=1)
    rows = np.tile(np.arange(60), 400)
    augrc = registry.METRICS["augrc"]
    value, columns = augrc.value(Points(log_p[rows], labels[rows])), augrc.columns(Points(log_p[rows], labels[rows]))
    for point in range(0, 60, 7):
        more = np.append(rows, point)
        change = augrc.value(Points(log_p[more], labels[more])) - value
        assert change * len(more) == pytest.approx(columns[point, 0] - value, abs=1e-3)


# smECE.


def slow_smooth_ece(confidence: np.ndarray, correct: np.ndarray) -> float:
    """From the definition: every point's kernel with its reflections at every node, and the width that is the error."""
    nodes = np.linspace(0, 1, 20_001)

    def error(width: float) -> float:
        residual = np.zeros(len(nodes))
        for f, y in zip(confidence, correct, strict=True):
            for shift in range(-8, 9, 2):
                for centre in (f + shift, shift - f):
                    if -9 * width < centre < 1 + 9 * width:
                        residual += (y - f) * np.exp(-(((nodes - centre) / width) ** 2) / 2)
        residual /= np.sqrt(2 * np.pi) * width * len(confidence)
        return float(np.trapezoid(np.abs(residual), nodes))

    return float(brentq(lambda width: error(width) - width, 0.005, 1, xtol=1e-9))


@pytest.mark.parametrize(("n", "bias", "sharp"), [(30, 0.3, 1), (120, 0.1, 1), (60, 0.25, 8)])
def test_smece_agrees_with_a_slow_version(n, bias, sharp):
    random = np.random.default_rng(n)
    confidence = random.beta(2 * sharp, 1, n)
    correct = (random.random(n) < confidence - bias).astype(float)
    assert smooth_ece(confidence, correct) == pytest.approx(slow_smooth_ece(confidence, correct), abs=1e-6)


def matrix_smooth_ece(confidence: np.ndarray, correct: np.ndarray, width: float) -> float:
    """The same at one width, for more points: the kernel of each pair of node and point at once."""
    nodes = np.linspace(0, 1, 4001)
    residual = np.zeros(len(nodes))
    for shift in (-2, 0, 2):
        for centre in (confidence + shift, shift - confidence):
            kernel = np.exp(-(((nodes[:, None] - centre) / width) ** 2) / 2) / (np.sqrt(2 * np.pi) * width)
            residual += kernel @ (correct - confidence) / len(confidence)
    return float(np.trapezoid(np.abs(residual), nodes))


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_smece_of_2000_points_is_its_own_width(temperature):
    log_p, labels = sample(2000)
    points = Points(scores.log_probabilities(log_p, temperature), labels)
    value = registry.METRICS["smece"].value(points)
    assert matrix_smooth_ece(points.confidence, points.correct, value) == pytest.approx(value, abs=1e-6)


def test_smece_at_its_ends():
    ones, zeros = np.ones(50), np.zeros(50)
    assert smooth_ece(ones, ones) == 0
    assert smooth_ece(ones, zeros) == pytest.approx(1)
    assert smooth_ece(zeros, ones) == pytest.approx(1)
    assert smooth_ece(ones - 2e-4, ones) == pytest.approx(2e-4)  # less than the least width


@given(st.integers(1, 80), st.integers(0, 30))
@settings(deadline=None, max_examples=40)
def test_smece_lies_between_the_mean_gap_and_the_mean_size_of_gaps(n, seed):
    points = Points(*sample(n, seed))
    gaps = points.correct - points.confidence
    value = registry.METRICS["smece"].value(points)
    assert abs(gaps.mean()) - 1e-9 <= value <= np.abs(gaps).mean() + 1e-9


# What is fitted on validation.


def test_the_parts_of_nll_are_those_after_and_before_temperature_scaling():
    (log_p, labels), (on_validation, validation_labels) = sample(1500, 1), sample(900, 2)
    best = minimize_scalar(
        lambda log_t: log_loss(
            validation_labels, np.exp(scores.log_probabilities(on_validation, np.exp(log_t))), labels=range(5)
        ),
        bounds=(-3, 3),
        method="bounded",
        options={"xatol": 1e-10},
    )
    refinement = log_loss(labels, np.exp(scores.log_probabilities(log_p, np.exp(best.x))))
    figures = registry.evaluate(log_p, labels, fitted=Fitted.on(on_validation, validation_labels))
    assert figures["nll_refinement"] == pytest.approx(refinement, abs=1e-6)
    assert figures["nll_calibration"] == pytest.approx(log_loss(labels, np.exp(log_p)) - refinement, abs=1e-6)
    assert figures["nll_calibration"] > 0.1


def slow_conformal(on_validation: np.ndarray, validation_labels: np.ndarray, p: np.ndarray) -> list[set[int]]:
    """Split conformal sets from their definition, with the score 1 − p of the right class."""
    scored = sorted(1 - on_validation[i, y] for i, y in enumerate(validation_labels))
    place = int(np.ceil(round(0.9 * (len(scored) + 1), 9)))
    quantile = scored[place - 1] if place <= len(scored) else np.inf
    return [{k for k in range(p.shape[1]) if 1 - row[k] <= quantile + 1e-15} for row in p]


@given(st.integers(1, 60), st.integers(0, 30), st.sampled_from([0, 2]))
@settings(deadline=None)
def test_conformal_sets_are_those_of_the_definition(n, seed, steps):
    (log_p, labels), (on_validation, validation_labels) = (
        sample(40, seed, steps=steps),
        sample(n, seed + 1, steps=steps),
    )
    sets = slow_conformal(np.exp(on_validation), validation_labels, np.exp(log_p))
    figures = registry.evaluate(log_p, labels, fitted=Fitted.on(on_validation, validation_labels))
    assert figures["conformal_size"] == pytest.approx(np.mean([len(each) for each in sets]))
    assert figures["conformal_coverage"] == pytest.approx(
        np.mean([label in each for label, each in zip(labels, sets, strict=True)])
    )


@pytest.mark.parametrize("n", [9, 19, 99])
def test_conformal_sets_cover_what_they_promise(n):
    """The mean coverage over validation sets is ⌈0.9 (n + 1)⌉ / (n + 1) where no probabilities are equal."""
    log_p, labels = sample(20_000, 3)
    hits = []
    for draw in range(200):
        rows = np.random.default_rng(draw).permutation(20_000)
        fitted = Fitted.on(log_p[rows[:n]], labels[rows[:n]], 1.0)
        hits.append(
            registry.METRICS["conformal_coverage"].value(Points(log_p[rows[n:]], labels[rows[n:]], fitted=fitted))
        )
    assert np.mean(hits) == pytest.approx(0.9, abs=4 * np.std(hits) / np.sqrt(200))


def test_too_few_validation_points_take_in_every_class():
    log_p, labels = sample(8)
    assert Fitted.on(log_p, labels).least_probability == 0
    assert Fitted.on(*sample(9)).least_probability > 0


def test_without_validation_points_there_is_no_figure_that_needs_them():
    log_p, labels = sample(50)
    absent = registry.METRICS.keys() - registry.evaluate(log_p, labels).keys()
    assert absent == {name for name, metric in registry.METRICS.items() if metric.needs_validation}
