"""What fails that is not a trial's own: memory, GPUs, nodes. On real, embedded Ray and real clusters."""

import json
import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import chaos

from pilotstudy.files import RunFiles

HOG = """
import sys, time
block = bytearray(int(sys.argv[1]))
block[::4096] = b"x" * len(block[::4096])
print("full", flush=True)
time.sleep(float(sys.argv[2]))
"""


def used_and_total() -> tuple[int, int]:
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    kib = {name: int(lines[name].split()[0]) for name in ("MemTotal", "MemAvailable")}
    return 1024 * (kib["MemTotal"] - kib["MemAvailable"]), 1024 * kib["MemTotal"]


@pytest.mark.long
def test_a_machine_whose_memory_another_program_fills_loses_nothing(tmp_path):
    """Ray's memory monitor ends the actors. They come back, fewer at once, and the study ends as it would have."""
    chaos.prepare(tmp_path)
    study = tmp_path / "chaos.toml"
    study.write_text(study.read_text().replace("epochs = 40", "epochs = 150"))
    assert chaos.start(tmp_path, "calm").wait(300) == 0
    used, total = used_and_total()
    gib = 2**30
    environment = os.environ | {
        "RAY_memory_usage_threshold": str((used + 3 * gib) / total),
        "RAY_memory_monitor_refresh_ms": "100",
    }
    run = RunFiles(tmp_path / "runs" / "full")
    words = chaos.command(tmp_path, "run", str(study), "--name", "full")
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while len(list(run.checkpoints.glob("*.pt"))) < 2:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    hog = subprocess.Popen([sys.executable, "-c", HOG, str(4 * gib), "6"], stdout=subprocess.PIPE, text=True)
    assert hog.stdout.readline() == "full\n"
    _, said = process.communicate(timeout=300)
    hog.wait()
    assert process.returncode == 0, said
    assert "memory is nearly full and Ray ended a trial" in said
    assert "one trial at a time" in said
    assert all(len(line) < 200 for line in said.splitlines())
    calm, full = (chaos.results(tmp_path, name) for name in ("calm", "full"))
    fixed = [key for key, one in calm.items() if one["trial"]["settings"].get("rate", 0.5) == 0.5 and key in full]
    assert len(fixed) >= 6
    assert all(full[key] == calm[key] for key in fixed)
    assert len(full) == 12
    assert {json.loads(path.read_text())["status"] for path in run.results.glob("*.json")} == {"finished"}


@pytest.mark.long
def test_a_study_whose_first_trials_all_fail_alike_stops_with_that_reason(tmp_path):
    chaos.prepare(tmp_path)
    words = chaos.command(
        tmp_path, "run", str(tmp_path / "chaos.toml"), "--name", "bad", "--set", "data.validation=5000"
    )
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 8, done.stderr
    last = done.stderr.splitlines()[-1]
    assert "the first 3 trials all failed alike: InputError: data.validation = 5000" in last
    assert "status bad --errors" in last
    assert len(list((tmp_path / "runs" / "bad" / "results").glob("*.json"))) <= 4  # of 14
    shown = subprocess.run(
        chaos.command(tmp_path, "status", "bad", "--errors"), capture_output=True, text=True, check=True
    )
    assert "Traceback" in shown.stdout
    assert "splits.py" in shown.stdout
    assert "arms vanilla 0" in shown.stdout


# The study's driver with one thing in it changed, as a script: what is patched here is patched in the actors too.
DRIVER = """
import json, os, sys, time
from pathlib import Path
import ray
from pilotstudy import checkpoint, spec
from pilotstudy.cluster import engine
from pilotstudy.data.prepared import load
from pilotstudy.director import Director
from pilotstudy.runs import Run
from pilotstudy.running import Limits
from pilotstudy.screen import Screen

class Changed(engine.TrialActor):
    def _step(self):
        {change}
        return super()._step()

if __name__ == "__main__":
    study, folder, options = spec.load(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
    engine.TrialActor = Changed
    run, data = Run(folder), load(study.data.name)
    run.files.folder.mkdir(parents=True, exist_ok=True)
    director = Director(study, run, data.fingerprint)
    engine.capacity.MINUTE = options.pop("minute", 60)
    gpus, limits = options.pop("gpus", 0), Limits(**options.pop("limits", {{}}))
    with engine.connected(options.pop("address", None), run.files.log, **options), engine.terminal() as out:
        resources = engine.fitting(1, gpus, None, director.total)
        print("at once", resources.concurrency, "each", resources.gpus, file=out)
        with Screen(director, out) as screen:
            ended = engine.execute(director, data, resources, screen, limits)
            print("ended", ended.stopping, type(ended.error).__name__, ended.error, file=out)
"""


