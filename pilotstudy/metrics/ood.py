"""How well a network tells what it has seen from what it has not: scores of images, and metrics of these scores.

The first images are in distribution (the study's own test images), the others are not. A higher score means "more like
what was seen". Ties are averaged over. What is out of distribution is the positive class of AUPR and FPR95, as in
Hendrycks and Gimpel, 2017, and in OpenOOD.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilotstudy.metrics import scores
from pilotstudy.metrics.computation import not_resampled
from pilotstudy.metrics.registry import METRICS, Metric
from pilotstudy.metrics.scores import Array

Floats = NDArray[np.floating]  # as stored, or computed

SCORES = {
    "msp": "largest probability",
    "entropy": "entropy",
    "energy": "energy",
    "mi": "mutual information",
    "surprise": "surprise of the DGM",
    "typicality": "typicality to the DGM",
}


def scores_of(
    log_p: Array,
    logits: Floats | None = None,
    expected_entropy: Floats | None = None,
    surprise: Floats | None = None,
    usual: Floats | None = None,
) -> dict[str, Array]:
    """The scores that these predictions have [n]: energy needs logits, mutual information the draws' mean entropy.

    `surprise`: of the images to a DGM. What it has not seen may surprise it less than what it has, as house numbers a
    DGM of CIFAR-10, so it is judged both ways: by itself, and by its distance to the median of what is `usual`, the
    surprise of the validation images.
    """
    entropies = scores.entropies(np.exp(log_p))
    known = {"msp": np.exp(log_p.max(1)), "entropy": -entropies}
    if logits is not None:
        known["energy"] = log_sum_exp(np.asarray(logits, np.float64))
    if expected_entropy is not None:
        known["mi"] = expected_entropy - entropies
    if surprise is not None:
        known["surprise"] = -surprise.astype(np.float64)
        if usual is not None:
            known["typicality"] = -np.abs(known["surprise"] + np.median(usual.astype(np.float64)))
    return known


def log_sum_exp(logits: Array) -> Array:
    largest = logits.max(1, keepdims=True)
    return np.asarray(np.log(np.exp(logits - largest).sum(1)) + largest[:, 0])


@dataclass(frozen=True)
class Scored:
    """A score of images [n], and which of them are out of distribution."""

    score: Array
    is_ood: NDArray[np.bool_]


def auroc(scored: Scored) -> float:
    """The chance that an image in distribution has the higher score; ties count half."""
    return float(placements(scored)[~scored.is_ood].mean())


def placements(scored: Scored) -> Array:
    """For each image the share of the other kind that it is told from, ties half (DeLong et al., 1988) [n]."""
    seen, unseen = np.sort(scored.score[~scored.is_ood]), np.sort(scored.score[scored.is_ood])

    def below(values: Array, all_of_them: Array) -> Array:
        both = (np.searchsorted(all_of_them, values, side) for side in ("left", "right"))
        return np.asarray(sum(both) / (2 * len(all_of_them)))

    return np.where(scored.is_ood, 1 - below(scored.score, seen), below(scored.score, unseen))


def auroc_and_influences(scored: Scored) -> Array:
    """AUROC plus each image's influence on it: the mean over a resample is its AUROC to first order."""
    placed, value = placements(scored), auroc(scored)
    share = np.where(scored.is_ood, scored.is_ood.mean(), 1 - scored.is_ood.mean())
    return np.asarray(value + (placed - value) / share)


def fpr95(scored: Scored) -> float:
    """The share in distribution that is taken for unseen, where at least 95 % of what is unseen is."""
    unseen = np.sort(scored.score[scored.is_ood])
    threshold = unseen[int(np.ceil(0.95 * len(unseen))) - 1]
    return float((scored.score[~scored.is_ood] <= threshold).mean())


def aupr(scored: Scored) -> float:
    """The average precision of what is out of distribution."""
    _, group = np.unique(scored.score, return_inverse=True)  # lowest first: most surely unseen
    of_group = np.bincount(group)
    found = np.bincount(group, scored.is_ood)
    precision = np.cumsum(found) / np.cumsum(of_group)
    return float((found * precision).sum() / found.sum())


VALUES: Mapping[str, Callable[[Scored], float]] = {"auroc": auroc, "fpr95": fpr95, "aupr": aupr}


def _declared(name: str, score: str) -> Metric:
    """Its computation is of scores, not of points, which have no labels here."""
    return Metric(
        f"{name}_{score}",
        "lower" if name == "fpr95" else "higher",
        not_resampled(lambda points: float("nan")),
        bounds=(0, 1),
        short=f"{name.upper()} ({SCORES[score]})",
    )


OOD_METRICS = {f"{name}_{score}": _declared(name, score) for name in VALUES for score in SCORES}
RESAMPLED_OOD_METRICS = tuple(f"auroc_{score}" for score in SCORES)  # that tables, claims and comparisons take


def ood_value(metric: str, by_score: Mapping[str, Array], is_ood: NDArray[np.bool_]) -> float | None:
    """A metric such as `auroc_msp`; None where the predictions do not have the score."""
    name, _, score = metric.partition("_")
    return VALUES[name](Scored(by_score[score], is_ood)) if score in by_score else None


def metric_named(name: str) -> Metric:
    """Of the study's classes, or of what is none of them."""
    return METRICS[name] if name in METRICS else OOD_METRICS[name]
