"""Ways to recalibrate a network after training, each fitted on its validation predictions.

All but temperature scaling may change which class is the most probable, and so the accuracy.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, get_args

import numpy as np

from pilotstudy.metrics import scores
from pilotstudy.metrics.scores import Array, Labels, Logits

Recalibration = Literal["none", "temperature", "vector", "matrix", "platt"]
RECALIBRATIONS: tuple[Recalibration, ...] = get_args(Recalibration)[1:]
IN_WORDS: dict[Recalibration, str] = {
    "temperature": "temperature scaling",
    "vector": "vector scaling",
    "matrix": "structured matrix scaling",
    "platt": "Platt scaling of each class",
}

Recalibrate = Callable[[Logits], Array]  # logits [n, K] → log-probabilities [n, K]

GRADIENT = 1e-8  # where a fit ends
STEPS = 200


def fit(recalibration: Recalibration, logits: Logits, labels: Labels) -> Recalibrate:
    """What turns logits into recalibrated log-probabilities."""
    match recalibration:
        case "none":
            return scores.log_probabilities
        case "temperature":
            return temperature_scaling(scores.fit_temperature(logits, labels))
        case "vector":
            return partial(_vector_scaled, *fit_vector(logits, labels))
        case "matrix":
            return partial(_matrix_scaled, *fit_matrix(logits, labels))
        case "platt":
            return partial(_platt_scaled, *fit_platt(logits, labels))


def temperature_scaling(temperature: float) -> Recalibrate:
    return partial(scores.log_probabilities, temperature=temperature)


def fit_vector(logits: Logits, labels: Labels) -> tuple[Array, Array]:
    """w and b [K] with the least NLL of softmax(w ∘ z + b), Σ b = 0 (Guo et al., 2017)."""
    z = np.asarray(logits, np.float64)
    classes = z.shape[1]

    def scaled(both: Array) -> Array:
        return np.asarray(z * both[0] + both[1])

    def pulled(residuals: Array) -> Array:
        return np.stack([(residuals * z).sum(0), residuals.sum(0)])

    start = np.stack([np.full(classes, 1 / scores.fit_temperature(z, labels)), np.zeros(classes)])
    weights, bias = least_nll(scaled, pulled, labels, start)
    return weights, bias - bias.mean()


def fit_matrix(logits: Logits, labels: Labels) -> tuple[float, Array, Array]:
    """T, W [K, K] and b [K] with the least penalised NLL of softmax(W log softmax(z / T) + b).

    Structured matrix scaling (Berta, Holzmüller, Jordan and Bach, 2025) with the penalties of its authors' package: T
    is fitted first and alone; then squares of b and of the diagonal of W − 1 cost K / n, those beside it K (K − 1) / n.
    """
    n, classes = logits.shape
    temperature = scores.fit_temperature(logits, labels)
    z = scores.log_probabilities(logits, temperature)
    beside = np.full((classes, classes), classes * (classes - 1) / n)
    np.fill_diagonal(beside, classes / n)
    penalty = np.concatenate([beside, np.full((classes, 1), classes / n)], 1)

    def scaled(change: Array) -> Array:
        return z + z @ change[:, :-1].T + change[:, -1]

    def pulled(residuals: Array) -> Array:
        return np.concatenate([residuals.T @ z, residuals.sum(0)[:, None]], 1)

    change = least_nll(scaled, pulled, labels, np.zeros((classes, classes + 1)), penalty)
    return temperature, np.eye(classes) + change[:, :-1], change[:, -1]


def fit_platt(logits: Logits, labels: Labels) -> tuple[Array, Array]:
    """a and b [K]: for each class those with the least NLL of sigmoid(a z + b) against "it is that class".

    z: the log-odds of the class, since logits themselves say as much with any constant added to all of them.
    """
    z = log_odds(logits)
    fits = [_fit_sigmoid(z[:, k], (labels == k).astype(np.int64)) for k in range(z.shape[1])]
    return np.array([a for a, _ in fits]), np.array([b for _, b in fits])


def _fit_sigmoid(z: Array, is_class: Labels) -> tuple[float, float]:
    """A sigmoid is a softmax beside a logit of 0."""

    def scaled(both: Array) -> Array:
        return np.stack([np.zeros(len(z)), both[0] * z + both[1]], 1)

    def pulled(residuals: Array) -> Array:
        return np.array([(residuals[:, 1] * z).sum(), residuals[:, 1].sum()])

    a, b = least_nll(scaled, pulled, is_class, np.zeros(2))
    return float(a), float(b)


def _vector_scaled(weights: Array, bias: Array, logits: Logits) -> Array:
    return scores.log_probabilities(np.asarray(logits, np.float64) * weights + bias)


def _matrix_scaled(temperature: float, weights: Array, bias: Array, logits: Logits) -> Array:
    return scores.log_probabilities(scores.log_probabilities(logits, temperature) @ weights.T + bias)


def _platt_scaled(a: Array, b: Array, logits: Logits) -> Array:
    from scipy.special import log_expit

    return scores.log_probabilities(log_expit(log_odds(logits) * a + b))


def log_odds(logits: Logits) -> Array:
    """Of each class against all others [n, K]."""
    from scipy.special import logsumexp

    log_p = scores.log_probabilities(logits)
    surest = np.arange(len(log_p)), log_p.argmax(1)
    others = log_p.copy()
    others[surest] = -np.inf
    p = np.exp(log_p)
    p[surest] = 0  # 1 less it would be rounded
    against = np.log1p(-p)
    against[surest] = logsumexp(others, axis=1)
    return np.asarray(log_p - against)


def least_nll(
    scaled: Callable[[Array], Array],
    pulled: Callable[[Array], Array],
    labels: Labels,
    start: Array,
    penalty: Array | float = 0.0,
) -> Array:
    """The parameters θ with the least mean NLL of softmax(scaled(θ)) + Σ penalty · θ², to a gradient of GRADIENT.

    Newton's method: the NLL is convex, since `scaled` is linear but for a constant. `pulled` is its transpose: from
    derivatives by logits [n, K] to those by parameters. Where classes can be told apart without error, the parameters
    grow until the gradient is that small.
    """
    from scipy.sparse.linalg import LinearOperator, cg

    n, shape = len(labels), start.shape
    constant = scaled(np.zeros(shape))
    theta = start

    def objective(at: Array) -> tuple[float, Array]:
        log_p = scores.log_probabilities(scaled(at))
        return float(-log_p[np.arange(n), labels].mean() + (penalty * at**2).sum()), np.exp(log_p)

    value, p = objective(theta)
    for _ in range(STEPS):
        residuals = p.copy()
        residuals[np.arange(n), labels] -= 1
        gradient = pulled(residuals) / n + 2 * penalty * theta
        steepest = float(np.abs(gradient).max())
        if steepest <= GRADIENT:
            break

        def curved(flat: Array, p: Array = p) -> Array:
            direction = flat.reshape(shape)
            along = scaled(direction) - constant
            bent = p * (along - (p * along).sum(1, keepdims=True))
            return np.asarray((pulled(bent) / n + 2 * penalty * direction).ravel())

        curvature = LinearOperator((start.size, start.size), matvec=curved, dtype=np.float64)
        towards = cg(curvature, -gradient.ravel(), rtol=min(0.1, steepest**0.5), maxiter=10 * start.size)[0]
        step = towards.reshape(shape)
        slope, length = float((gradient * step).sum()), 1.0
        while True:
            new_value, new_p = objective(theta + length * step)
            if new_value <= value + 1e-4 * length * slope + 1e-14 or length < 1e-10:
                break
            length /= 2
        theta, value, p = theta + length * step, new_value, new_p
    return theta
