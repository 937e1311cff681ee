import pytest

from pilotstudy.errors import InputError
from pilotstudy.evidence.compare import compare_rows, compare_runs
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.study.statements import Row
from tests.support import made_run
from tests.support.made_run import made


def test_comparisons_within_and_between_runs(evidence, tmp_path):
    rows = [comparison.record() for comparison in compare_rows(evidence, Row("vanilla"), ["nll", "accuracy"])]
    nll = {row["row"]: row for row in rows if row["metric"] == "nll"}
    assert nll["pilot-a-aug"]["says"] == "lower (better)"
    assert nll["pilot-a-aug"]["improvement"] == 1.0
    assert all(row["p_holm"] >= row["p"] for row in rows)
    same = next(row for row in rows if (row["metric"], row["row"]) == ("accuracy", "l2"))
    assert same["says"].startswith("no difference can be seen at this size (3 seeds, 300 test images)")
    with pytest.raises(InputError, match="has no row 'pilot-x-aug'"):
        compare_rows(evidence, Row("pilot-x-aug"), ["nll"])

    copy = made(tmp_path / "copy")
    other = made(tmp_path / "other", network={"name": "mlp-1024"})
    runs = [evidence, RunEvidence(copy), RunEvidence(other)]
    rows = [comparison.record() for comparison in compare_runs(runs, ["nll"])]
    twin = [row for row in rows if row["run"] == "copy"]
    assert {row["says"] for row in twin} == {"the same"}
    assert all(row["difference"] == 0 and row["seeds_needed"] is None for row in twin)
    assert all(row["low"] == row["high"] == 0 and row["p"] == 1 for row in twin if "tuned" not in row["row"])
    assert {row["points"] for row in rows} == {"paired"}
    assert all(row["low"] < row["difference"] < row["high"] for row in rows if row["run"] == "other")


def test_a_run_is_not_compared_with_itself(evidence):
    again = RunEvidence(evidence.run)
    with pytest.raises(InputError, match="'made' is given twice"):
        compare_runs([evidence, again], ["nll"])


def test_runs_on_other_data_are_not_tested_against_each_other(evidence, tmp_path, monkeypatch):
    monkeypatch.setattr(made_run, "FINGERPRINT", "cd" * 32)
    other = made(tmp_path / "other", points=200, data={"name": "svhn", "validation": 50})
    for comparison in compare_runs([evidence, RunEvidence(other)], ["nll"]):
        row = comparison.record()
        assert (row["points"], row["verdict"], row["p"], row["p_holm"], row["seeds_needed"]) == (
            "other",
            "other data",
            None,
            None,
            None,
        )
        assert row["says"].startswith("the data differ (svhn with 200 test images, not cifar10 with 300 test images)")