def drive(folder: Path, change: str, environment: dict[str, str] | None = None, **options) -> subprocess.Popen[str]:
    if not (folder / "chaos.toml").exists():
        chaos.prepare(folder)
    (folder / "driver.py").write_text(DRIVER.format(change=change))
    words = [
        sys.executable,
        str(folder / "driver.py"),
        str(folder / "chaos.toml"),
        str(folder / "run"),
        json.dumps(options),
    ]
    here = (environment or dict(os.environ)) | {"PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.Popen(words, env=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.long
def test_a_gpu_that_cannot_be_used_ends_the_study_and_never_trains_on_the_cpu(tmp_path):
    """A logical GPU with no card behind it, as with a driver that is too old."""
    said, _ = drive(tmp_path, "pass", num_gpus=1, num_cpus=2, gpus=0.5).communicate(timeout=200)
    assert "ended sick NotDoneError no node is left that can train" in said, said
    assert "cuda was asked for and cannot be used" in said
    assert "needs NVIDIA's driver" in said
    assert not list((tmp_path / "run" / "results").glob("*.json"))


def test_small_shares_are_spread_over_all_gpus():
    from pilotstudy.cluster.capacity import MOST_ON_A_GPU, concurrency, share_for, spread
    from pilotstudy.cluster.engine import Resources

    four = [{"CPU": 8.0, "GPU": 4.0}]
    assert spread(1 / 93, four, 1, 1000) == 1 / 2  # eight trials: two on each
    assert spread(0.25, [{"CPU": 96.0, "GPU": 8.0}], 1, 1000) == 0.25
    assert spread(0.125, [{"CPU": 96.0, "GPU": 8.0}], 1, 8) == 1.0  # eight trials in all: one on each
    assert spread(0.25, [{"CPU": 4.0, "GPU": 1.0}] * 4, 1, 1000) == 0.25
    assert spread(0.25, [{"CPU": 2.0, "GPU": 4.0}], 1, 1000) == 1.0
    assert (spread(0, four, 1, 9), spread(1, four, 1, 9), spread(0.5, [], 1, 9)) == (0, 1, 0.5)
    gib = 2**30
    assert share_for(0.7 * gib, 80 * gib) == 1 / MOST_ON_A_GPU
    assert share_for(0.7 * gib, 4 * gib) == 1 / 2  # its context counts
    assert share_for(30 * gib, 24 * gib) == 1
    grown = Resources(1, 0.25, 1, None, autoscaled=True)
    assert concurrency(grown, [], 10) == 10
    assert concurrency(grown, [], 1000) == 64
    assert concurrency(Resources(1, 0.25, 1, 8, autoscaled=True), [{"CPU": 64.0, "GPU": 64.0}], 1000) == 8
    assert concurrency(Resources(1, 0.25), [{"CPU": 4.0, "GPU": 1.0}], 1000) == 4


def make_searcher(folder: Path, **resources):
    from test_director import make_study

    from pilotstudy.cluster import engine
    from pilotstudy.director import Director
    from pilotstudy.runs import Run
    from pilotstudy.screen import Screen

    out = (folder / "said").open("w+")
    director = Director(make_study(), Run(folder / "run"), "x")
    searcher = engine.StudySearcher(director, engine.Resources(**resources), Screen(director, out))
    searcher.nobody_left = lambda: False
    return searcher, lambda: (out.seek(0), out.read())[1]


def fault(node: str, error: str = "RuntimeError: CUDA error: ECC", kind: str = "node"):
    from ray.exceptions import RayTaskError

    from pilotstudy.cluster.actor import NodeFault

    told = {"node": node, "host": f"host-{node}", "gpu": "0", "error": error, "traceback": "Traceback ..", "kind": kind}
    return RayTaskError("step", "Traceback ..", NodeFault(told))


def test_a_sick_gpu_does_not_eat_the_study(tmp_path):
    searcher, said = make_searcher(tmp_path, concurrency=1)
    first = json.loads(searcher.suggest("0")["work"])["key"]
    for number in range(3):
        searcher.cause = fault("sick")
        searcher.on_trial_complete(str(number), error=True)
        again = searcher.suggest(str(number + 1))
        assert json.loads(again["work"])["key"] == first  # it goes elsewhere, and is not failed
        assert again["avoid"] == ("sick" if number == 2 else "")
    assert "host-sick, GPU 0 failed 3 trials in a row and gets no more: RuntimeError: CUDA error: ECC" in said()
    for number in range(3, 6):
        searcher.cause = fault(f"other{number}", f"RuntimeError: CUDA error: {'abcdef'[number]}")  # not all alike
        searcher.on_trial_complete(str(number), error=True)
        searcher.suggest(str(number + 1))
    item = searcher.director.items[0]
    assert item.status == "failed"  # six nodes cannot all be sick
    assert searcher.director.run.result(item.key)["traceback"] == "Traceback .."
    assert not searcher.stopping


def test_the_same_fault_on_several_nodes_and_no_success_stops_the_study(tmp_path):
    """A broken image, on a cluster whose autoscaler would bring one such node after the other."""
    searcher, _ = make_searcher(tmp_path, concurrency=20, autoscaled=True)
    for number in range(6):
        searcher.suggest(str(number))
    for number in range(6):
        assert not searcher.stopping
        searcher.cause = fault(f"node{number % 2}", f"DeviceError: driver 55{number}")
        searcher.on_trial_complete(str(number), error=True)
    assert searcher.stopping == "sick"
    assert "no trial has ended well, and 6 failed alike: DeviceError: driver 555" in str(searcher.error)


def test_a_larger_share_is_kept_and_other_faults_do_not_use_it_up(tmp_path):
    searcher, _ = make_searcher(tmp_path, concurrency=1, gpus=0.25)
    out_of_memory = {"status": "out of memory", "error": "CUDA out of memory"}
    shares = [searcher.suggest("0")["gpus"]]
    for number, told in enumerate([None, out_of_memory, None, out_of_memory]):
        searcher.cause = None if told else fault("a")
        searcher.on_trial_complete(str(number), told, error=told is None)
        shares.append(searcher.suggest(str(number + 1))["gpus"])
    assert shares == [0.25, 0.25, 0.5, 0.5, 1.0]


def test_steps_that_cannot_be_captured_are_ordinary_in_another_process(tmp_path):
    searcher, _ = make_searcher(tmp_path, concurrency=1)
    assert json.loads(searcher.suggest("0")["work"])["graph"]
    searcher.cause = fault("n", "CaptureError: not permitted", "capture")
    searcher.on_trial_complete("0", error=True)
    assert not json.loads(searcher.suggest("1")["work"])["graph"]
    assert searcher.director.items[0].retries == 0


def test_proposals_do_not_run_ahead_of_what_is_learnt(tmp_path):
    """However many trials an autoscaler is asked for."""
    searcher, _ = make_searcher(tmp_path, concurrency=64, autoscaled=True)
    suggested = [searcher.suggest(str(number)) for number in range(12)]
    assert [bool(one) for one in suggested] == [True] * 7 + [False] * 5  # the fixed arms, and one more
    searcher.running |= {str(number) for number in range(7)}
    assert [bool(searcher.suggest(f"b{number}")) for number in range(6)] == [True] * 4 + [False] * 2


def test_a_note_that_cannot_be_written_ends_the_run_and_no_trial_is_forgotten(tmp_path):
    searcher, _ = make_searcher(tmp_path, concurrency=1)
    searcher.suggest("0")
    (tmp_path / "run").mkdir(exist_ok=True)
    (tmp_path / "run" / "results").write_text("in the way")
    searcher.on_trial_complete("0", {"status": "failed", "error": "x"})
    assert searcher.stopping == "storage"
    assert "cannot write" in str(searcher.error)


def test_failures_of_one_arm_do_not_stop_the_others(tmp_path):
    searcher, _ = make_searcher(tmp_path, concurrency=1)
    for number in range(2):
        searcher.suggest(str(number))
        searcher.on_trial_complete(str(number), {"status": "failed", "error": "ValueError: no"})
    assert not searcher.stopping
    searcher.suggest("2")  # of another arm
    searcher.on_trial_complete("2", {"status": "failed", "error": "ValueError: no"})
    assert searcher.stopping == "alike"


def test_memory_halves_and_doubles(monkeypatch):
    from pilotstudy.cluster import searcher

    now = [1000.0]
    monkeypatch.setattr(searcher.time, "monotonic", lambda: now[0])
    memory = searcher.Memory()
    assert memory.limit(64) == 64
    assert "32 trials at a time" in memory.killed(64)
    assert memory.killed(64) == ""  # ended at the same moment
    assert memory.limit(64) == 0  # a pause first
    now[0] += 10
    assert memory.limit(64) == 32
    now[0] += 10
    assert "16 trials" in memory.killed(64)
    now[0] += 130
    assert memory.limit(64) == 32
    now[0] += 130
    assert memory.limit(64) == 64
    for _ in range(8):
        now[0] += 10
        memory.killed(64)
    assert memory.most == 1
    assert not memory.hopeless()
    for _ in range(40):
        now[0] += 61
        memory.killed(64)
    assert memory.hopeless()


@pytest.mark.long
def test_a_process_that_keeps_dying_is_told_and_ends_the_study(tmp_path):
    """A crash in a library in C, where no exception says anything; on the only node there is."""
    since = time.monotonic()
    said, _ = drive(tmp_path, "os.kill(os.getpid(), 9)", num_cpus=1).communicate(timeout=200)
    assert "ended sick NotDoneError no node is left that can train" in said, said
    assert "its process died" in said
    assert time.monotonic() - since < 150


def test_a_success_makes_a_gpu_well_again(tmp_path):
    searcher, _ = make_searcher(tmp_path, concurrency=1)
    for number in range(6):
        work = json.loads(searcher.suggest(str(number))["work"])
        if number % 3 == 2:
            result = {"status": "finished", "evaluations": [], "trial": work["trial"]}
            path = searcher.director.run.files.trial(work["key"]).result
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(result))
            told = {"status": "finished", "result": json.dumps(result), "node": "n", "gpu": "0", "host": "h"}
            searcher.on_trial_complete(str(number), told)
        else:
            searcher.cause = fault("n")
            searcher.on_trial_complete(str(number), error=True)
    assert not searcher.avoided


