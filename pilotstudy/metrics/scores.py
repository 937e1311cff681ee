"""Accuracy, proper scores and calibration, in numpy and float64. Conventions:

- Probabilities are [n, K], labels [n]. Confidence is the largest probability, the prediction its (first) class.
- Bins are equal-width over (0, 1] and right-closed, so a confidence of exactly 1 is in the last one. Empty bins
  contribute nothing. Equal-mass bins put equal confidences into the same bin.
- Nothing depends on the order of the samples; ties are averaged over.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Logits = NDArray[np.float32] | NDArray[np.float64]

BINS = 15


@dataclass(frozen=True)
class Bins:
    """A reliability diagram: for each bin its bounds, count, mean confidence and accuracy (NaN where empty)."""

    lower: Array
    upper: Array
    count: NDArray[np.int64]
    confidence: Array
    accuracy: Array

    @property
    def gaps(self) -> Array:
        """|accuracy − confidence|, 0 where a bin is empty."""
        return np.where(self.count > 0, np.abs(np.nan_to_num(self.accuracy) - np.nan_to_num(self.confidence)), 0.0)

    @property
    def expected_error(self) -> float:
        total = int(self.count.sum())
        return float((self.count * self.gaps).sum() / total) if total else 0.0


def log_probabilities(logits: Logits, temperature: float = 1.0) -> Array:
    """The logarithm of softmax(logits / temperature)."""
    from scipy.special import log_softmax  # slow to import, as all of scipy

    return np.asarray(log_softmax(np.asarray(logits, np.float64) / temperature, axis=1))


def confidences(probabilities: Array, labels: Labels) -> tuple[Array, Array]:
    """Confidence and correctness (0 or 1) of each sample."""
    predicted = probabilities.argmax(1)
    return probabilities[np.arange(len(labels)), predicted], (predicted == labels).astype(np.float64)


def equal_width_index(confidence: Array, bins: int = BINS) -> NDArray[np.int64]:
    """The bin of each confidence: bin m is (m / bins, (m + 1) / bins]; 0 goes into the first."""
    edges = np.arange(1, bins) / bins
    return np.searchsorted(edges, confidence, side="left").astype(np.int64)


def equal_mass_index(confidence: Array, bins: int = BINS) -> NDArray[np.int64]:
    """The bin of each confidence, between `equal_mass_edges`."""
    return np.searchsorted(equal_mass_edges(confidence, bins), confidence, side="left").astype(np.int64)


def equal_mass_edges(confidence: Array, bins: int = BINS) -> Array:
    """Inner edges: the ⌈n m / bins⌉-th smallest confidences, m = 1..bins−1; all 0 if there are none."""
    if not len(confidence):
        return np.zeros(bins - 1)
    ranks = np.ceil(len(confidence) * np.arange(1, bins) / bins).astype(int) - 1
    return np.asarray(np.sort(confidence)[np.maximum(ranks, 0)])


def binned(confidence: Array, correct: Array, bins: int = BINS, *, equal_mass: bool = False) -> Bins:
    """The reliability diagram of these predictions."""
    if equal_mass:
        index = equal_mass_index(confidence, bins)
        bounds = np.concatenate([[0.0], equal_mass_edges(confidence, bins), [1.0]])
    else:
        index = equal_width_index(confidence, bins)
        bounds = np.arange(bins + 1) / bins
    count = np.bincount(index, minlength=bins)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_confidence = np.bincount(index, confidence, minlength=bins) / count
        accuracy = np.bincount(index, correct, minlength=bins) / count
    return Bins(bounds[:-1], bounds[1:], count, mean_confidence, accuracy)


def classwise_ece(probabilities: Array, labels: Labels, bins: int = BINS) -> float:
    """The mean over classes of the ECE of that class's probability against "it is that class"."""
    classes = probabilities.shape[1]
    errors = [binned(probabilities[:, k], (labels == k).astype(float), bins).expected_error for k in range(classes)]
    return float(np.mean(errors))


def brier_scores(probabilities: Array, labels: Labels) -> Array:
    """Σ_k (p_k − 1[y = k])² of each sample, 0 to 2."""
    own = probabilities[np.arange(len(labels)), labels]
    return np.asarray(np.square(probabilities).sum(1) - 2 * own + 1)


