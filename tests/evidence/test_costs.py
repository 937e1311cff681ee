"""What rows cost, as results, tables and ensembles say it."""

import json
from statistics import fmean

import pytest

from pilotstudy.evidence.costs import HEADINGS, Cost, costs, sampled_cost, total
from pilotstudy.evidence.ensembles import ensemble_figures
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.evidence.summary import summary
from pilotstudy.report.formats import FORMATS, table_rows
from pilotstudy.report.table import build_table
from pilotstudy.study.statements import Row
from tests.support.made_run import made


@pytest.fixture(scope="module")
def evidence(tmp_path_factory) -> RunEvidence:
    """One whose Pilot has a DGM of 300 parameters."""
    run = made(tmp_path_factory.mktemp("costs") / "made", points=60)
    for row in RunEvidence(run).finished:
        if row.arm == "pilot-a-aug":
            path = run.files.trial(row.key).result
            result = json.loads(path.read_text())
            result["parameters"] = {"network": 1000, "dgm": 250, "other": 50}
            path.write_text(json.dumps(result))
    return RunEvidence(run)


def seconds(evidence: RunEvidence, arm: str, phase: str = "arms") -> list[float]:
    return [row.training_seconds for row in evidence.finished if (row.arm, row.phase) == (arm, phase)]


def test_a_row_costs_what_one_network_does_and_an_ensemble_what_its_members_do(evidence):
    found = costs(evidence)
    pilot = fmean(seconds(evidence, "pilot-a-aug"))
    assert found[Row("pilot-a-aug")] == Cost(1000, 300, pytest.approx(pilot), 1)
    assert found[Row("pilot-a-aug", "mc")] == Cost(1000, 300, pytest.approx(pilot), 10)
    assert found[Row("pilot-a-aug", "seeds")] == Cost(3000, 900, pytest.approx(3 * pilot), 3)
    tuned = fmean(seconds(evidence, "dropout", "confirm"))
    assert found[Row("dropout", "mc", "confirm")] == Cost(1000, 0, pytest.approx(tuned), 10)
    members = sum(fmean(seconds(evidence, arm)) for arm in ("vanilla", "dropout", "l2"))
    assert found[Row("ensemble", "ensemble")] == Cost(3000, 0, pytest.approx(members), 3)
    assert Row("vanilla", "mc") not in found


def test_sampled_predictions_cost_what_their_trial_says():
    point = Cost(1000, 0, 2.0, 1)
    assert sampled_cost(point, {"passes": 20, "weights": 20}) == Cost(20_000, 0, 2.0, 20)
    assert sampled_cost(point, {"passes": 10, "weights": 1}) == sampled_cost(point, {}) == Cost(1000, 0, 2.0, 10)
    assert sampled_cost(Cost(), {}) == Cost()


def test_what_is_not_known_of_a_member_is_not_known_of_the_ensemble():
    assert total([Cost(10, 0, 2.0, 1), Cost(10, None, 3.0, 1)]) == Cost(20, None, 5.0, 2)


def test_results_tables_and_ensembles_say_the_same(evidence):
    expected = {str(row): cost.record() for row, cost in costs(evidence).items()}
    table = build_table(evidence, with_cost=True)
    records = table_rows(table) + [line.record() for line in ensemble_figures(evidence)]
    records += [line.record() | {"row": str(Row(line.arm, line.mode, line.phase))} for line in summary(evidence)]
    for record in records:
        assert {name: record[name] for name in HEADINGS} == expected[record["row"]]
    assert not {*HEADINGS} & {*table_rows(build_table(evidence))[0]}


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "html"])
def test_every_form_of_a_table_has_the_columns_when_asked(evidence, form):
    plain, full = (FORMATS[form](build_table(evidence, with_cost=cost, metrics=["nll"])) for cost in (False, True))
    heading = "arm&#x27;s own" if form == "html" else "arm's own"
    assert (heading in plain, heading in full) == (False, True)
    line = next(line for line in full.splitlines() if "Pilot MC a-aug" in line)
    assert "1,000" in line
    assert "300" in line
    if form == "latex":
        columns = next(line for line in full.splitlines() if "begin{tabular}" in line).split("{")[-1].rstrip("}")
        assert {row.count("&") for row in full.splitlines() if row.endswith("\\\\")} == {len(columns) - 1}
    if form == "markdown":
        assert len({row.count("|") for row in full.splitlines() if row.startswith("|")}) == 1
