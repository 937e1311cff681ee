"""Studies on real, embedded Ray."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import chaos

from pilotstudy.results import Results


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("ray")
    chaos.prepare(folder)
    assert chaos.start(folder, "whole").wait(200) == 0
    return folder


def pilotstudy(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = chaos.command(folder, *map(str, words))
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)


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
    run = folder / "runs" / "whole"
    trials = Results(chaos_files(folder, "whole")).trials.to_pylist()
    assert len(trials) == 14
    assert {row["status"] for row in trials} == {"finished"}
    files = [path for path in run.rglob("*") if path.is_file()]
    assert len(files) <= 4 * 14 + 5
    frozen = json.loads((run / "study.json").read_text())
    assert frozen["provenance"]["packages"]["ray"]
    assert frozen["history"][0]["command"][1] == "run"
    assert "run" in pilotstudy(folder, "list").stdout
    for form in "table", "csv", "parquet":
        assert subprocess.run(
            chaos.command(folder, "results", "whole", "--format", form), capture_output=True, check=True
        ).stdout


def chaos_files(folder: Path, name: str):
    from pilotstudy.files import RunFiles

    return RunFiles(folder / "runs" / name)


def test_the_same_command_again_repeats_nothing_and_starts_no_ray(folder):
    since = time.monotonic()
    words = ("run", folder / "chaos.toml", "--name", "whole", "--concurrency", 1)
    done = pilotstudy(folder, *words)
    assert done.returncode == 0
    assert "14 of 14 trials were there already" in done.stderr
    more = pilotstudy(folder, *words, "--trials", 8)
    assert more.returncode == 0, more.stderr
    assert "search dropout 3" in more.stderr
    assert more.stderr.count("\n") <= 2 * 4 + 4
    assert time.monotonic() - since < 150


@pytest.mark.long
def test_killed_and_resumed_it_ends_the_same(folder):
    """Three strikes in the middle of trials; `python tests/cluster/chaos.py` goes on for longer."""
    run = chaos_files(folder, "struck").folder
    process = chaos.start(folder, "struck")
    for victim, results in ("actor", 1), ("checkpoints", 3), ("raylet", 6):
        wait_for(lambda n=results: len(list(run.glob("results/*.json"))) >= n, process)
        wait_for(lambda: list(run.glob("checkpoints/*.pt")), process)
        wait_for(lambda v=victim, pid=process.pid: chaos.strike(v, pid, run), process)
        if victim == "checkpoints":  # the driver too; Tune itself replaces an actor
            assert process.wait(120) != 0
            process = chaos.start(folder, "struck")
    if process.wait(120) != 0:  # a short study may end before anyone misses its raylet
        assert chaos.start(folder, "struck").wait(120) == 0
    whole, struck = (chaos.results(folder, name) for name in ("whole", "struck"))
    assert struck.items() <= whole.items()  # `whole` went on to a longer search
    assert len(struck) == 12
    assert not list(run.glob("checkpoints/*"))


@pytest.mark.long
def test_ctrl_c_and_stop_and_a_second_process(folder):
    process = chaos.start(folder, "calm")
    trials = chaos_files(folder, "calm").folder / "results"
    wait_for(lambda: trials.is_dir() and list(trials.glob("*.json")), process)
    second = pilotstudy(folder, "run", folder / "chaos.toml", "--name", "calm")
    assert second.returncode == 7
    assert f"process {process.pid} on " in second.stderr
    assert second.stderr.count("\n") == 1
    states = {row["run"]: row["state"] for row in json.loads(pilotstudy(folder, "list", "--json").stdout)}
    assert (states["calm"], states["whole"]) == ("running", "done")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert "resume" in (folder / "calm.log").read_text().splitlines()[-1]
    before = len(list(trials.glob("*.json")))
    process = chaos.start(folder, "calm")
    wait_for(lambda: len(list(trials.glob("*.json"))) > before, process)
    assert pilotstudy(folder, "stop", "calm").returncode == 0
    assert process.wait(60) == 8
    assert "`pilotstudy resume calm` goes on" in (folder / "calm.log").read_text().splitlines()[-1]
    resumed = pilotstudy(folder, "resume", "calm")
    assert resumed.returncode == 0, resumed.stderr
    assert chaos.results(folder, "calm").items() <= chaos.results(folder, "whole").items()
    assert pilotstudy(folder, "stop", "calm").returncode == 2


def wait_for(condition, process, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "ended too early"
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.long
def test_a_disk_that_cannot_be_written_ends_the_run_and_nothing_is_lost(folder):
    run = chaos_files(folder, "full").folder
    run.mkdir()
    (run / "predictions").write_text("in the way, as a full disk would be")
    words = ("run", folder / "chaos.toml", "--name", "full", "--concurrency", 1, "-q")
    done = pilotstudy(folder, *words)
    assert done.returncode == 6, done.stderr
    assert done.stderr.count("\n") == 1
    assert "cannot write" in done.stderr
    (run / "predictions").unlink()
    assert pilotstudy(folder, *words).returncode == 0
    assert chaos.results(folder, "full").items() <= chaos.results(folder, "whole").items()


def test_a_trial_that_runs_out_of_gpu_memory_gets_a_larger_share(tmp_path):
    from test_director import make_study

    from pilotstudy.cluster import engine
    from pilotstudy.director import Director
    from pilotstudy.runs import Run
    from pilotstudy.screen import Screen

    said = (tmp_path / "said").open("w+")
    director = Director(make_study(), Run(tmp_path / "run"), "x")
    searcher = engine.StudySearcher(director, engine.Resources(gpus=0.25), Screen(director, said))
    first = searcher.suggest("a")
    for trial_id, share in ("b", 0.5), ("c", 1.0):
        searcher.on_trial_complete(chr(ord(trial_id) - 1), {"status": "out of memory", "error": "CUDA out of memory"})
        again = searcher.suggest(trial_id)
        assert json.loads(again["work"])["key"] == json.loads(first["work"])["key"]
        assert again["gpus"] == json.loads(again["work"])["gpus"] == share
    searcher.on_trial_complete("c", {"status": "out of memory", "error": "CUDA out of memory"})
    assert director.items[0].status == "failed"
    said.seek(0)
    assert "out of GPU memory, again with 0.5 of a GPU" in said.read()


@pytest.mark.long
def test_trials_that_diverge_end_neither_the_study_nor_ray(folder):
    words = ("run", folder / "chaos.toml", "--name", "wild", "--seeds", 1, "--trials", 4)
    done = pilotstudy(folder, *words, "--set", "training.learning_rate=1e30")
    assert done.returncode == 0, done.stderr
    trials = Results(chaos_files(folder, "wild")).trials.to_pylist()
    assert [row["status"] for row in trials] == ["diverged"] * 7  # nothing to confirm
    assert "arms vanilla 0  diverged" in done.stderr


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
    trials = Results(chaos_files(folder, "early")).trials.to_pylist()
    stopped = [row for row in trials if row["status"] == "stopped"]
    assert stopped
    assert {row["phase"] for row in stopped} == {"search"}
    assert all(row["evaluations"] == [] and row["epochs"] < 40 for row in stopped)
    assert all(row["status"] == "finished" for row in trials if row["phase"] != "search")


LOOKING = """
import json, sys, time
from pathlib import Path
import ray
from test_director import CONTENT
from pilotstudy.cluster import engine
from pilotstudy.data.prepared import DataSet
from pilotstudy.director import Director
from pilotstudy.files import RunFiles, write
from pilotstudy.runs import Run
from pilotstudy.screen import Screen
from pilotstudy.spec import validate

