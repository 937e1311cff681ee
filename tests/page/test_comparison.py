"""The data of several runs side by side, against what the commands say of each."""

import json
import os
from itertools import combinations
from pathlib import Path

import pytest

from pilotstudy.errors import InputError
from pilotstudy.evidence.claims import judge_all
from pilotstudy.evidence.compare import compare_rows
from pilotstudy.evidence.pairs import pairs
from pilotstudy.evidence.recommendation import Gain, answer
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics.intervals import Estimate
from pilotstudy.page.comparison import comparison_data
from pilotstudy.page.overall import FEW, Against, against_in_words
from pilotstudy.report.formats import table_rows
from pilotstudy.report.table import build_table
from pilotstudy.runs.folder import Run
from pilotstudy.study.statements import Row
from tests.support.made_run import made


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    few = {"vanilla": {}, "dropout": {}, "l2": {}}
    return [
        made(folder / "first"),
        made(folder / "second", network={"name": "mlp-1024"}, training={"epochs": 3}, points=150),
        made(folder / "third", arms=few, search=None, claims=[], most=5, points=150),
    ]


@pytest.fixture(scope="module")
def data(runs):
    return comparison_data(runs)


def test_only_what_differs_heads_a_run(data):
    first, second, _ = data["runs"]
    assert (first["differs"]["network.name"], second["differs"]["network.name"]) == ("mlp-512", "mlp-1024")
    assert (first["differs"]["training.epochs"], second["differs"]["training.epochs"]) == ("6", "3")
    assert "data.name" not in first["differs"]


def test_figures_and_verdicts_are_those_of_the_commands(runs, data):
    evidence = RunEvidence(runs[0])
    shown = {line["row"]: line for line in data["runs"][0]["lines"]}
    for line in table_rows(build_table(evidence)):
        figures = [line[name] for name in ("nll", "nll_low", "nll_high", "nll_sd")]
        *parts, mark = shown[line["row"]]["nll"]
        assert parts == pytest.approx(figures, rel=1e-7)
        assert (mark == "best", mark != "") == (line["nll_best"], line["nll_may_be_best"])
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
            assert pair.winner == pair.alone == -(1 if pair.difference > 0 else -1)  # a lower NLL is better


def test_packed_pairs_are_those_of_the_run(runs, data):
    found = pairs(RunEvidence(runs[0]), ["nll"])
    entry = data["runs"][0]
    packed, both = entry["pairs"]["nll"], list(combinations(entry["paired"], 2))
    assert len(both) == len(packed["winner"]) == len(packed["difference"])
    for pair in found:
        at = both.index((str(pair.first), str(pair.second)))
        assert packed["difference"][at] == round(10_000 * pair.difference)
        assert (
            packed["winner"][at]
            == {(1, 1): "+", (-1, -1): "-", (0, 1): "p", (0, -1): "m", (0, 0): "0"}[pair.winner, pair.alone]
        )


def test_rows_are_held_against_the_reference_as_the_answer_holds_them(runs, data):
    recommended = answer(RunEvidence(runs[0]))
    difference, low, high, p, verdict = data["runs"][0]["against"]["gains"]["nll"][recommended.row]
    assert (difference, low, high) == pytest.approx((recommended.gain, recommended.low, recommended.high), rel=1e-4)
    assert (p, verdict) == (pytest.approx(recommended.p, rel=0.1), 1)
    assert data["runs"][0]["answer"] == list(recommended.sentences)


def test_runs_are_counted_in_words():
    vanilla, better, mixed, worse, open_ = (Row(arm) for arm in ("vanilla", "dropout", "l2", "swag", "mixup"))

    def run(**verdicts):
        gains = [
            Gain(Row(arm), Estimate(sign, 0, 0, 3, 0, ()), 0, 0, 0.01 if sign else 1) for arm, sign in verdicts.items()
        ]
        return Against(vanilla, {"nll": gains})

    judged = [run(dropout=-1, l2=-1, swag=1, mixup=0), run(dropout=-1, l2=1, swag=0, mixup=0)]
    said = against_in_words("nll", [better, mixed, worse, open_], [*judged, None])
    assert said == [
        "By NLL, really better than Vanilla in every run that has it: Dropout (2 of 2).",
        "By NLL, really better than Vanilla in some runs, but really worse in others: "
        "L2 (better in 1, worse in 1 of 2).",
        "Really worse in some runs, and better in none: SWAG (1 of 2).",
        "Not to be told from it in any run: Mixup.",
        "1 of 3 runs have no reference with several seeds.",
    ]


def test_of_many_rows_those_that_matter_are_shown(tmp_path):
    names = "vanilla", "pilot-a-aug", "dropout", "l2", "batchnorm", "mixup", "focal", "sam", "isda", "swag"
    many: dict[str, dict[str, object]] = {name: {} for name in names}
    few = [made(tmp_path / str(k), arms=many, search=None, claims=[], points=60, seeds=[0, k]) for k in (1, 2)]
    data = comparison_data(few)
    assert len(data["matter"]) == FEW < len(data["rows"])
    taken = {answer(RunEvidence(run)).row for run in few}
    assert taken | {"vanilla", "pilot-a-aug"} <= set(data["matter"])


def test_a_search_or_an_arm_that_is_missing_is_one_difference(data):
    first, _, third = data["runs"]
    assert (first["differs"]["searched"], third["differs"]["searched"]) == ("8 trials", "no")
    assert (first["differs"]["arms"], third["differs"]["arms"]) == ("all 4", "3, without pilot-a-aug")
    assert not any(key.startswith(("search.", "pilot-a-aug.")) for key in first["differs"])


def test_an_unfinished_run_and_missing_rows_are_told(data):
    third = data["runs"][2]
    assert (third["state"], third["done"]) == ("stopped", 5)
    assert {"pilot-a-aug", "dropout@mc@tuned"} <= {row["row"] for row in data["rows"]}
    assert "pilot-a-aug" not in third["paired"]
    json.dumps(data, allow_nan=False)


def test_one_run_or_the_same_twice_is_no_comparison(runs):
    again = Run(Path(os.path.relpath(runs[0].files.folder)))
    for wrong in runs[:1], [runs[0], runs[0]], [runs[0], again]:
        with pytest.raises(InputError):
            comparison_data(wrong)
