"""Lines and cells of a table that is written down here, in its forms."""

import numpy as np
import pytest

from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics import scores
from pilotstudy.metrics.intervals import Estimate
from pilotstudy.report import formats
from pilotstudy.report.table import Cell, Line, Table, build_table, table_notes, table_order
from pilotstudy.study.statements import Row
from tests.support.made_run import made


def figure(value: float, deviation: float = 0.02) -> Estimate:
    """Of four seeds."""
    return Estimate(value, value - 0.25, value + 0.5, 4, 0.001, ((deviation**2 / 4, 3),))


@pytest.fixture
def table() -> Table:
    lines = [
        Line(Row("vanilla"), 4, {"ece": Cell(figure(0.3), floor=0.0625)}),
        Line(Row("dropout", "mc"), 4, {"ece": Cell(figure(0.1), mark="best", floor=0.0125)}),
        Line(Row("l2", phase="confirm"), 4, {"ece": Cell(figure(0.15), mark="near")}),
        Line(Row("add-a-aug"), 4, {"ece": Cell(figure(0.15), mark="leading")}, diverged=1),
        Line(Row("sub-x-drop"), 0, {"ece": Cell(None)}),
    ]
    return Table("Made", lines, ("ece",), False, ["* is better."])


def test_the_forms_mark_the_best_figure_and_no_other_cell(table):
    markdown = formats.as_markdown(table).splitlines()
    assert markdown[2] == "|  | seeds | ECE (15 bins) | floor | 95 % |"
    assert markdown[3] == "|---|---|---|---|---|"
    assert markdown[4:9] == [
        "| Vanilla | 4 | 0.3000 ± 0.0200 | 0.0625 | 0.0500 to 0.8000 |",
        "| MC dropout | 4 | **0.1000 ± 0.0200** | 0.0125 | -0.1500 to 0.6000 |",
        "| L2, tuned | 4 | 0.1500 ± 0.0200 ≈ |  | -0.1000 to 0.6500 |",
        "| Add a-aug | 4, 1 of 5 diverged | 0.1500 ± 0.0200 ° |  | -0.1000 to 0.6500 |",
        "| Sub x-drop |  |  |  |  |",
    ]
    assert "0.1000 ± 0.0200 *" in formats.as_text(table)
    assert formats.as_latex(table).count(r"\textbf{") == 1
    assert formats.as_html(table).count("<b>") == 1


def test_plain_numbers(table):
    first, second, near, leading, last = formats.table_rows(table)
    assert (first["row"], first["seeds"]) == ("vanilla", 4)
    assert (first["ece"], first["ece_sd"]) == pytest.approx((0.3, 0.02))
    assert (first["ece_low"], first["ece_high"]) == pytest.approx((0.05, 0.8))
    assert (first["ece_noise_floor"], first["ece_best"], first["ece_may_be_best"]) == (0.0625, False, False)
    assert (second["row"], second["mode"], second["ece_best"]) == ("dropout@mc", "mc", True)
    assert (second["ece_leads"], near["ece_leads"], leading["ece_leads"]) == (True, False, True)
    assert (second["ece_may_be_best"], near["ece_may_be_best"], leading["ece_may_be_best"]) == (True, True, True)
    assert (first["diverged"], leading["diverged"]) == (0, 1)
    assert last["ece"] is last["ece_high"] is last["ece_sd"] is None


def test_the_order_of_rows():
    rows = "dropout@tuned ensemble pilot-a-aug@mc@tuned vanilla dropout@mc dropout"
    found = table_order(list(map(Row.parse, rows.split())))
    expected = "vanilla dropout dropout@mc ensemble dropout@tuned pilot-a-aug@mc@tuned"
    assert " ".join(map(str, found)) == expected


def test_one_row_of_one_network_is_enough_for_the_note():
    lines = [Line(Row("vanilla"), seeds, {}) for seeds in (3, 1)]
    assert any("Rows of one network" in note for note in table_notes(lines, None))
    assert not any("Rows of one network" in note for note in table_notes(lines[:1], None))


def test_a_table_of_scaled_figures_at_the_best_epoch(tmp_path):
    run = made(tmp_path / "made", points=80, seeds=[0, 1], search=None, arms={"vanilla": {}, "l2": {}})
    evidence = RunEvidence(run)
    figures = {}
    for scaled in False, True:
        for at in "last", "best":
            recalibration = "temperature" if scaled else "none"
            found = build_table(evidence, metrics=("nll",), at=at, recalibration=recalibration, resamples=50)
            figures[at, scaled] = {str(line.row): line.cells["nll"].ours.value for line in found.lines}
            assert ("after temperature scaling" in found.title) == scaled
            assert f"at the {at} epoch" in found.title
    for (at, scaled), by_row in figures.items():
        nll = []
        for trial in evidence.trials:
            if trial.row.arm == "vanilla":
                test = trial.predictions[at, "point"].test
                t = scores.fit_temperature(test.logits, test.labels) if scaled else 1.0  # validation is test here
                log_p = scores.log_probabilities(test.logits, t)
                nll.append(-log_p[np.arange(80), test.labels].mean())
        assert len(nll) == 2
        assert by_row["vanilla"] == pytest.approx(np.mean(nll), abs=1e-6)
    assert figures["last", True]["vanilla"] < figures["last", False]["vanilla"]