class Looking(engine.TrialActor):
    def _step(self):
        since = time.time()
        time.sleep(4)
        node = ray.get_runtime_context().get_node_id()
        seen = [ray.get_gpu_ids(), since, time.time(), node]
        files = RunFiles(Path(self.work["folder"])).trial(self.work["key"])
        result = json.dumps({"status": "finished", "evaluations": [], "seen": seen})
        write(files.result, result)
        return {"done": True, "status": "finished", "epoch": 1, "result": result}

if __name__ == "__main__":
    folder, trials, expected, options = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
    engine.TrialActor = Looking
    run = Run(folder / "run")
    run.files.folder.mkdir()
    study = validate(CONTENT | {"seeds": list(range(trials)), "arms": {"vanilla": {}}, "search": None}, "test")
    director = Director(study, run, "x")
    address = options.pop("address", None)
    with engine.connected(address, run.files.log, **options), engine.terminal() as out:
        resources = engine.fitting(1, 0.25, None)
        assert resources.concurrency == expected, resources
        engine.execute(director, DataSet("x", (), "", *[[]] * 4), resources, Screen(director, out, True))
        try:
            engine.fitting(1, 2, None)
        except Exception as error:
            print(error)
"""


def look(folder: Path, trials: int, expected: int, environment: dict[str, str] | None = None, **options) -> list:
    """Trials at 0.25 of a GPU that tell which GPU they see, when, and on which node; `expected` at a time."""
    (folder / "looking.py").write_text(LOOKING)
    command = [sys.executable, str(folder / "looking.py"), str(folder), str(trials), str(expected), json.dumps(options)]
    here = (environment or dict(os.environ)) | {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180, env=here)
    assert done.returncode == 0, done.stderr
    assert "asks for 1 CPUs and 2 GPUs" in done.stdout
    return [json.loads(path.read_text())["seen"] for path in (folder / "run" / "results").glob("*.json")]


def at_once(seen: list) -> int:
    return max(sum(start <= moment < end for _, start, end, _ in seen) for _, moment, _, _ in seen)


@pytest.mark.long
def test_a_study_on_fractions_of_a_gpu(tmp_path):
    """Four trials at a time on one logical GPU, each seeing its device; the fifth waits."""
    seen = look(tmp_path, 5, 4, num_cpus=6, num_gpus=1)
    assert [ids for ids, *_ in seen] == [[0]] * 5
    assert at_once(seen) == 4