def brier_decomposition(probabilities: Array, labels: Labels) -> tuple[float, float, float]:
    """(miscalibration, discrimination, uncertainty): Brier is the first, less the second, plus the third, exactly.

    Each class against the rest, summed over classes, recalibrated by isotonic regression in place of bins (CORP:
    Dimitriadis, Gneiting and Jordan, 2021), so that no choice of bins enters.
    """
    from scipy.optimize import isotonic_regression

    miscalibration = discrimination = uncertainty = 0.0
    for k in range(probabilities.shape[1]):
        y = (labels == k).astype(np.float64)
        p = probabilities[:, k]
        values, index, count = np.unique(p, return_inverse=True, return_counts=True)
        means = np.bincount(index, y, minlength=len(values)) / count
        recalibrated = isotonic_regression(means, weights=count.astype(float)).x[index]
        base = y.mean()
        score, best, constant = (np.square(f - y).mean() for f in (p, recalibrated, base))
        miscalibration += score - best
        discrimination += constant - best
        uncertainty += constant
    return float(miscalibration), float(discrimination), float(uncertainty)


def selective_risk(confidence: Array, correct: Array) -> Array:
    """The error rate among the k most confident samples, k = 1..n; among equal confidences, the expected one."""
    _, group = np.unique(-confidence, return_inverse=True)
    wrong = np.bincount(group, 1 - correct) / np.bincount(group)
    return np.asarray(np.cumsum(wrong[np.sort(group)]) / np.arange(1, len(group) + 1))


def entropies(probabilities: Array) -> Array:
    """The entropy of each prediction, in nats."""
    from scipy.special import xlogy

    return np.asarray(-xlogy(probabilities, probabilities).sum(1))


def ece_noise_floor(confidence: Array, bins: int = BINS, *, draws: int = 1000, seed: int = 0) -> tuple[float, float]:
    """The ECE that a perfectly calibrated model with these confidences would score: mean and 95 % quantile.

    Simulated: each prediction is right with exactly the probability it states.
    """
    random = np.random.default_rng(seed)
    order = np.argsort(equal_width_index(confidence, bins), kind="stable")
    sorted_confidence = confidence[order].astype(np.float32)
    count = np.bincount(equal_width_index(confidence, bins), minlength=bins)
    starts = (np.cumsum(count) - count)[count > 0]
    scores = np.empty(draws)
    several = max(1, 200_000 // len(confidence))  # at once, as many as the processor's cache holds
    for draw in range(0, draws, several):
        right = random.random((min(several, draws - draw), len(confidence)), dtype=np.float32) < sorted_confidence
        gaps = np.add.reduceat(right - sorted_confidence, starts, axis=1, dtype=np.float64)
        scores[draw : draw + several] = np.abs(gaps).sum(1) / len(confidence)
    return float(scores.mean()), float(np.quantile(scores, 0.95))


def conformal_level(probabilities: Array, labels: Labels) -> float:
    """The least probability of the classes in sets that hold the right one for 90 % of further samples.

    Split conformal prediction with the score 1 − p_y (LAC; Sadinle, Lei and Wasserman, 2019): the ⌈0.9 (n + 1)⌉-th
    largest p_y of n validation samples; 0, which takes every class in, where they are too few.
    """
    own = np.sort(probabilities[np.arange(len(labels)), labels])[::-1]
    place = -(-9 * (len(own) + 1) // 10)
    return float(own[place - 1]) if place <= len(own) else 0.0


def fit_temperature(logits: Logits, labels: Labels) -> float:
    """The temperature T with the least NLL of softmax(logits / T). Fit it on validation data.

    The NLL is convex in β = 1/T. Its derivative, mean(Σ_k p_k z_k − z_y), is solved by bisection in log β, because
    gradient-based fits stop early on very over-confident networks.
    """
    from scipy.special import log_softmax

    z = np.asarray(logits, np.float64)
    z = z - z.max(1, keepdims=True)
    own = z[np.arange(len(labels)), labels]

    def slope(log_beta: float) -> float:
        p = np.exp(log_softmax(np.exp(log_beta) * z, axis=1))
        return float(((p * z).sum(1) - own).mean())

    low, high = np.log(1e-3), np.log(1e3)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return float(np.exp(-(low + high) / 2))
