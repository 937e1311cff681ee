"""Predictions against what several people said of each image: soft labels in place of one class."""

from pilotstudy.metrics import scores
from pilotstudy.metrics.scores import Array

SOFT_METRICS = ("soft_nll", "soft_kl")


def soft_figures(log_p: Array, soft_labels: Array) -> dict[str, float]:
    """Means over images, in nats: the cross-entropy to the soft labels [n, K], and that less their own entropy."""
    cross_entropy = float(-(soft_labels * log_p).sum(1).mean())
    return dict(
        zip(SOFT_METRICS, (cross_entropy, cross_entropy - float(scores.entropies(soft_labels).mean())), strict=True)
    )
