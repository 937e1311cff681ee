"""A study of seconds, as a user would run it: in processes of its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.pictures import parquet_folder

LAB = """
import time
from math import prod
from pathlib import Path

from pilotstudy.metrics.registry import metric
from pilotstudy.networks.catalogue import network
from torch import nn


SLOW = Path("{slow}")


class Slowed(nn.Sequential):
    def forward(self, x):
        if self.training and SLOW.exists():
            time.sleep(0.03)
        return super().forward(x)


@network("small")
def small(shape, classes, *, width=64):
    first = nn.Linear(prod(shape), width)
    return Slowed(nn.Flatten(), first, nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, classes))


@metric("surprise", better="lower", headline=True)
def surprise(points):
    return -points.own_log_p / 2
"""
STUDY = """
title = "chaos"
uses = ["small_lab.py"]
seeds = [0, 1]
[data]
name = "{data}"
validation = 6
[network]
name = "small"
options = {{ width = 512 }}
[training]
epochs = {epochs}
batch_size = 8
learning_rate = 0.01
optimiser = "sgd"
schedule = {{ name = "cosine", warmup = 1 }}
average = "ema"
[arms]
vanilla = {{}}
pilot-a-aug = {{ dgm_width = 16, z = 4 }}
[search]
arms = ["pilot-a-aug", "dropout"]
trials = 6
confirm_seeds = 1
[search.space]
"training.learning_rate" = {{ low = 1e-3, high = 0.1, log = true }}
[resources]
checkpoint_seconds = {checkpoint_seconds}
"""


def command(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "pilotstudy", *words, "--runs-dir", str(folder / "runs")]


def prepare(folder: Path, *, epochs: int = 30, checkpoint_seconds: float = 0.3, lab: str = LAB) -> Path:
    parquet_folder(folder / "own")
    (folder / "small_lab.py").write_text(lab.replace("{slow}", str(folder / "slow")))
    study = folder / "chaos.toml"
    study.write_text(STUDY.format(data=folder / "own", epochs=epochs, checkpoint_seconds=checkpoint_seconds))
    return study


@contextmanager
def slowed(folder: Path) -> Iterator[None]:
    """Trials take seconds, not tenths of one, on any machine: there is time to catch them at work."""
    (folder / "slow").touch()
    try:
        yield
    finally:
        (folder / "slow").unlink()


def start(folder: Path, name: str) -> subprocess.Popen[bytes]:
    """The same command continues a run, so it serves for the first start and for every other."""
    words = ("run", str(folder / "chaos.toml"), "--name", name, "--concurrency", "1", "-q")
    log = open(folder / f"{name}.log", "ab")  # noqa: SIM115
    return subprocess.Popen(command(folder, *words), stdout=log, stderr=log)


def descendants(pid: int) -> dict[int, str]:
    """The processes below `pid`, by what they call themselves."""
    parents: dict[int, list[tuple[int, str]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except (OSError, IndexError, ValueError):
                continue
            parents.setdefault(parent, []).append((int(entry.name), words))
    found, todo = {}, [pid]
    while todo:
        for child, words in parents.get(todo.pop(), []):
            found[child] = words
            todo.append(child)
    return found


def strike(victim: str, driver: int, run: Path) -> bool:
    """Whether there was such a process to kill."""
    if victim in ("driver", "interrupt", "checkpoints"):
        os.kill(driver, signal.SIGINT if victim == "interrupt" else signal.SIGKILL)
        if victim == "checkpoints":
            shutil.rmtree(run / "checkpoints", ignore_errors=True)
        return True
    for pid, words in descendants(driver).items():
        program = words.split(" ")[0]
        if program.endswith("/raylet/raylet") if victim == "raylet" else "ray::ResourceTrainable" in words:
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def results(folder: Path, name: str) -> dict[str, object]:
    """What each trial gave, by its key; the time it took is not part of it."""
    found = {}
    for path in sorted((folder / "runs" / name / "results").glob("*.json")):
        content = json.loads(path.read_text())
        found[path.stem] = {key: content[key] for key in ("trial", "status", "evaluations")}
    return found