def test_when_no_node_is_left_the_study_stops_with_the_reason(tmp_path):
    searcher, _ = make_searcher(tmp_path, concurrency=1)
    searcher.nobody_left = lambda: True
    for number in range(3):
        searcher.suggest(str(number))
        searcher.cause = fault("n")
        searcher.on_trial_complete(str(number), error=True)
    assert searcher.stopping == "sick"
    assert "host-n, GPU 0: RuntimeError: CUDA error: ECC" in str(searcher.error)


def test_a_context_that_does_not_fit_gets_a_larger_share(tmp_path):
    searcher, said = make_searcher(tmp_path, concurrency=1, gpus=0.25)
    searcher.suggest("0")
    searcher.cause = fault("n", "AcceleratorError: CUDA error: out of memory", "out of memory")
    searcher.on_trial_complete("0", error=True)
    assert searcher.suggest("1")["gpus"] == 0.5
    assert "again with 0.5 of a GPU" in said()


def test_which_errors_are_not_the_trials_own():
    import errno

    import torch

    from pilotstudy.cluster.actor import is_of_the_node, is_out_of_memory
    from pilotstudy.errors import DeviceError, InputError

    of_the_node = [
        DeviceError("cuda was asked for"),
        torch.AcceleratorError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
        OSError(errno.EIO, "Input/output error"),
        MemoryError(),
    ]
    own = [
        ValueError("x"),
        RuntimeError("shape mismatch"),
        InputError("x"),
        FileNotFoundError(2, "no file"),
        KeyError("a"),
    ]
    assert [is_of_the_node(error) for error in of_the_node] == [True] * 5
    assert [is_of_the_node(error) for error in own] == [False] * 5
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(torch.AcceleratorError("CUDA error: out of memory"))
    assert not is_out_of_memory(of_the_node[1])
    assert not is_out_of_memory(RuntimeError("the host ran out of memory"))


