"""Commands that read a finished run."""

import json
from typing import get_args

from pilotstudy.cli import read
from pilotstudy.metrics import recalibration
from tests.support.command_line import refused
from tests.support.made_run import made


def test_the_commands(run, pilotstudy):
    where = ("--runs-dir", run.files.folder.parent)
    code, out, _ = pilotstudy("claims", "made", *where)
    assert code == 0
    assert "HOLDS: Pilot a-aug has a lower NLL than vanilla" in out
    assert json.loads(pilotstudy("claims", "made", "--json", *where)[1])["claims"][0]["verdict"] == "holds"
    assert "pilot-a-aug@mc" in pilotstudy("compare", "made", "--metric", "nll", *where)[1]
    assert "ensemble" in pilotstudy("ensembles", "made", *where)[1]
    assert "\\begin{table}" in pilotstudy("table", "made", "--format", "latex", "--like", "paper", *where)[1]
    assert pilotstudy("table", "made", "--format", "pdf", *where)[0] == 2
    assert pilotstudy("compare", "made", "--metric", "nlll", *where)[0] == 2


def test_a_page_of_several_runs(run, pilotstudy, tmp_path, monkeypatch):
    made(tmp_path / "other", points=40, search=None, most=6)
    monkeypatch.chdir(tmp_path)
    words = ("dashboard", run.files.folder, "other", "--runs-dir", tmp_path)
    assert pilotstudy(*words)[:2] == (0, "comparison.html\n")
    assert "Compared: made, other" in (tmp_path / "comparison.html").read_text()
    assert pilotstudy(*words, "-o", tmp_path / "new" / "x.html")[1].strip() == str(tmp_path / "new" / "x.html")
    refused(pilotstudy(*words, "--live"), 2, "--live is for one run")
    refused(pilotstudy(*words, "--all"), 2, "several runs to compare, or --all")
    refused(pilotstudy(*words, "othr"), 2, "unknown run 'othr'", "did you mean 'other'")
    refused(pilotstudy(*words, tmp_path / "other"), 2, "run 'other' is given twice")
    refused(pilotstudy("dashboard"), 2, "give a run")
    refused(pilotstudy("dashboard", *["other"] * 21, "--runs-dir", tmp_path), 2, "2 to 20 runs, and these are 21")


def test_a_damaged_table_is_one_line(pilotstudy, tmp_path):
    run = made(tmp_path / "torn", points=40, most=6)
    whole = run.files.trials.read_bytes()
    run.files.all_epochs.write_bytes(b"PAR1")  # this one is not needed
    for command in "results", "table", "dashboard", "status":
        run.files.trials.write_bytes(whole[: len(whole) // 2])
        code, _, err = pilotstudy(command, "torn", "--runs-dir", str(tmp_path))
        assert (code, err.count("\n")) == (3, 1), command
        assert "trials.parquet is damaged" in err
        run.files.trials.write_bytes(whole)
        assert pilotstudy(command, "torn", "--runs-dir", str(tmp_path))[0] == 0


def test_why_trials_failed(pilotstudy, tmp_path):
    import pyarrow as pa

    from pilotstudy.runs import schemas
    from pilotstudy.runs.layout import RunFiles
    from pilotstudy.runs.schemas import trials_schema

    files = RunFiles(tmp_path / "mine")
    files.results.mkdir(parents=True)
    files.study.write_text("{}")
    rows = [
        {"phase": "arms", "arm": "vanilla", "number": 0, "key": "a", "status": "finished"},
        {"phase": "search", "arm": "dropout", "number": 2, "key": "b", "status": "failed", "error": "ValueError: no"},
        {"phase": "search", "arm": "dropout", "number": 3, "key": "c", "status": "failed", "error": "its actor died"},
    ]
    rows = [
        {"seed": 0, "settings": "{}", "reused": False, "retries": 0, "moves": 0, "evaluations": [], "reliability": []}
        | row
        for row in rows
    ]
    words = ("status", "mine", "--errors", "--runs-dir", tmp_path)
    schemas.save(files.trials, pa.Table.from_pylist(rows[:1], schema=trials_schema()))
    assert pilotstudy(*words)[:2] == (0, "no trial of mine failed\n")
    schemas.save(files.trials, pa.Table.from_pylist(rows, schema=trials_schema()))
    known = {"error": "ValueError: no", "node": "gpu-7", "traceback": "Traceback:\n  line 3\nValueError: no"}
    data, network = {"name": "fashion"}, {"name": "mlp-512"}
    trial = {"arm": "dropout", "settings": {}, "seed": 0, "data": data, "network": network, "training": {"epochs": 1}}
    result = {"trial": trial, "fingerprint": "", "status": "failed"} | known
    files.trial("b").result.write_text(json.dumps(result))
    code, out, _ = pilotstudy(*words)
    assert code == 0
    assert out.startswith("search dropout 2 on gpu-7: ValueError: no\n    Traceback:\n      line 3\n")
    assert "\nsearch dropout 3: its actor died\n    no traceback was kept\n" in out
    assert json.loads(pilotstudy(*words, "--json")[1]) == [
        {"trial": "search dropout 2", **known},
        {"trial": "search dropout 3", "error": "its actor died", "node": None, "traceback": None},
    ]
    refused(pilotstudy(*words, "--address", "http://127.0.0.1:1"), 2, "--runs-dir in place of --address")


def test_tables_comparisons_and_ensembles_are_recalibrated_as_asked(run, pilotstudy):
    where = (run.name, "--runs-dir", run.files.folder.parent)
    for name, words in recalibration.IN_WORDS.items():
        assert f"after {words}," in pilotstudy("table", *where, "--recalibrate", name)[1]
        rows = json.loads(pilotstudy("ensembles", *where, "--recalibrate", name, "--json")[1])
        assert {row["recalibration"] for row in rows} == {"none", name}
    scaled, vector = (
        json.loads(pilotstudy("compare", *where, "--metric", "nll", *words, "--json")[1])
        for words in (("--scaled",), ("--recalibrate", "vector"))
    )
    assert scaled == json.loads(
        pilotstudy("compare", *where, "--metric", "nll", "--recalibrate", "temperature", "--json")[1]
    )
    assert [row["row"] for row in scaled] == [row["row"] for row in vector]
    assert scaled != vector
    refused(pilotstudy("table", *where, "--scaled", "--recalibrate", "platt"), 2, "give one of them")
    assert get_args(read.RecalibrationName) == recalibration.RECALIBRATIONS


def test_the_cost_of_rows_is_in_the_table_when_asked(run, pilotstudy):
    where = (run.name, "--runs-dir", run.files.folder.parent)
    assert "training s" in pilotstudy("table", *where, "--cost")[1]
    assert "training s" not in pilotstudy("table", *where)[1]
