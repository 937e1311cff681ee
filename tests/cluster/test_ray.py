"""Studies on real, embedded Ray."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from pilotstudy.runs.layout import RunFiles
from pilotstudy.runs.results import Results
from tests.support import small_study
from tests.support.drivers import at_once, look
from tests.support.waiting import LONG, wait_for


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("ray")
    small_study.prepare(folder)
    assert small_study.start(folder, "whole").wait(LONG) == 0
    return folder


def files_of(folder: Path, name: str) -> RunFiles:
    return RunFiles(folder / "runs" / name)


def pilotstudy(folder: Path, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command, here = small_study.command(folder, *map(str, words)), os.environ | environment
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONG, env=here)


def test_a_study_ends_with_an_answer(folder):
    done = pilotstudy(folder, "results", "whole", "--json")
    rows = json.loads(done.stdout)
    assert {(row["arm"], row["phase"]) for row in rows["results"]} == {
        ("vanilla", "arms"),
        ("pilot-a-aug", "arms"),
        ("dropout", "arms"),
        ("pilot-a-aug", "confirm"),
        ("dropout", "confirm"),
    }
    assert len(rows["optimism"]) == 2
    own = [row["surprise"] for row in rows["results"]]  # a metric of the study's own
    assert own == pytest.approx([row["nll"] / 2 for row in rows["results"]])
    run = folder / "runs" / "whole"
    trials = Results(files_of(folder, "whole")).trials.to_pylist()
    assert len(trials) == 14
    assert {row["status"] for row in trials} == {"finished"}
    searched = {json.loads(row["settings"])["training.learning_rate"] for row in trials if row["phase"] == "search"}
    assert len(searched) > 3
    assert 0.01 in searched
    files = [path for path in run.rglob("*") if path.is_file()]
    assert len(files) <= 4 * 14 + 5
    frozen = json.loads((run / "study.json").read_text())
    assert frozen["provenance"]["packages"]["ray"]
    assert frozen["history"][0]["command"][1] == "run"
    assert "\nwhole " in pilotstudy(folder, "list").stdout
    for form in ("parquet",):
        assert subprocess.run(
            small_study.command(folder, "results", "whole", "--format", form), capture_output=True, check=True
        ).stdout


def test_the_same_command_again_repeats_nothing_and_starts_no_ray(folder):
    words = ("run", folder / "chaos.toml", "--name", "whole", "--concurrency", 1)
    session = folder / "session"
    session.mkdir()
    done = pilotstudy(folder, *words, RAY_TMPDIR=str(session))
    assert done.returncode == 0
    assert not list(session.iterdir())  # Ray would have written there before all else
    assert "14 of 14 trials were there already" in done.stderr


@pytest.mark.long
def test_more_trials_go_into_the_same_run(folder):
    words = ("run", folder / "chaos.toml", "--name", "whole", "--concurrency", 1)
    more = pilotstudy(folder, *words, "--trials", 8)
    assert more.returncode == 0, more.stderr
    assert "search dropout 3" in more.stderr
    assert more.stderr.count("\n") <= 2 * 4 + 4


@pytest.mark.long
def test_killed_and_resumed_it_ends_the_same(folder):
    """Three strikes in the middle of trials; `python tests/cluster/chaos.py` goes on for longer."""
    run = files_of(folder, "struck").folder
    with small_study.slowed(folder):
        process = small_study.start(folder, "struck")
        for victim, results in ("actor", 1), ("checkpoints", 3), ("raylet", 6):
            wait_for(
                lambda n=results: len(list(run.glob("results/*.json"))) >= n,
                f"{results} results",
                LONG,
                process=process,
            )
            wait_for(lambda: list(run.glob("checkpoints/*.pt")), "a checkpoint", LONG, process=process)
            wait_for(lambda v=victim, pid=process.pid: small_study.strike(v, pid, run), victim, LONG, process=process)
            if victim == "checkpoints":  # the driver too; Tune itself replaces an actor
                assert process.wait(LONG) != 0
                process = small_study.start(folder, "struck")
    if process.wait(LONG) != 0:  # a short study may end before anyone misses its raylet
        assert small_study.start(folder, "struck").wait(LONG) == 0
    whole, struck = (small_study.results(folder, name) for name in ("whole", "struck"))
    assert struck.items() <= whole.items()  # `whole` went on to a longer search
    assert len(struck) == 12
    assert not list(run.glob("checkpoints/*"))


@pytest.mark.long
def test_ctrl_c_and_stop_and_a_second_process(folder):
    with small_study.slowed(folder):
        process = small_study.start(folder, "calm")
        trials = files_of(folder, "calm").folder / "results"
        wait_for(lambda: list(trials.glob("*.json")), "a result", LONG, process=process)
        process.send_signal(signal.SIGSTOP)  # so that it is at work for as long as we look
        second = pilotstudy(folder, "run", folder / "chaos.toml", "--name", "calm")
        assert second.returncode == 7
        assert f"process {process.pid} on " in second.stderr
        assert second.stderr.count("\n") == 1
        states = {row["run"]: row["state"] for row in json.loads(pilotstudy(folder, "list", "--json").stdout)}
        assert (states["calm"], states["whole"]) == ("running", "done")
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGINT)
        assert process.wait(LONG) == 130
        assert "resume" in (folder / "calm.log").read_text().splitlines()[-1]
        before = len(list(trials.glob("*.json")))
        process = small_study.start(folder, "calm")
        wait_for(lambda: len(list(trials.glob("*.json"))) > before, "another result", LONG, process=process)
        process.send_signal(signal.SIGSTOP)
        assert pilotstudy(folder, "stop", "calm").returncode == 0
        process.send_signal(signal.SIGCONT)
        assert process.wait(LONG) == 8
    assert (
        f"`pilotstudy resume calm --runs-dir {folder / 'runs'}` goes on"
        in (folder / "calm.log").read_text().splitlines()[-1]
    )
    resumed = pilotstudy(folder, "resume", "calm")
    assert resumed.returncode == 0, resumed.stderr
    calm = small_study.results(folder, "calm")
    assert len(calm) == 12
    assert calm.items() <= small_study.results(folder, "whole").items()
    assert pilotstudy(folder, "stop", "calm").returncode == 2


@pytest.mark.long
def test_a_disk_that_cannot_be_written_ends_the_run_and_nothing_is_lost(folder):
    run = files_of(folder, "full").folder
    run.mkdir()
    (run / "predictions").write_text("in the way, as a full disk would be")
    words = ("run", folder / "chaos.toml", "--name", "full", "--concurrency", 1, "-q")
    done = pilotstudy(folder, *words)
    assert done.returncode == 6, done.stderr
    assert done.stderr.count("\n") == 1
    assert "cannot write" in done.stderr
    (run / "predictions").unlink()
    assert pilotstudy(folder, *words).returncode == 0
    full = small_study.results(folder, "full")
    assert len(full) == 12
    assert full.items() <= small_study.results(folder, "whole").items()


@pytest.mark.long
def test_trials_that_diverge_end_neither_the_study_nor_ray(folder):
    words = ("run", folder / "chaos.toml", "--name", "wild", "--seeds", 1, "--trials", 4)
    done = pilotstudy(folder, *words, "--set", "training.learning_rate=1e30")
    assert done.returncode == 4, done.stderr
    trials = Results(files_of(folder, "wild")).trials.to_pylist()
    assert [row["status"] for row in trials] == ["diverged"] * 7  # nothing to confirm
    assert "7 of 7 trials diverged" in done.stderr
    assert "arms vanilla 0  diverged" in done.stderr


@pytest.mark.long
def test_impossible_requests_are_refused_before_anything_starts(folder):
    words = ("run", folder / "chaos.toml", "--name", "greedy")
    done = pilotstudy(folder, *words, "--cpus-per-trial", 64)
    assert done.returncode == 2
    assert "asks for 64 CPUs" in done.stderr
    assert not list((folder / "runs" / "greedy").glob("results/*"))
    assert pilotstudy(folder, *words, "--gpus-per-trial", 0.3).returncode == 2
    assert pilotstudy(folder, "resume", "nope").returncode == 2


@pytest.mark.long
def test_early_stopping_prunes_and_does_not_count(folder):
    words = ("run", folder / "chaos.toml", "--name", "early", "--set", "search.early_stopping=true", "--trials", 16)
    done = pilotstudy(folder, *words, "-q")
    assert done.returncode == 0, done.stderr
    trials = Results(files_of(folder, "early")).trials.to_pylist()
    stopped = [row for row in trials if row["status"] == "stopped"]
    assert stopped
    assert {row["phase"] for row in stopped} == {"search"}
    assert all(row["evaluations"] == [] and row["epochs"] < 30 for row in stopped)
    assert all(row["status"] == "finished" for row in trials if row["phase"] != "search")


@pytest.mark.long
def test_a_study_on_fractions_of_a_gpu(tmp_path):
    """Four trials at a time on one logical GPU, each seeing its device; the fifth waits."""
    seen = look(tmp_path, 5, 4, num_cpus=6, num_gpus=1)
    assert [ids for ids, *_ in seen] == [[0]] * 5
    assert at_once(seen) == 4
