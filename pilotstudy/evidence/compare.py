"""Differences: between the rows of one run, and between the same rows of several runs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from pilotstudy.errors import InputError, nearest
from pilotstudy.evidence.figures import Figures, contrast
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics import intervals
from pilotstudy.metrics.intervals import Estimate
from pilotstudy.metrics.ood import metric_named
from pilotstudy.metrics.recalibration import Recalibration
from pilotstudy.metrics.resampling import Sample
from pilotstudy.runs.records import At
from pilotstudy.storage import absolute
from pilotstudy.study.spec import Study
from pilotstudy.study.statements import ENSEMBLE, Row


@dataclass(frozen=True)
class Difference:
    """One figure less another. `improvement`: how likely a run of the one is better than a run of the other.

    Between other test images there is nothing to test: p-values are None.
    """

    difference: float
    low: float
    high: float
    p: float | None
    p_holm: float | None  # corrected within the metric
    improvement: float | None
    seeds: int
    seeds_needed: int | None  # at least; None where it is decided, or seeds alone would not
    seeds_needed_at_most: int | None
    verdict: str  # in a word or two
    says: str

    @classmethod
    def of(
        cls, metric: str, estimate: Estimate, p_holm: float, points: int, ours: Sample, theirs: Sample
    ) -> "Difference":
        sign = metric_named(metric).sign
        is_same = is_same_sample(ours, theirs)
        needed = intervals.seeds_needed(estimate) if estimate.sign == 0 and not is_same else None
        return cls(
            difference=estimate.value,
            low=estimate.low,
            high=estimate.high,
            p=estimate.p,
            p_holm=p_holm,
            improvement=intervals.probability_of_improvement(ours.values, theirs.values, sign) if sign else None,
            seeds=estimate.seeds,
            seeds_needed=needed.low if needed else None,
            seeds_needed_at_most=needed.high if needed else None,
            verdict="the same" if is_same else verdict_in_words(metric, estimate, p_holm),
            says="the same" if is_same else difference_in_words(metric, estimate, p_holm, points),
        )

    def of_other_data(self, ours: str, theirs: str) -> "Difference":
        """What is left to say where the test images differ."""
        return replace(
            self,
            p=None,
            p_holm=None,
            improvement=None,
            seeds_needed=None,
            seeds_needed_at_most=None,
            verdict="other data",
            says=f"the data differ ({ours}, not {theirs}): this is no difference between methods, and is not tested",
        )


@dataclass(frozen=True)
class RowComparison:
    """One row of a run against another."""

    metric: str
    row: Row
    against: Row
    difference: Difference

    def record(self) -> dict[str, object]:
        own = {"metric": self.metric, "row": str(self.row), "against": str(self.against)}
        return own | asdict(self.difference)


@dataclass(frozen=True)
class RunComparison:
    """A row of one run against the same row of the first. `points`: whether the test points are the same."""

    metric: str
    row: Row
    first_run: str
    first_figure: float
    run: str
    figure: float
    points_are_paired: bool
    difference: Difference

    def record(self) -> dict[str, object]:
        own = {
            "metric": self.metric,
            "row": str(self.row),
            f"in {self.first_run}": self.first_figure,
            "run": self.run,
            "its figure": self.figure,
            "points": "paired" if self.points_are_paired else "other",
        }
        return own | asdict(self.difference)


def compare_rows(
    evidence: RunEvidence,
    against: Row,
    metrics: Sequence[str],
    *,
    at: At = "last",
    recalibration: Recalibration = "none",
    test: str = "test",
) -> list[RowComparison]:
    """Every row against one, for each metric; p-values corrected (Holm) within the metric."""
    if lacking := evidence.lacks_metrics(metrics):
        raise InputError(lacking)
    figures = evidence.figures(metrics, at, recalibration, deep=against.mode == "seeds", test=test)
    if against not in figures.rows:
        names = [str(row) for row in figures.rows]
        raise InputError(f"run {evidence.run.name!r} has no row {str(against)!r}: {nearest(str(against), names)}")
    comparisons = []
    for metric in metrics:
        samples = figures.samples[metric]
        estimates = [(row, figures.difference(metric, row, against)) for row in figures.rows if row != against]
        family = [(row, estimate) for row, estimate in estimates if estimate is not None]
        adjusted = intervals.holm([estimate.p for _, estimate in family])
        for (row, estimate), p_holm in zip(family, adjusted, strict=True):
            difference = Difference.of(metric, estimate, p_holm, figures.points, samples[row], samples[against])
            comparisons.append(RowComparison(metric, row, against, difference))
    return comparisons


def reference_row(evidence: RunEvidence) -> Row:
    """What rows are compared with where nothing else is said: the reference, else the first row."""
    rows = list(evidence.at().rows)
    return next((row for row in rows if row.role == "reference"), rows[0])


def compare_runs(
    runs: Sequence[RunEvidence],
    metrics: Sequence[str],
    *,
    at: At = "last",
    recalibration: Recalibration = "none",
    test: str = "test",
) -> list[RunComparison]:
    """The rows that all runs have, each run against the first. Test points are paired where they are the same, seeds
    where everything but the code is.
    """
    first, *others = runs
    folders = [absolute(evidence.run.files.folder) for evidence in runs]
    for evidence, folder in zip(runs, folders, strict=True):
        if folders.count(folder) > 1:
            raise InputError(f"run {evidence.run.name!r} is given twice: a run does not differ from itself")
        if lacking := evidence.lacks_metrics(metrics):
            raise InputError(lacking)
    fingerprints = [evidence.at(at, recalibration, test=test).fingerprint for evidence in runs]
    figures = [evidence.figures(metrics, at, recalibration, test=test) for evidence in runs]
    common = [row for row in figures[0].rows if all(row in others.rows for others in figures[1:])]
    if not common:
        raise InputError(f"{', '.join(evidence.run.name for evidence in runs)} have no row in common")
    comparisons = []
    for metric in metrics:
        family = []
        for row in common:
            for number, other in enumerate(others, 1):
                same_seeds = same_trials(first.study, other.study, row)
                estimate = run_difference(metric, row, figures[number], figures[0], paired=same_seeds)
                if estimate is not None:
                    family.append((number, row, estimate))
        adjusted = intervals.holm([estimate.p for *_, estimate in family])
        for (number, row, estimate), p_holm in zip(family, adjusted, strict=True):
            ours, theirs = figures[number].samples[metric][row], figures[0].samples[metric][row]
            is_paired = fingerprints[number] == fingerprints[0]
            difference = Difference.of(metric, estimate, p_holm, figures[number].points, ours, theirs)
            if not is_paired:
                difference = difference.of_other_data(*(data_in_words(runs[n], figures[n]) for n in (number, 0)))
            comparisons.append(
                RunComparison(
                    metric,
                    row,
                    first.run.name,
                    float(theirs.values.mean()),
                    runs[number].run.name,
                    float(ours.values.mean()),
                    is_paired,
                    difference,
                )
            )
    return comparisons


def is_same_sample(ours: Sample, theirs: Sample) -> bool:
    """Whether they are of the same predictions."""
    return np.array_equal(ours.values, theirs.values) and np.array_equal(ours.resampled, theirs.resampled)


def data_in_words(evidence: RunEvidence, figures: Figures) -> str:
    return f"{evidence.study.data.name} with {figures.points:,} test images"


def run_difference(metric: str, row: Row, ours: Figures, theirs: Figures, *, paired: bool) -> Estimate | None:
    groups = [row.phase, row.phase if paired else "another run"]
    return contrast(metric, [(1.0, ours, row), (-1.0, theirs, row)], groups)


def same_trials(first: Study, second: Study, row: Row) -> bool:
    """Whether a seed means the same in both: data, network, training and the arm's settings."""
    if row.phase == "confirm":
        return False
    same = (first.data, first.network, first.training) == (second.data, second.network, second.training)
    if row.arm == ENSEMBLE:  # of all arms
        return same and first.arms == second.arms
    return same and first.arms.get(row.arm) == second.arms.get(row.arm)


