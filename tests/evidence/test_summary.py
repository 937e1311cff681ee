"""Means over seeds, and the optimism of a search, from figures that are made up."""

from dataclasses import replace

import numpy as np
import pytest

from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.evidence.summary import chosen_by, optimism, summary
from pilotstudy.metrics.registry import METRICS
from pilotstudy.page.search import known_objectives
from pilotstudy.runs.records import Evaluation, Status, TrialResult, TrialRow
from pilotstudy.study import reading
from tests.support.made_run import FINGERPRINT, Maker, content
from tests.support.plans import make_study

FIGURES = dict.fromkeys(METRICS, 0.1)


def test_the_summary_is_of_the_test_figures_as_they_are(tmp_path):
    study = reading.validate_study(content(seeds=[0, 1], arms={"vanilla": {}, "dropout": {}}, search=None), "made")
    maker = Maker(tmp_path / "run", study, points=20)

    def result(item) -> TrialResult:
        evaluations = tuple(
            Evaluation(at, "point", split, scaled, 1.0, 20, FIGURES | {"nll": item.trial.seed + 1 + extra})
            for split, of_split in (("validation", 10.0), ("test", 0.0))
            for scaled, of_scaling in ((False, 0.0), (True, 100.0))
            for at, of_epoch in (("last", 0.0), ("best", 1000.0))
            for extra in [of_split + of_scaling + of_epoch]
        )
        return TrialResult(trial=item.trial, fingerprint=FINGERPRINT, status=Status.FINISHED, evaluations=evaluations)

    while not isinstance(item := maker.director.next(), str):
        maker.conclude(item, result(item))
    maker.director.save()
    lines = {(line["arm"], line["at"]): line for line in (row.record() for row in summary(RunEvidence(maker.run)))}
    for arm in "vanilla", "dropout":
        for at, mean in ("last", 1.5), ("best", 1001.5):
            line = lines[arm, at]
            assert (line["seeds"], line["nll"]) == (2, mean)
            assert line["nll_sd"] == pytest.approx(np.sqrt(0.5))


def searched(phase: str, nll: float, accuracy: float, ece: float) -> TrialRow:
    figures = FIGURES | {"nll": nll, "accuracy": accuracy, "ece": ece}
    return TrialRow(
        phase=phase,
        arm="dropout",
        number=0,
        seed=0,
        key="",
        status=Status.FINISHED,
        reused=False,
        retries=0,
        moves=0,
        error=None,
        settings={},
        epochs=1,
        best_epoch=1,
        training_seconds=1.0,
        evaluations=(Evaluation("last", "point", "validation", False, 1.0, 50, figures),),
        reliability=(),
    )


def evidence_of(trials: list[TrialRow], objective: str, **search) -> RunEvidence:
    """Of a run with these trials."""
    evidence = object.__new__(RunEvidence)
    study = make_study(arms=["dropout", "l2"], objectives=[objective], **search)
    evidence.__dict__.update(study=study, trial_rows=trials, looks=None, spaces={})
    return evidence


@pytest.mark.parametrize(
    ("objective", "search_says", "confirmed"), [("nll", 1.0, 1.6), ("accuracy", 0.9, 0.75), ("ece", 0.1, 0.25)]
)
def test_the_optimism_is_beside_the_best_of_the_search(objective, search_says, confirmed):
    figures = {
        "search": [(1.0, 0.6, 0.3), (1.4, 0.9, 0.2), (1.2, 0.7, 0.1)],
        "confirm": [(1.5, 0.8, 0.2), (1.7, 0.7, 0.3)],
        "arms": [(0.1, 0.99, 0.01)],
    }
    trials = [searched(phase, *one) for phase, found in figures.items() for one in found]
    trials.append(replace(trials[0], arm="l2"))  # searched, and not confirmed yet
    (line,) = optimism(evidence_of(trials, objective))
    assert (line.arm, line.objective) == ("dropout", objective)
    assert (line.search, line.confirmed) == pytest.approx((search_says, confirmed))
    assert line.optimism == pytest.approx(confirmed - search_says)
    assert (line.trials, line.seconds) == (3, 3.0)


def test_optimism_is_beside_the_best_that_could_win():
    """The example of the audit: the lowest NLL of the search is below the floor on accuracy."""
    trials = [
        searched("search", 0.40, 0.6, 0.1),
        searched("search", 0.50, 0.85, 0.1),
        searched("confirm", 0.51, 0.9, 0.1),
    ]
    assert optimism(evidence_of(trials, "nll"))[0].optimism == pytest.approx(0.11)
    (line,) = optimism(evidence_of(trials, "nll", accuracy_floor=0.8))
    assert (line.search, line.optimism) == (0.50, pytest.approx(0.01))
    assert optimism(evidence_of(trials, "nll", accuracy_floor=0.95)) == []
    failed = replace(trials[1], status=Status.FAILED)
    assert optimism(evidence_of([trials[0], failed, trials[2]], "nll", accuracy_floor=0.8)) == []


def test_optimism_is_of_what_the_search_was_judged_by():
    searched = make_study(objectives=["ece", "nll"])
    assert chosen_by(searched) == "ece"
    assert known_objectives(searched) == ["ece", "nll"]
    elsewhere = searched.model_copy(update={"search": searched.search.model_copy(update={"objectives": ("gone",)})})
    assert chosen_by(elsewhere) == "nll"
    assert known_objectives(elsewhere) == ["nll"]
