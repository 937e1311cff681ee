"""The way in to a run's evidence: read once, whatever the order of what is stored."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pilotstudy.errors import DataError
from pilotstudy.evidence import run_evidence
from pilotstudy.evidence.claims import judge_all
from pilotstudy.evidence.predictions import StoredTrial, gather
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.evidence.summary import summary
from pilotstudy.metrics.recalibration import RECALIBRATIONS
from pilotstudy.metrics.registry import METRICS
from pilotstudy.page.content import page_data
from pilotstudy.runs.records import TrialRow
from pilotstudy.runs.schemas import ModelPredictions, Predictions
from pilotstudy.study.spec import Claim
from tests.support.made_run import made


def test_files_are_read_once_and_figures_are_computed_once(run, monkeypatch):
    read = []
    load = run_evidence.load_predictions
    monkeypatch.setattr(
        run_evidence, "load_predictions", lambda path, **options: read.append(path) or load(path, **options)
    )
    evidence = RunEvidence(run)
    assert evidence.figures() is evidence.figures()
    for at in "last", "best":
        for recalibration in "none", "temperature", "vector":
            evidence.figures(at=at, recalibration=recalibration, resamples=10)
    assert len(read) == len(set(read)) == len(evidence.finished)


def shuffled(part: Predictions, random: np.random.Generator) -> Predictions:
    order = random.permutation(len(part.rows))
    return Predictions(part.rows[order], part.labels[order], part.logits[order])


@pytest.mark.parametrize("recalibration", ["none", *RECALIBRATIONS])
def test_the_order_of_what_is_stored_does_not_matter(evidence, recalibration):
    """Neither of trials, nor of epochs and modes within a trial, nor of images."""
    random = np.random.default_rng(0)
    first, *others = evidence.trials
    disordered = [
        StoredTrial(
            trial.row,
            {
                model: ModelPredictions(*(shuffled(part, random) for part in (pair.validation, pair.test)))
                for model, pair in reversed(trial.predictions.items())
            },
        )
        for trial in others
    ]
    how = {"recalibration": recalibration, "deep": True, "fingerprint": "ab"}
    expected, found = (gather(each, "last", **how) for each in (evidence.trials, [first, *reversed(disordered)]))
    assert set(found.rows) == set(expected.rows)
    for row, by_seed in expected.rows.items():
        assert set(found.rows[row]) == set(by_seed)
        for seed, log_p in by_seed.items():
            np.testing.assert_allclose(found.rows[row][seed], log_p, atol=1e-6)
            assert found.fits[row][seed].temperature == pytest.approx(expected.fits[row][seed].temperature, abs=1e-6)
    for row, by_seed in expected.floors["ece"].items():
        assert found.floors["ece"][row] == pytest.approx(by_seed)


def test_trials_come_as_planned_whatever_order_they_were_taken_up_in(run, monkeypatch):
    planned = [row.name for row in RunEvidence(run).trial_rows]
    rows = run_evidence.Results.rows
    monkeypatch.setattr(run_evidence.Results, "rows", lambda results: list(reversed(rows(results))))
    assert [row.name for row in RunEvidence(run).trial_rows] == planned


def test_predictions_of_other_images_are_refused(evidence):
    first, second = evidence.trials[:2]
    wrong = {
        model: ModelPredictions(pair.validation, replace(pair.test, rows=pair.test.rows + 1))
        for model, pair in second.predictions.items()
    }
    with pytest.raises(DataError, match=f"{second.row.name} predicted other images"):
        gather([first, StoredTrial(second.row, wrong)], "last", recalibration="none", deep=False, fingerprint="")


def test_a_metric_that_a_run_did_not_store_is_computed_from_its_predictions(evidence, run):
    def without(row: TrialRow) -> TrialRow:
        kept = tuple(
            replace(each, figures={name: value for name, value in each.figures.items() if name != "aurc"})
            for each in row.evaluations
        )
        return replace(row, evaluations=kept)

    older = RunEvidence(run)
    older.trial_rows = [without(row) for row in evidence.trial_rows]
    assert [line.record() for line in summary(older)] == [line.record() for line in summary(evidence)]
    assert list(summary(older)[0].figures) == list(METRICS)


def test_a_claim_with_a_mark_on_a_group_is_held_against_the_members_that_are_meant(run):
    texts = ("nll: pilot-a-aug@mc < baselines@mc", "nll: pilot-a-aug@mc < baselines", "nll: l2 < standard@tuned")
    _, sampled, plain, tuned = judge_all(RunEvidence(run), [Claim(says=text, holds=text) for text in texts])
    assert (sampled.opponents, sampled.hardest) == (1, "dropout@mc")
    assert plain.opponents == 3
    assert (tuned.opponents, tuned.hardest) == (1, "dropout@tuned")


def test_a_claim_that_an_earlier_version_took_is_not_tested(tmp_path):
    """The run can still be read, and all else in it."""
    run = made(tmp_path / "older", points=60)
    content = json.loads(run.files.study.read_text())
    content["study"]["claims"].append(content["study"]["claims"][0] | {"holds": "nll: vanilla@mc < baselines@seeds"})
    run.files.study.write_text(json.dumps(content))
    sound, odd = judge_all(RunEvidence(run))
    assert sound.verdict != "not tested"
    assert odd.verdict == "not tested"
    assert "'vanilla@mc'" in odd.reason
    assert "Of 2 claims" in page_data(run)["answer"]["sentences"][-1]
