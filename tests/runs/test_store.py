"""Runs on an object store, over HTTP, against a server that the test starts."""

import json

import pytest

from pilotstudy import storage
from pilotstudy.errors import InputError
from pilotstudy.evidence.claims import judge_all
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.page.content import page_data
from pilotstudy.runs.results import Results
from pilotstudy.study import reading
from tests.support.made_run import Maker, content


@pytest.mark.long
def test_a_run_on_a_store_reads_as_one_on_a_disk(bucket, tmp_path, pilotstudy):
    study = reading.validate_study(content(), "made")
    here = Maker(tmp_path / "made", study, points=80).make()
    there = Maker(storage.place(bucket) / "made", study, points=80)
    there.run.files.folder.mkdir(parents=True, exist_ok=True)
    remote = there.make()
    assert Results(remote.files).trials == Results(here.files).trials
    assert Results(remote.files).epochs == Results(here.files).epochs
    assert judge_all(RunEvidence(remote)) == judge_all(RunEvidence(here))
    pages = [page_data(run) for run in (here, remote)]
    for page in pages:
        page["made"].pop("started")
        page["run"].pop("since")
        page["run"].pop("started")
    texts = [json.dumps(page) for page in pages]  # commands name the folder
    assert texts[0].replace(str(tmp_path), "RUNS") == texts[1].replace(bucket, "RUNS")
    where = ("--runs-dir", bucket)
    assert [row["run"] for row in json.loads(pilotstudy("list", "--json", *where)[1])] == ["made"]
    assert "HOLDS" in pilotstudy("claims", f"{bucket}/made")[1]
    assert "Vanilla" in pilotstudy("table", "made", *where)[1]
    assert pilotstudy("dashboard", "made", *where)[1].strip() == f"{bucket}/made/dashboard.html"
    assert pilotstudy("results", "nope", *where)[0] == 2


def test_a_store_that_is_not_there_is_one_line(bucket, pilotstudy, monkeypatch):
    code, _, err = pilotstudy("list", "--runs-dir", "nonsense://x")
    assert code == 2
    assert err.count("\n") == 1
    with pytest.raises(InputError):
        storage.place("nonsense://x")
