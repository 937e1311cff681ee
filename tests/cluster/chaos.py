"""Kills a running study at random moments, resumes it, and compares its end with that of an undisturbed one.

    python tests/cluster/chaos.py [--rounds 10] [--seed 0] [--folder FOLDER]

Each round kills, with -9 or Ctrl-C, the driver, a trial's actor or the Ray node process, or deletes the checkpoints
too. One trial runs at a time, so that the search too must come out the same, to the bit.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from test_data import parquet_folder

STUDY = """
title = "chaos"
seeds = [0, 1]
[data]
name = "{data}"
validation = 6
[network]
name = "mlp-512"
[training]
epochs = 40
batch_size = 8
[arms]
vanilla = {{}}
pilot-a-aug = {{ dgm_width = 16, z = 4 }}
[search]
arms = ["pilot-a-aug", "dropout"]
trials = 6
confirm_seeds = 1
[resources]
checkpoint_seconds = 0.3
"""
VICTIMS = ("driver", "actor", "raylet", "interrupt", "checkpoints")


def command(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "pilotstudy", *words, "--runs-dir", str(folder / "runs")]


def prepare(folder: Path) -> Path:
    parquet_folder(folder / "own")
    study = folder / "chaos.toml"
    study.write_text(STUDY.format(data=folder / "own"))
    return study


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


def disturb(folder: Path, name: str, rounds: int, chance: random.Random, victims: tuple[str, ...]) -> list[str]:
    """Kills `rounds` times, then lets the study end. What was struck, and when."""
    struck = []
    for _ in range(rounds):
        process = start(folder, name)
        victim, moment = chance.choice(victims), chance.uniform(4, 25)
        deadline = time.monotonic() + moment
        while time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.05)
        if process.poll() is not None:
            break
        hit = strike(victim, process.pid, folder / "runs" / name)
        struck.append(f"{victim} after {moment:.1f} s: {'struck' if hit else 'not there'}")
        if victim != "actor":
            try:
                process.wait(90)
            except subprocess.TimeoutExpired:
                struck[-1] += ", driver hung and was killed"
                process.kill()
                process.wait()
        else:  # the driver survives: let it go on for a while, then the next round is a second process
            try:
                process.wait(chance.uniform(2, 12))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    last = start(folder, name)
    code = last.wait(300)
    assert code == 0, (code, struck, (folder / f"{name}.log").read_text()[-2000:])
    return struck


def compare(folder: Path, one: str, other: str) -> None:
    first, second = results(folder, one), results(folder, other)
    assert first.keys() == second.keys(), first.keys() ^ second.keys()
    for key, value in first.items():
        assert value == second[key], key
    assert not list((folder / "runs" / other / "checkpoints").glob("*")), "checkpoints were left behind"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="chaos-"))
    os.environ["PILOTSTUDY_CACHE"] = str(folder / "cache")
    shutil.rmtree(folder / "runs", ignore_errors=True)
    prepare(folder)
    assert start(folder, "whole").wait() == 0
    for line in disturb(folder, "disturbed", options.rounds, random.Random(options.seed), VICTIMS):
        print(line)
    compare(folder, "whole", "disturbed")
    print(f"{len(results(folder, 'whole'))} trials, the same to the bit")


if __name__ == "__main__":
    main()
