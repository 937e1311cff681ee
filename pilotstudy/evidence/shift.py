"""What a run says of the study's further test sets: figures of each row, and what they differ from the clean test's."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np

from pilotstudy.console import message
from pilotstudy.errors import InputError
from pilotstudy.evidence.figures import Figures, contrast
from pilotstudy.evidence.ood import OodPredictions
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics.intervals import Estimate
from pilotstudy.metrics.ood import OOD_METRICS, RESAMPLED_OOD_METRICS
from pilotstudy.metrics.registry import headline_metrics
from pilotstudy.metrics.resampling import RESAMPLES
from pilotstudy.metrics.soft import SOFT_METRICS, soft_figures
from pilotstudy.study.statements import Row


@dataclass(frozen=True)
class TestFigure:
    """A metric of one row on a further test set, the mean over seeds; with intervals where the metric has them.

    `difference`: to the study's own test images, in pairs where an image is a version of one of them.
    """

    __test__ = False  # for pytest: not a class of tests

    test: str
    kind: str
    family: str
    strength: int
    images: int
    row: Row
    metric: str
    seeds: int
    figure: float
    low: float | None = None
    high: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None

    def record(self) -> dict[str, object]:
        return asdict(self) | {"row": str(self.row)}


def all_test_figures(evidence: RunEvidence, resamples: int = RESAMPLES) -> list[TestFigure]:
    """All test sets in the order of the study: of shift the headline metrics, else how well it is recognised.

    Those that were added, and that some trials have not predicted yet, are left out, and told.
    """
    lacking = {test: why for test in evidence.tests if (why := evidence.lacks(test=test))}
    there = [test for test in evidence.tests if test not in lacking]
    if lacking and not there:
        raise InputError(next(iter(lacking.values())))
    if lacking:
        message(f"{', '.join(lacking)}: left out, since not all trials have predictions of it: resume the run")
    return [figure for test in there for figure in figures_of_test(evidence, test, resamples)]


def figures_of_test(evidence: RunEvidence, test: str, resamples: int = RESAMPLES) -> Iterator[TestFigure]:
    """Those of one test set, row by row."""
    frozen = evidence.tests[test]

    def made(row: Row, metric: str, seeds: int, value: float, *more: float | None) -> TestFigure:
        of_test = test, frozen.kind, frozen.family, frozen.strength, frozen.images
        return TestFigure(*of_test, row, metric, seeds, value, *more)

    if frozen.kind == "ood":
        figures = evidence.figures(RESAMPLED_OOD_METRICS, resamples=resamples, test=test)
        predictions = evidence.at(test=test)
        assert isinstance(predictions, OodPredictions)
        for row in figures.rows:
            for metric in OOD_METRICS:
                if metric in figures.metrics and figures.has(metric, row):
                    estimate = figures.figure(metric, row)
                    yield made(row, metric, figures.seeds(row), estimate.value, estimate.low, estimate.high)
                elif metric not in figures.metrics and (value := predictions.mean(metric, row)) is not None:
                    yield made(row, metric, figures.seeds(row), value)
        return
    figures = evidence.figures(headline_metrics(), resamples=resamples, test=test)
    clean = evidence.clean_figures(test, headline_metrics(), resamples)
    soft = _soft(evidence, test)
    for row in figures.rows:
        for metric in figures.metrics:
            estimate, difference = figures.figure(metric, row), _difference(metric, row, figures, clean)
            interval = (difference.value, difference.low, difference.high) if difference else ()
            yield made(row, metric, figures.seeds(row), estimate.value, estimate.low, estimate.high, *interval)
        for metric, value in soft.get(row, {}).items():
            yield made(row, metric, figures.seeds(row), value)


def _difference(metric: str, row: Row, shifted: Figures, clean: Figures) -> Estimate | None:
    return contrast(metric, [(1.0, shifted, row), (-1.0, clean, row)], [row.phase, row.phase])


def _soft(evidence: RunEvidence, test: str) -> dict[Row, dict[str, float]]:
    """Every row, ensembles among them, against soft labels, where the test set has such; means over seeds."""
    labels = evidence.run.soft_labels(evidence.tests[test])
    if labels is None:
        return {}
    by_row = {}
    for row, by_seed in evidence.at(test=test).rows.items():
        figures = [soft_figures(log_p, labels) for log_p in by_seed.values()]
        by_row[row] = {metric: float(np.mean([each[metric] for each in figures])) for metric in SOFT_METRICS}
    return by_row
