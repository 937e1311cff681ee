"""How metrics are computed from predictions, and of resamples of them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pilotstudy.metrics import scores
from pilotstudy.metrics.scores import BINS, Array, Labels

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True)
class Fitted:
    """What some metrics take from the same network's predictions of validation points.

    `temperature`: with the least NLL. `least_probability`: that of the classes in conformal sets (`conformal_level`).
    """

    temperature: float
    least_probability: float

    @classmethod
    def on(cls, log_p: Array, labels: Labels, temperature: float | None = None) -> "Fitted":
        """`log_p`, `labels`: of the validation points. `temperature`: where it is known already."""
        if temperature is None:
            temperature = scores.fit_temperature(log_p, labels)
        return cls(temperature, scores.conformal_level(np.exp(log_p), labels))


class Points:
    """One network's predictions of some points: log-probabilities [n, K], and what metrics need of them.

    All metrics of a trial are given the same points, so their arrays cannot be written to. `draws`: of the simulation
    of the noise floor. `fitted`: None where there are no validation points to fit on.
    """

    def __init__(
        self, log_p: Array, labels: Labels, bins: int = BINS, *, draws: int = 1000, fitted: Fitted | None = None
    ):
        self.log_p, self.labels, self.bins, self.draws = read_only(log_p), read_only(labels), bins, draws
        self.p = read_only(np.exp(log_p))
        self.confidence, self.correct = map(read_only, scores.confidences(self.p, labels))
        self._fitted = fitted

    @property
    def own_log_p(self) -> Array:
        """Of each point's own class [n]."""
        return self.log_p[np.arange(len(self.labels)), self.labels]

    @property
    def has_fit(self) -> bool:
        return self._fitted is not None

    @property
    def fitted(self) -> Fitted:
        """For metrics that need validation points; there must be some."""
        assert self._fitted is not None, "nothing was fitted on validation points"
        return self._fitted

    @cached_property
    def scaled_nll(self) -> Array:
        """Of each point's own class after temperature scaling [n]."""
        scaled = scores.log_probabilities(self.log_p, self.fitted.temperature)
        return read_only(np.asarray(-scaled[np.arange(len(self.labels)), self.labels]))

    @cached_property
    def reliability(self) -> scores.Bins:
        """In bins of equal width."""
        return _read_only_bins(scores.binned(self.confidence, self.correct, self.bins))

    @cached_property
    def equal_mass_reliability(self) -> scores.Bins:
        return _read_only_bins(scores.binned(self.confidence, self.correct, self.bins, equal_mass=True))

    @cached_property
    def risk(self) -> Array:
        """The error rate among the k most confident points, k = 1..n."""
        return read_only(scores.selective_risk(self.confidence, self.correct))

    @property
    def generalised_risk(self) -> Array:
        """The share of all points that are wrong and among the k most confident, k = 1..n."""
        return self.risk * np.arange(1, len(self.risk) + 1) / len(self.risk)

    @cached_property
    def brier_parts(self) -> tuple[float, float, float]:
        """Miscalibration, discrimination, uncertainty."""
        return scores.brier_decomposition(self.p, self.labels)

    @cached_property
    def noise_floor(self) -> tuple[float, float]:
        """The ECE's: mean and 95 % quantile."""
        return scores.ece_noise_floor(self.confidence, self.bins, draws=self.draws)


def read_only(values: NDArray[T]) -> NDArray[T]:
    """The same values, which whoever is given them cannot change."""
    view = values.view()
    view.flags.writeable = False
    return view


def _read_only_bins(bins: scores.Bins) -> scores.Bins:
    return scores.Bins(**{name: read_only(values) for name, values in vars(bins).items()})


