"""What fails that is not a trial's own: memory, GPUs, nodes. On real, embedded Ray."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pilotstudy.runs.layout import RunFiles
from tests.support import small_study
from tests.support.drivers import drive, lines_until
from tests.support.waiting import LONG, wait_for

HOG = """
import sys
block = bytearray(int(sys.argv[1]))
block[::4096] = b"x" * len(block[::4096])
print("full", flush=True)
sys.stdin.read()  # until it is told to end, or nobody is left to tell it
"""

FRAGILE = """

class Fragile(nn.Sequential):
    def forward(self, x):
        if len(x) > 2:
            raise RuntimeError("made for two images at most")
        return super().forward(x)


@network("fragile")
def fragile(shape, classes, *, width=64):
    return Fragile(nn.Flatten(), nn.Linear(prod(shape), width), nn.ReLU(), nn.Linear(width, classes))
"""


def used_and_total() -> tuple[int, int]:
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    kib = {name: int(lines[name].split()[0]) for name in ("MemTotal", "MemAvailable")}
    return 1024 * (kib["MemTotal"] - kib["MemAvailable"]), 1024 * kib["MemTotal"]


@pytest.mark.long
def test_a_machine_whose_memory_another_program_fills_loses_nothing(tmp_path):
    """Ray's memory monitor ends the actors. They come back, fewer at once, and the study ends as it would have."""
    study = small_study.prepare(tmp_path)
    assert small_study.start(tmp_path, "calm").wait(LONG) == 0
    used, total = used_and_total()
    gib = 2**30
    environment = os.environ | {
        "RAY_memory_usage_threshold": str((used + 3 * gib) / total),
        "RAY_memory_monitor_refresh_ms": "100",
    }
    run = RunFiles(tmp_path / "runs" / "full")
    words = small_study.command(tmp_path, "run", str(study), "--name", "full")
    log = tmp_path / "full.log"
    with log.open("w") as file, small_study.slowed(tmp_path):
        process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=file)
        wait_for(lambda: len(list(run.checkpoints.glob("*.pt"))) >= 2, log.read_text, LONG, process=process)
        hog = subprocess.Popen(
            [sys.executable, "-c", HOG, str(4 * gib)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert hog.stdout.readline() == "full\n"
        full = "memory is nearly full and Ray ended a trial"
        wait_for(lambda: full in log.read_text(), log.read_text, LONG, process=process)
        hog.communicate()
    assert process.wait(LONG) == 0, log.read_text()
    said = log.read_text()
    assert "one trial at a time" in said
    assert all(len(line) < 200 for line in said.splitlines())
    calm, full = (small_study.results(tmp_path, name) for name in ("calm", "full"))
    fixed = [key for key, one in calm.items() if one["trial"]["settings"].get("rate", 0.5) == 0.5 and key in full]
    assert len(fixed) >= 6
    assert all(full[key] == calm[key] for key in fixed)
    assert len(full) == 12
    assert {json.loads(path.read_text())["status"] for path in run.results.glob("*.json")} == {"finished"}


@pytest.mark.long
def test_a_study_whose_first_trials_all_fail_alike_stops_with_that_reason(tmp_path):
    """A network that can be built and tried, and fails at the first real batch."""
    study = small_study.prepare(tmp_path, lab=small_study.LAB + FRAGILE)
    words = small_study.command(tmp_path, "run", str(study), "--name", "bad", "--set", "network.name=fragile")
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LONG)
    assert done.returncode == 8, done.stderr
    last = done.stderr.splitlines()[-1]
    assert "the first 3 trials all failed alike: RuntimeError: made for two images at most" in last
    assert "status bad --errors" in last
    assert len(list((tmp_path / "runs" / "bad" / "results").glob("*.json"))) <= 4  # of 14
    shown = subprocess.run(
        small_study.command(tmp_path, "status", "bad", "--errors"), capture_output=True, text=True, check=True
    )
    assert "Traceback" in shown.stdout
    assert "small_lab.py" in shown.stdout
    assert "arms vanilla 0" in shown.stdout


@pytest.mark.long
def test_a_gpu_that_cannot_be_used_ends_the_study_and_never_trains_on_the_cpu(tmp_path):
    """A logical GPU with no card behind it, as with a driver that is too old."""
    said, _ = drive(tmp_path, "pass", num_gpus=1, num_cpus=2, gpus=0.5).communicate(timeout=LONG)
    assert "ended sick NotDoneError no node is left that can train" in said, said
    assert "cuda was asked for and cannot be used" in said
    assert "needs NVIDIA's driver" in said
    assert not list((tmp_path / "run" / "results").glob("*.json"))


@pytest.mark.long
def test_a_process_that_keeps_dying_is_told_and_ends_the_study(tmp_path):
    """A crash in a library in C, where no exception says anything; on the only node there is."""
    said, _ = drive(tmp_path, "os.kill(os.getpid(), 9)", num_cpus=1).communicate(timeout=LONG)
    assert "ended sick NotDoneError no node is left that can train" in said, said
    assert "its process died" in said


@pytest.mark.long
def test_a_stopped_run_gives_its_trials_the_time_to_save(tmp_path):
    """Ray Tune alone would kill an actor that takes longer than five seconds."""
    slow = "save = checkpoint.save; checkpoint.save = lambda path, content: (time.sleep(7), save(path, content))"
    small_study.prepare(tmp_path, epochs=100000, checkpoint_seconds=1000)
    process = drive(tmp_path, f"if not self.under_way: {slow}")
    lines_until(process, "trials run on")
    (tmp_path / "run" / "stop").write_text("")
    since = time.monotonic()
    rest, _ = process.communicate(timeout=LONG)
    assert "ended stopped" in rest, rest
    assert time.monotonic() - since > 7
    saved = list((tmp_path / "run" / "checkpoints").glob("*.pt"))
    assert len(saved) == 2
    from pilotstudy.trial import checkpoint

    assert all(checkpoint.load(path)["epoch"] > 0 for path in saved)
