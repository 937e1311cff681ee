"""What a page shows, found without a browser."""

import base64
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest

from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.evidence.summary import optimism
from pilotstudy.metrics import scores
from pilotstudy.page import render
from pilotstudy.page.calibration import calibration_section
from pilotstudy.page.content import page_data
from pilotstudy.page.training import turning_point
from pilotstudy.page.trials import packed_curves
from pilotstudy.report.formats import table_rows
from pilotstudy.report.table import build_table
from pilotstudy.schedule.director import Director
from pilotstudy.study import reading
from pilotstudy.study.statements import Row
from tests.support.made_run import FINGERPRINT, Maker, content


def test_the_data_need_no_torch(run):
    script = (
        "import sys; from pathlib import Path; from pilotstudy.page.content import page_data\n"
        "from pilotstudy.runs.folder import Run\n"
        f"page_data(Run(Path({str(run.files.folder)!r})))\n"
        "assert not {'torch', 'ray'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_same_results_give_the_same_bytes(run, saved):
    first = saved.read_bytes()
    assert render.page(page_data(run)).encode() == first


def test_a_resumed_run_gives_the_same_page(tmp_path):
    """It takes its trials up in another order."""
    maker = Maker(tmp_path / "again", reading.validate_study(content(), "made"), points=60)
    before = page_data(maker.make())
    resumed = Director(maker.study, maker.run, FINGERPRINT)
    assert resumed.all_done()
    resumed.save()
    after = page_data(maker.run)
    for found in before, after:
        found["trials"]["columns"].pop("reused")
    assert after == before


def test_reliability_is_the_mean_over_seeds(run):
    evidence = RunEvidence(run)
    found = {row["row"]: row for row in calibration_section(evidence)["rows"]}
    predictions = evidence.at()
    bins = []
    for log_p in predictions.rows[Row("vanilla")].values():
        bins.append(scores.binned(*scores.confidences(np.exp(log_p), predictions.labels)))
    last = [one.accuracy[-1] for one in bins]
    shown = found["vanilla"]["width"]
    assert shown["accuracy"][-1] == pytest.approx(sum(last) / 3, rel=1e-3)
    assert (shown["low"][-1], shown["high"][-1]) == pytest.approx((min(last), max(last)), rel=1e-3)
    assert shown["count"][-1] == pytest.approx(sum(one.count[-1] for one in bins) / 3, rel=1e-3)
    assert shown["accuracy"][0] is None  # an empty bin is no bin
    assert sum(found["vanilla"]["entropy"]) == pytest.approx(1, rel=1e-3)
    assert found["vanilla"]["risk"][-1] == pytest.approx(1 - found["vanilla"]["accuracy"], rel=1e-3)


def test_packed_numbers_come_back():
    several = [np.array([1.0, 2.5, np.nan, 4.0]), np.zeros(0), np.array([1e6, 3.0])]  # one gone wild, one without any
    packed = packed_curves(np.concatenate(several), [len(one) for one in several])
    steps = np.frombuffer(base64.b64decode(packed["data"]), "<u2")
    assert steps[2] == 65535
    back = packed["low"][0] + steps[[0, 1, 3]] / 65534 * (packed["high"][0] - packed["low"][0])
    np.testing.assert_allclose(back, [1, 2.5, 4], atol=1e-4)
    assert len(steps) == 6


def test_where_overfitting_starts():
    assert turning_point([np.array([2.0, 1.0, 1.05, 1.2])]) == 2
    assert turning_point([np.array([2.0, 1.0, 1.05, 1.06])]) is None
    assert turning_point([np.zeros(0)]) is None


def test_the_answer_says_what_is_real(run):
    found = page_data(run)["answer"]
    assert [card["metric"] for card in found["cards"]] == ["accuracy", "nll", "ece"]
    assert any("Pilot a-aug beside Vanilla" in text for text in found["sentences"])
    assert found["claims"][0]["verdict"] == "holds"
    assert found["sentences"][0].startswith(f"Take {found['take']}")
    for card in found["cards"]:
        assert card["real"] or " may be as good" in card["verdict"]


@pytest.mark.parametrize(("at", "scaled"), [("last", False), ("last", True), ("best", False), ("best", True)])
def test_the_page_shows_the_intervals_of_the_command(run, at, scaled):
    """For every row and metric, and the same marks."""
    shown = {line["row"]: line for line in page_data(run)["table"]["variants"][f"{at}-scaled" if scaled else at]}
    printed = table_rows(build_table(RunEvidence(run), at=at, recalibration="temperature" if scaled else "none"))
    assert {row["row"] for row in printed} <= shown.keys()
    for row in printed:
        for name in "accuracy", "nll", "ece":
            for part in "", "_sd", "_low", "_high":
                assert shown[row["row"]][name + part] == row[name + part], (row["row"], name)
            for part in "_best", "_leads", "_may_be_best":
                assert shown[row["row"]][name + part] == row[name + part], (row["row"], name)


def test_the_diagrams_have_the_figures_of_the_table(run):
    """To all digits that are shown: rounded to some and then to fewer, the last may be another."""
    rows = {row["row"]: row for row in table_rows(build_table(RunEvidence(run)))}
    for diagram in page_data(run)["calibration"]["rows"]:
        row = rows[diagram["row"]]
        for name in "ece", "accuracy":
            assert diagram[name] == pytest.approx(row[name], rel=1e-7), (diagram["row"], name)


def test_the_page_shows_the_optimism_of_the_command(run):
    assert page_data(run)["search"]["optimism"] == [asdict(gap) for gap in optimism(RunEvidence(run))]


def test_the_cards_show_the_intervals_of_the_command(run):
    rows = {row["row"]: row for row in table_rows(build_table(RunEvidence(run)))}
    for card in page_data(run)["answer"]["cards"]:
        row, name = rows[card["row"]], card["metric"]
        assert row[f"{name}_leads"]
        assert card["real"] == row[f"{name}_best"]
        assert (card["value"], card["low"], card["high"]) == (row[name], row[f"{name}_low"], row[f"{name}_high"])
