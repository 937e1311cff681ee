"""Figures, ensembles and what is best, on runs made up for them."""

import numpy as np
import pytest

from pilotstudy.evidence.ensembles import ensemble_figures
from pilotstudy.evidence.figures import Best
from pilotstudy.evidence.summary import summary
from pilotstudy.metrics import registry, scores
from pilotstudy.report.table import build_table
from pilotstudy.runs import schemas
from pilotstudy.runs.results import Results
from pilotstudy.study.statements import Row


def stored(run, arm: str, seed: int, mode: str = "point") -> np.ndarray:
    """Test log-probabilities of one trial at its last epoch, read in a plain way."""
    rows = Results(run.files).trials.to_pylist()
    trial = next(row for row in rows if (row["phase"], row["arm"], row["seed"]) == ("arms", arm, seed))
    predictions = schemas.load_predictions(run.files.trial(trial["key"]).predictions)
    return scores.log_probabilities(predictions["last", mode].test.logits)


def test_figures_are_means_over_seeds_of_the_evaluation(evidence, figures):
    for line in summary(evidence):
        if line.at == "last":
            row = Row(line.arm, line.mode, line.phase)
            for name in "accuracy", "nll", "ece":
                assert figures.figure(name, row).value == pytest.approx(line.figures[name].mean, abs=1e-6)
                assert figures.figure(name, row).deviation == pytest.approx(line.figures[name].deviation, abs=1e-6)


def test_ensembles_average_probabilities(run, evidence):
    predictions = evidence.at(deep=True)
    baselines = ["vanilla", "dropout", "l2"]
    by_hand = np.mean([np.exp(stored(run, arm, 1)) for arm in baselines], 0)
    np.testing.assert_allclose(np.exp(predictions.rows[Row("ensemble", "ensemble")][1]), by_hand, atol=1e-9)
    seeds = np.mean([np.exp(stored(run, "pilot-a-aug", seed)) for seed in (0, 1, 2)], 0)
    np.testing.assert_allclose(np.exp(predictions.rows[Row("pilot-a-aug", "seeds")][0]), seeds, atol=1e-9)
    rows = {(str(line.row), line.recalibration): line.figures for line in ensemble_figures(evidence)}
    assert rows["pilot-a-aug@seeds", "none"]["nll"] == pytest.approx(
        -np.log(seeds[np.arange(len(seeds)), predictions.labels]).mean()
    )
    # Its own temperature is fitted on validation, and here validation is test.
    assert rows["ensemble", "temperature"]["nll"] <= rows["ensemble", "none"]["nll"]
    assert list(rows["ensemble", "temperature"]) == list(registry.METRICS)


def test_temperature_scaling_of_rows_is_the_trials_own(run, evidence):
    scaled = evidence.at(recalibration="temperature")
    logits = stored(run, "vanilla", 0)
    temperature = scores.fit_temperature(logits, scaled.labels)
    expected = scores.log_probabilities(logits, temperature)
    np.testing.assert_allclose(scaled.rows[Row("vanilla")][0], expected, atol=1e-5)


def test_the_best_is_marked_only_where_it_is(evidence, figures):
    rows = [Row("vanilla"), Row("l2")]
    assert figures.best("nll", [*rows, Row("pilot-a-aug")]) == Best(Row("pilot-a-aug"), is_real=True)
    assert figures.best("entropy", rows) == Best()  # neither more nor less of it is better
    found = figures.best("accuracy", rows)
    assert not found.is_real
    assert {found.leader, *found.near} == set(rows)
    assert sorted(map(found.mark, rows)) == ["leading", "near"]
    table = build_table(evidence)
    for line in table.lines:
        assert line.row.mode != "seeds"
        for cell in line.cells.values():
            assert cell.ours.low >= 0
    for metric in table.metrics:
        marks = [line.cells[metric].mark for line in table.lines]
        assert marks.count("best") + marks.count("leading") == 1
        assert not ("best" in marks and "near" in marks)
