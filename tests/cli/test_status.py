"""What is told of a run under way, and of one whose driver is gone."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pilotstudy.runs.folder import Run
from pilotstudy.runs.under_way import UnderWay
from tests.support import small_study
from tests.support.made_run import made
from tests.support.waiting import LONG, wait_for


@pytest.mark.parametrize("engine", ["--inline", pytest.param("--concurrency=1", marks=pytest.mark.long)])
def test_what_runs_now_and_what_a_lost_driver_leaves(tmp_path, pilotstudy, engine):
    """And the printed command works, with a name and a folder of runs that has a blank in it."""
    study, runs = small_study.prepare(tmp_path), tmp_path / "my runs"
    words = ("run", str(study), "--name", "mine", "--runs-dir", str(runs), engine)
    log = tmp_path / "log"
    with small_study.slowed(tmp_path), open(log, "wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "pilotstudy", *words], stdout=out, stderr=out)

        def running() -> dict:
            if not (runs / "mine" / "running.json").exists():
                return {}
            found = json.loads(pilotstudy("status", "mine", "--runs-dir", runs, "--json")[1])
            return found if found["under_way"] and found["under_way"][0]["epoch"] else {}

        try:
            found = wait_for(running, log.read_text, LONG, process=process)
            text = pilotstudy("status", "mine", "--runs-dir", runs)[1]
        finally:
            process.kill()
            process.wait()
    assert (found["state"], found["running"], found["trials"]) == ("running", 1, 14)
    assert found["ends"] > found["started"]
    assert f"process {process.pid} " in found["driver"]
    (trial,) = found["under_way"]
    assert (trial["phase"], trial["epochs"]) == ("arms", 30)
    assert sum(phase["running"] for phase in found["phases"]) == 1
    assert f"arms {trial['arm']} {trial['number']} " in text
    assert " of 30 " in text

    found = wait_for(
        lambda: not Run(runs / "mine").at_work() and pilotstudy("status", "mine", "--runs-dir", runs)[1], ""
    )
    assert "mine: stopped, " in found
    assert "was under way" in found
    assert "the driver was lost" in found
    line = json.loads(pilotstudy("list", "--runs-dir", runs, "--json")[1])[0]
    assert (line["state"], line["running"], line["ends"]) == ("stopped", 0, None)
    command = shlex.split(found.split("`")[1])
    assert command[0] == "pilotstudy"
    how = ["--inline"] if engine == "--inline" else []
    subprocess.run([sys.executable, "-m", *command, *how], check=True, capture_output=True)
    assert json.loads(pilotstudy("status", "mine", "--runs-dir", runs, "--json")[1])["state"] == "done"
    assert not (runs / "mine" / "running.json").exists()


def test_running_json_that_cannot_be_read_says_nothing(tmp_path):
    files = made(tmp_path / "run", points=20, most=1).files
    for content in b"", b"\xff", b"[]", b'{"format": 99}', b'{"at": 1}':
        files.running.write_bytes(content)
        assert UnderWay.of(files) is None


@pytest.mark.parametrize(
    ("folder", "variable", "expected"),
    [
        ("runs", None, "`pilotstudy resume r`"),
        ("elsewhere", None, "`pilotstudy resume r --runs-dir elsewhere`"),
        ("elsewhere", "elsewhere", "`pilotstudy resume r`"),
        ("runs", "elsewhere", "`pilotstudy resume r --runs-dir runs`"),
        ("/a b/it's", None, "`pilotstudy resume r --runs-dir '/a b/it'\"'\"'s'`"),
    ],
)
def test_a_hint_finds_the_run_in_this_shell(monkeypatch, folder, variable, expected):
    monkeypatch.delenv("PILOTSTUDY_RUNS", raising=False)
    if variable:
        monkeypatch.setitem(os.environ, "PILOTSTUDY_RUNS", variable)
    assert Run(Path(folder) / "r").files.hint("resume") == expected