@pytest.mark.long
def test_a_stopped_run_gives_its_trials_the_time_to_save(tmp_path):
    """Ray Tune alone would kill an actor that takes longer than five seconds."""
    slow = "save = checkpoint.save; checkpoint.save = lambda path, content: (time.sleep(7), save(path, content))"
    chaos.prepare(tmp_path)
    study = tmp_path / "chaos.toml"
    study.write_text(study.read_text().replace("epochs = 40", "epochs = 100000").replace("= 0.3", "= 1000"))
    process = drive(tmp_path, f"if not self.under_way: {slow}")
    said = []
    while not any("trials run on" in line for line in said):
        said.append(process.stdout.readline())
        assert said[-1], said
    (tmp_path / "run" / "stop").write_text("")
    since = time.monotonic()
    rest, _ = process.communicate(timeout=120)
    assert "ended stopped" in rest, rest
    assert time.monotonic() - since > 7
    saved = list((tmp_path / "run" / "checkpoints").glob("*.pt"))
    assert len(saved) == 2
    from pilotstudy import checkpoint

    assert all(checkpoint.load(path)["epoch"] > 0 for path in saved)


def test_mps_starts_once_and_ends_with_the_run(tmp_path, monkeypatch):
    from pilotstudy.cluster import mps

    control = tmp_path / "bin" / mps.CONTROL
    control.parent.mkdir()
    script = 'echo "$@" "$(cat)" "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_VISIBLE_DEVICES"'
    control.write_text(f"#!/bin/sh\n{script} >> {tmp_path}/log\n")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")  # an actor's own: the daemon must see all
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert not mps.start()  # a node without it
    control.chmod(0o755)
    monkeypatch.setenv("PATH", f"{control.parent}:/usr/bin:/bin")
    for name in "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY":
        monkeypatch.setenv(name, "")
    assert mps.start()
    folder = os.environ["CUDA_MPS_PIPE_DIRECTORY"]
    assert Path(folder).is_dir()
    mps.end()
    assert not Path(folder).exists()
    assert (tmp_path / "log").read_text().splitlines() == [f"-d  {folder} ", f"quit {folder} 3"]


def test_saving_costs_at_most_a_twentieth_of_the_time(tmp_path, monkeypatch):
    """The next save waits 20 times as long as the last took, copying included; it is written beside the training."""
    import torch

    from pilotstudy import checkpoint

    def slow(path, content):
        time.sleep(0.05)
        seen.append(content["weights"].clone())

    seen = []
    monkeypatch.setattr(checkpoint, "save", slow)
    saver = checkpoint.Saver(tmp_path / "c.pt", 0.0)
    weights = torch.zeros(10)
    started, times = time.monotonic(), []
    while time.monotonic() - started < 2.5:
        if saver.due():
            times.append(time.monotonic())
            saver.save({"weights": weights})
            weights += 1  # goes on at once; what is written is what it was
            assert time.monotonic() - times[-1] < 0.04
        time.sleep(0.001)
    saver.wait()
    assert 2 <= len(times) <= 3
    assert min(b - a for a, b in pairwise(times)) >= 20 * 0.05
    assert [int(w[0]) for w in seen] == list(range(len(seen)))
