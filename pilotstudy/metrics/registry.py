"""Every metric, declared once: what it is called, which way is better, how it is computed and how it is resampled.

What trials store, tables, claims, searches, intervals and the page all follow from `METRICS`: a new metric is one more
call of `register`, or a function with `metric` before it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Literal, get_args

import numpy as np

from pilotstudy.errors import InputError, with_parentheses
from pilotstudy.metrics import scores
from pilotstudy.metrics.computation import (
    Computation,
    Fitted,
    Points,
    augrc_and_influences,
    aurc_and_influences,
    bin_gaps,
    bin_gaps_and_shares,
    classwise_gaps,
    conformal_hits,
    conformal_sizes,
    equal_mass_gaps,
    largest_gap,
    mean_of,
    not_resampled,
    sum_of_gaps,
)
from pilotstudy.metrics.scores import BINS, Array, Labels, Logits
from pilotstudy.metrics.smooth_ece import smooth_ece
from pilotstudy.metrics.soft import SOFT_METRICS

Better = Literal["higher", "lower", "neither"]
DEFAULT_OBJECTIVE = "nll"


@dataclass(frozen=True)
class Metric:
    """One metric. `name` is what users type and how it is stored; where a text is empty, the name stands in."""

    name: str
    better: Better
    computation: Computation
    bounds: tuple[float, float] = (-inf, inf)
    short: str = ""  # its usual name, such as NLL
    heading: str = ""  # of a table's column, with what must be known to read it
    words: str = ""  # in a sentence: "the best ..."
    floor: str = ""  # the metric that says what a perfectly calibrated model would score
    headline: bool = False  # shown wherever no other metrics are asked for: those of the paper's tables
    every_epoch: bool = False  # reported on validation after every epoch, not at the end only
    objective: bool = False  # a search may be asked to improve it
    needs_validation: bool = False  # it takes what is fitted there; imported predictions may lack it
    source: str = ""  # the module that declares it, where that is not this one

    def __post_init__(self) -> None:
        if self.better not in get_args(Better):
            raise InputError(
                f"metric {self.name!r}: better = {self.better!r}: it is one of {', '.join(get_args(Better))}"
            )
        if self.objective and self.better == "neither":
            raise InputError(f"metric {self.name!r} cannot be an objective: neither more nor less of it is better")
        if not self.bounds[0] < self.bounds[1]:
            raise InputError(f"metric {self.name!r}: bounds = {self.bounds!r}: the first must be less than the second")
        object.__setattr__(self, "bounds", tuple(map(float, self.bounds)))
        object.__setattr__(self, "short", self.short or self.name)
        object.__setattr__(self, "heading", self.heading or self.short)
        object.__setattr__(self, "words", self.words or self.short)

    @property
    def sign(self) -> int:
        """1: higher is better; −1: lower; 0: neither."""
        return {"higher": 1, "lower": -1, "neither": 0}[self.better]

    def can_tell(self, points: Points) -> bool:
        """Whether there is all that it needs."""
        return points.has_fit or not self.needs_validation

    def value(self, points: Points) -> float:
        return self.computation.value(points)

    @property
    def is_resampled(self) -> bool:
        return self.computation.columns is not None

    def columns(self, points: Points) -> Array:
        """[n, C]; only of metrics that are resampled."""
        assert self.computation.columns is not None, f"{self.name} is not resampled"
        return self.computation.columns(points).reshape(len(points.labels), -1)

    def figure(self, means: Array) -> Array:
        """The metric, of weighted means of its columns [..., C]."""
        return self.computation.figure(means)


# The metrics, in the order in which trials store them

_BUILT_IN = (
    Metric(
        "accuracy",
        "higher",
        mean_of(lambda points: points.correct),
        bounds=(0, 1),
        headline=True,
        every_epoch=True,
        objective=True,
    ),
    Metric(
        "nll",
        "lower",
        Computation(lambda points: float(-points.own_log_p.mean()), lambda points: -points.own_log_p),
        bounds=(0, inf),
        short="NLL",
        words="likelihood (NLL)",
        headline=True,
        every_epoch=True,
        objective=True,
    ),
    Metric(
        "brier",
        "lower",
        mean_of(lambda points: scores.brier_scores(points.p, points.labels)),
        bounds=(0, 2),
        short="Brier score",
        heading="Brier",
        every_epoch=True,
        objective=True,
    ),
    Metric("brier_miscalibration", "lower", not_resampled(lambda points: points.brier_parts[0]), bounds=(0, 2)),
    Metric("brier_discrimination", "higher", not_resampled(lambda points: points.brier_parts[1]), bounds=(0, 1)),
    Metric("brier_uncertainty", "neither", not_resampled(lambda points: points.brier_parts[2]), bounds=(0, 1)),
    Metric(
        "ece",
        "lower",
        Computation(lambda points: points.reliability.expected_error, bin_gaps, sum_of_gaps),
        bounds=(0, 1),
        short="ECE",
        heading=f"ECE ({BINS} bins)",
        words="calibration (ECE)",
        floor="ece_noise_floor",
        headline=True,
        every_epoch=True,
        objective=True,
    ),
    Metric("ece_noise_floor", "neither", not_resampled(lambda points: points.noise_floor[0]), bounds=(0, 1)),
    Metric("ece_noise_floor_95", "neither", not_resampled(lambda points: points.noise_floor[1]), bounds=(0, 1)),
    Metric(
        "adaptive_ece",
        "lower",
        Computation(lambda points: points.equal_mass_reliability.expected_error, equal_mass_gaps, sum_of_gaps),
        bounds=(0, 1),
    ),
    Metric(
        "classwise_ece",
        "lower",
        Computation(
            lambda points: scores.classwise_ece(points.p, points.labels, points.bins), classwise_gaps, sum_of_gaps
        ),
        bounds=(0, 1),
    ),
    Metric(
        "mce",
        "lower",
        Computation(lambda points: float(points.reliability.gaps.max()), bin_gaps_and_shares, largest_gap),
        bounds=(0, 1),
    ),
    Metric(
        "aurc",
        "lower",
        Computation(lambda points: float(points.risk.mean()), aurc_and_influences),
        bounds=(0, 1),
    ),
    Metric(
        "entropy",
        "neither",
        mean_of(lambda points: scores.entropies(points.p)),
        bounds=(0, inf),
        every_epoch=True,
    ),
    Metric("confidence", "neither", mean_of(lambda points: points.confidence), bounds=(0, 1)),
    Metric(
        "augrc",
        "lower",
        Computation(lambda points: float(points.generalised_risk.mean()), augrc_and_influences),
        bounds=(0, 1),
        short="AUGRC",
    ),
    Metric(
        "smece",
        "lower",
        not_resampled(lambda points: smooth_ece(points.confidence, points.correct)),
        bounds=(0, 1),
        short="smECE",
    ),
    Metric(
        "nll_refinement",
        "lower",
        mean_of(lambda points: points.scaled_nll),
        bounds=(0, inf),
        short="NLL: refinement",
        words="refinement (NLL after temperature scaling)",
        needs_validation=True,
    ),
    Metric(
        "nll_calibration",
        "lower",
        mean_of(lambda points: -points.own_log_p - points.scaled_nll),
        short="NLL: calibration",
        words="calibration (NLL less that after temperature scaling)",
        needs_validation=True,
    ),
    Metric(
        "conformal_size",
        "lower",
        mean_of(conformal_sizes),
        bounds=(0, inf),
        short="size of 90 % sets",
        needs_validation=True,
    ),
    Metric(
        "conformal_coverage",
        "neither",
        mean_of(conformal_hits),
        bounds=(0, 1),
        short="coverage of 90 % sets",
        needs_validation=True,
    ),
)

METRICS: dict[str, Metric] = {}
NOT_FIGURES = ("at", "mode", "split", "scaled", "temperature", "n", *SOFT_METRICS)  # other columns of an evaluation


def register(metric: Metric) -> Metric:
    """Adds a metric after the others."""
    known = METRICS.get(metric.name)
    if known is not None and (known.source != metric.source or not metric.source):
        raise InputError(f"there is a metric {metric.name!r} already")
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", metric.name) or metric.name in NOT_FIGURES:
        raise InputError(f"metric {metric.name!r}: a name has lower-case letters, digits and underscores")
    METRICS[metric.name] = metric
    return metric


@with_parentheses
def metric(
    name: str,
    *,
    better: Better,
    bounds: tuple[float, float] = (-inf, inf),
    heading: str = "",
    words: str = "",
    headline: bool = False,
    every_epoch: bool = False,
    objective: bool = False,
) -> Callable[[Callable[[Points], Array]], Callable[[Points], Array]]:
    """Declares a metric: put it before a function of `Points` that gives a value for each of them, [n].

    The figure is their mean, so it has intervals; tables, claims and pages have it then, for old runs too. All metrics
    share the points, which cannot be written to.
    `headline`: shown wherever no other metrics are asked for. `every_epoch`: also reported while training.
    `objective`: a search may be asked to improve it. `bounds`: what an interval cannot leave.
    """

    def declare(of_each: Callable[[Points], Array]) -> Callable[[Points], Array]:
        def values(points: Points) -> Array:
            try:
                given = np.asarray(of_each(points), float)
            except Exception as error:  # whatever a user's code may raise
                reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
                hint = "; points are for all metrics: change a copy" * ("read-only" in reason)
                raise InputError(f"metric {name!r} cannot be computed: {reason}{hint}") from error
            if given.size != len(points.labels):
                expected = f"a value for each of {len(points.labels)} points, not {list(given.shape)}"
                raise InputError(f"metric {name!r} cannot be computed: it must give {expected}")
            return given.reshape(-1)

        register(
            Metric(
                name,
                better,
                mean_of(values),
                bounds=bounds,
                short=heading,
                words=words,
                headline=headline,
                every_epoch=every_epoch,
                objective=objective,
                source=of_each.__module__,
            )
        )
        return of_each

    return declare


def forget(source: str) -> None:
    """Takes out what a module has declared."""
    for name in [name for name, known in METRICS.items() if known.source == source]:
        del METRICS[name]


for _each in _BUILT_IN:
    register(_each)


# Which of them are where


def by_prominence() -> list[Metric]:
    """All metrics in the order in which people read them: the headline ones first."""
    return sorted(METRICS.values(), key=lambda metric: not metric.headline)


def headline_metrics() -> tuple[str, ...]:
    return tuple(metric.name for metric in by_prominence() if metric.headline)


def resampled_metrics() -> tuple[str, ...]:
    """Those that tables, claims and comparisons take: they have intervals."""
    return tuple(metric.name for metric in by_prominence() if metric.is_resampled)


def epoch_metrics() -> tuple[str, ...]:
    return tuple(metric.name for metric in by_prominence() if metric.every_epoch)


def objectives() -> tuple[str, ...]:
    """What a search may be asked to improve, the default first."""
    names = [metric.name for metric in by_prominence() if metric.objective]
    return tuple(sorted(names, key=lambda name: name != DEFAULT_OBJECTIVE))


def headline_objectives() -> tuple[str, ...]:
    """What is shown of a search."""
    return tuple(name for name in objectives() if METRICS[name].headline)


def with_floors(names: tuple[str, ...]) -> tuple[str, ...]:
    """These metrics, each with its noise floor, if it has one, beside it."""
    return tuple(shown for name in names for shown in (name, METRICS[name].floor) if shown)


# The figures of one set of predictions


def evaluate(
    logits: Logits, labels: Labels, temperature: float = 1.0, bins: int = BINS, fitted: Fitted | None = None
) -> dict[str, float]:
    """Every metric of one set of predictions, by name; without `fitted`, those that need no validation points."""
    points = Points(scores.log_probabilities(logits, temperature), labels, bins, fitted=fitted)
    return {name: metric.value(points) for name, metric in METRICS.items() if metric.can_tell(points)}


def evaluate_epoch(logits: Logits, labels: Labels) -> dict[str, float]:
    """The metrics that every epoch reports, by name."""
    points = Points(scores.log_probabilities(logits), labels)
    return {name: METRICS[name].value(points) for name in epoch_metrics()}