@dataclass(frozen=True)
class Computation:
    """`value`: the metric of all points. Of a resample it is `figure` of the mean over its points of `columns`.

    `columns(points)` is [n] or [n, C], `figure` takes [..., C]. Without columns the metric has no intervals, and so
    there are no claims about it and no table of it.
    """

    value: Callable[[Points], float]
    columns: Callable[[Points], Array] | None = None
    figure: Callable[[Array], Array] = lambda means: np.asarray(means[..., 0])


def mean_of(of_each: Callable[[Points], Array]) -> Computation:
    """The mean of a value of each point [n]."""
    return Computation(lambda points: float(of_each(points).mean()), of_each)


def not_resampled(value: Callable[[Points], float]) -> Computation:
    return Computation(value)


# Columns of points, and figures of their means: gaps are of accuracy less confidence, by bin


def sum_of_gaps(means: Array) -> Array:
    return np.asarray(np.abs(means).sum(-1))


def largest_gap(means: Array) -> Array:
    """Of the gaps of bins and the shares of points in them."""
    gaps, shares = np.split(means, 2, axis=-1)
    return np.asarray((np.abs(gaps) / np.where(shares > 0, shares, 1.0)).max(-1))


def bin_gaps(points: Points) -> Array:
    index = scores.equal_width_index(points.confidence, points.bins)
    return in_bins(points.correct - points.confidence, index, points.bins)


def bin_gaps_and_shares(points: Points) -> Array:
    index = scores.equal_width_index(points.confidence, points.bins)
    return np.concatenate([bin_gaps(points), in_bins(np.ones(len(index)), index, points.bins)], 1)


def equal_mass_gaps(points: Points) -> Array:
    """In the bins of all points: resampling does not move their edges."""
    index = scores.equal_mass_index(points.confidence, points.bins)
    return in_bins(points.correct - points.confidence, index, points.bins)


def classwise_gaps(points: Points) -> Array:
    """Of each class's probability, divided by the number of classes."""
    classes = points.p.shape[1]
    by_class = []
    for k in range(classes):
        index = scores.equal_width_index(points.p[:, k], points.bins)
        by_class.append(in_bins((points.labels == k) - points.p[:, k], index, points.bins))
    return np.asarray(np.concatenate(by_class, 1) / classes)


def in_bins(values: Array, index: NDArray[np.int64], bins: int) -> Array:
    """Each point's value in the column of its bin."""
    columns = np.zeros((len(values), bins))
    columns[np.arange(len(values)), index] = values
    return columns


def aurc_and_influences(points: Points) -> Array:
    """AURC plus each point's influence on it, so that the mean over a resample is its AURC to first order."""
    risk = points.risk
    ranks = np.arange(1, len(risk) + 1)
    order = np.argsort(-points.confidence, kind="stable")
    later = np.cumsum((1 / ranks)[::-1])[::-1]
    later_risk = np.cumsum((risk / ranks)[::-1])[::-1]
    influence = np.empty(len(risk))
    influence[order] = risk + (1 - points.correct[order]) * later - later_risk
    return np.asarray(risk.mean() + influence - influence.mean())


def augrc_and_influences(points: Points) -> Array:
    """AUGRC plus each point's influence on it, as for AURC: on its own place, and on those of wrong points."""
    risk = points.generalised_risk
    _, group, size = np.unique(-points.confidence, return_inverse=True, return_counts=True)
    no_surer = (len(risk) - np.cumsum(size) + (size + 1) / 2) / len(risk)  # the share of points; of equals, half
    surer_and_wrong = np.bincount(np.sort(group), risk) / size
    return np.asarray((1 - points.correct) * no_surer[group] + surer_and_wrong[group] - risk.mean())


def conformal_sizes(points: Points) -> Array:
    """How many classes are in each point's set."""
    return np.asarray((points.p >= points.fitted.least_probability).sum(1), np.float64)


def conformal_hits(points: Points) -> Array:
    """Whether each point's own class is in its set, 0 or 1."""
    own = points.p[np.arange(len(points.labels)), points.labels]
    return np.asarray(own >= points.fitted.least_probability, np.float64)
