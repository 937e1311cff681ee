"""Claims of several runs beside each other: the verdicts are those that each run has by itself."""

import csv
import io
import json

import pytest

from pilotstudy.evidence.claims import judge_all
from pilotstudy.evidence.run_evidence import RunEvidence
from tests.support.command_line import refused
from tests.support.made_run import made

SHARED = {"says": "Pilot a-aug | has a <lower> NLL than vanilla", "holds": "nll: pilot-a-aug < vanilla", "section": "A"}
CLAIMS = [
    SHARED,
    {"says": "and than all others", "holds": "nll: pilot-a-aug < others", "section": "A"},
    {"says": "L2 is more accurate", "holds": "accuracy: l2 > vanilla", "section": "B"},
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("beside")
    return [
        made(folder / "first", claims=CLAIMS, search=None),
        made(folder / "second", claims=[*CLAIMS[:1], {"says": "", "holds": "ece: dropout < l2"}], search=None),
        made(folder / "none-yet", claims=CLAIMS, search=None, most=0),
    ]


@pytest.fixture
def words(runs):
    return ("claims", *(run.name for run in runs), "--runs-dir", runs[0].files.folder.parent)


def test_every_verdict_is_the_runs_own(runs, words, pilotstudy):
    records = json.loads(pilotstudy(*words, "--json")[1])
    for run in runs[:2]:
        own = [claim.record() for claim in judge_all(RunEvidence(run))]
        assert [{"run": run.name} | record for record in own] == [each for each in records if each["run"] == run.name]
    assert not [each for each in records if each["run"] == "none-yet"]
    lines = list(csv.DictReader(io.StringIO(pilotstudy(*words, "--format", "csv")[1])))
    assert [(line["run"], line["holds"], line["verdict"]) for line in lines] == [
        (each["run"], each["holds"], each["verdict"]) for each in records
    ]


def test_markdown_has_a_row_for_each_claim_and_a_column_for_each_run(runs, words, pilotstudy):
    lines = pilotstudy(*words, "--format", "markdown")[1].splitlines()
    table = [line for line in lines if line.startswith("|")]
    # Of the text in cells, a bar that a user wrote is none of the table's.
    cells = [[cell.strip() for cell in line.replace("\\|", "").strip("|").split("|")] for line in table]
    assert cells[0] == ["claim", "first", "second", "none-yet"]
    assert {len(row) for row in cells} == {4}
    assert [row[0] for row in cells[2:] if not any(row[1:])] == ["*A*", "*B*", "*other claims*"]
    by_claim = {row[0].split("<br>")[1]: row[1:] for row in cells[2:] if any(row[1:])}
    assert list(by_claim) == [f"`{claim['holds']}`" for claim in CLAIMS] + ["`ece: dropout < l2`"]
    first = judge_all(RunEvidence(runs[0]))[1]
    own, second, none = by_claim["`nll: pilot-a-aug < others`"]
    assert first.verdict in own
    assert f"{first.difference:+.3f}".replace("-", "−") in own
    assert f"beside `{first.hardest}`" in own
    assert (second, none) == ("", "")
    assert "<lower>" not in "".join(table)


def test_text_fits_and_counts(words, pilotstudy, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = pilotstudy(*words)[1]
    assert max(map(len, text.splitlines())) <= 80
    assert "first: Of 3 claims" in text
    assert "second: Of 2 claims" in text


def test_another_claim_is_asked_of_all_and_is_late(runs, words, pilotstudy):
    told = pilotstudy(*words, "--claim", "nll: dropout < vanilla", "--format", "markdown")[1]
    (line,) = [line for line in told.splitlines() if "nll: dropout < vanilla" in line]
    assert line.count("(stated after the results)") == 2
    alone = pilotstudy("claims", "first", *words[-2:], "--format", "markdown")[1]
    assert alone.splitlines()[0] == "| claim | first |"
    refused(pilotstudy(*words, "--claim", "nll: nobody < vanilla"), 2, "nobody")
    refused(pilotstudy("claims", "first", "first", *words[-2:]), 2, "given twice")
    refused(pilotstudy(*words, "--format", "pdf"), 2, "--format")
