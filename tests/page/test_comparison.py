"""The data of several runs side by side, against what the commands say of each."""

import json

import pytest

from pilotstudy.errors import InputError
from pilotstudy.evidence.claims import judge_all
from pilotstudy.evidence.compare import compare_rows
from pilotstudy.evidence.pairs import pairs
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.page.comparison import comparison_data
from pilotstudy.report.formats import table_rows
from pilotstudy.report.table import build_table
from pilotstudy.study.statements import Row
from tests.support.made_run import made


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    few = {"vanilla": {}, "dropout": {}, "l2": {}}
    return [
        made(folder / "first"),
        made(folder / "second", network={"name": "mlp-1024"}, training={"epochs": 3}),
        made(folder / "third", arms=few, search=None, claims=[], most=5),
    ]


def test_only_what_differs_heads_a_run(runs):
    first, second, _ = comparison_data(runs)["runs"]
    assert (first["differs"]["network.name"], second["differs"]["network.name"]) == ("mlp-512", "mlp-1024")
    assert (first["differs"]["training.epochs"], second["differs"]["training.epochs"]) == ("6", "3")
    assert "data.name" not in first["differs"]


def test_figures_and_verdicts_are_those_of_the_commands(runs):
    data = comparison_data(runs)
    evidence = RunEvidence(runs[0])
    shown = {line["row"]: line for line in data["runs"][0]["lines"]}
    for line in table_rows(build_table(evidence)):
        for name in "nll", "nll_low", "nll_high", "nll_sd", "nll_best", "nll_may_be_best":
            assert shown[line["row"]][name] == line[name]
    [claim] = data["claims"]
    [judged] = judge_all(evidence)
    assert claim["runs"][0]["verdict"] == judged.verdict
    assert claim["runs"][0]["low"] == pytest.approx(judged.low, rel=1e-5)
    assert claim["runs"][2] is None


def test_pairs_have_the_differences_of_compare_and_are_corrected_for_all_of_them(runs):
    evidence = RunEvidence(runs[0])
    vanilla = Row("vanilla")
    found = {(p.first, p.second): p for p in pairs(evidence, ["nll"])}
    rows = evidence.figures(["nll"]).rows
    assert len(found) == len(rows) * (len(rows) - 1) // 2
    for one in compare_rows(evidence, vanilla, ["nll"]):
        pair = found.get((vanilla, one.row)) or found[one.row, vanilla]
        sign = -1 if pair.first == vanilla else 1
        assert sign * pair.difference == pytest.approx(one.difference.difference)
        assert pair.p_holm >= one.difference.p
        if pair.winner:
            assert pair.p_holm < 0.05
            assert pair.winner == -(1 if pair.difference > 0 else -1)  # a lower NLL is better


def test_an_unfinished_run_and_missing_rows_are_told(runs):
    data = comparison_data(runs)
    third = data["runs"][2]
    assert (third["state"], third["done"]) == ("stopped", 5)
    assert {"pilot-a-aug", "dropout@mc@tuned"} <= {row["row"] for row in data["rows"]}
    assert "pilot-a-aug" not in third["paired"]
    json.dumps(data, allow_nan=False)


def test_one_run_or_the_same_twice_is_no_comparison(runs):
    for wrong in runs[:1], [runs[0], runs[0]]:
        with pytest.raises(InputError):
            comparison_data(wrong)