def verdict_in_words(metric: str, difference: Estimate, p_holm: float) -> str:
    if difference.sign == 0:
        return "open"
    found = {1: "better", -1: "worse", 0: "higher" if difference.value > 0 else "lower"}
    word = found[difference.sign * metric_named(metric).sign]
    if difference.seeds == 1:
        return f"{word}, 1 seed"
    return word if p_holm < 0.05 else f"({word})"


def difference_in_words(metric: str, difference: Estimate, p_holm: float, points: int) -> str:
    if difference.sign == 0:
        if not (difference.value or difference.points_variance or difference.seeds_variance):
            return "the same"
        seeds = f"{difference.seeds} seed{'s' * (difference.seeds != 1)}"
        text = f"no difference can be seen at this size ({seeds}, {points:,} test images)"
        if difference.seeds == 1:
            return f"{text}; one seed tells nothing of others"
        if difference.is_barred:
            return "diverged seeds count against what looks better, so nothing can be said"
        if difference.is_within_floors:
            return "no difference beyond the noise floors can be seen at this size"
        needed = intervals.seeds_needed(difference)
        more = f"about {needed} would show one this large" if needed else "more seeds alone would not show one"
        return f"{text}; {more}"
    word = "higher" if difference.value > 0 else "lower"
    verdict = {1: " (better)", 0: "", -1: " (worse)"}[difference.sign * metric_named(metric).sign]
    if difference.seeds == 1:
        return f"{word}{verdict} for this one seed"
    return word + verdict + ("" if p_holm < 0.05 else ", but not after correction for the number of comparisons")
