"""Kills a running study at random moments, resumes it, and compares its end with that of an undisturbed one.

    python tests/cluster/chaos.py [--rounds 10] [--seed 0] [--folder FOLDER]

Each round kills, with -9 or Ctrl-C, the driver, a trial's actor or the Ray node process, or deletes the checkpoints
too. One trial runs at a time, so that the search too must come out the same, to the bit.
"""

import argparse
import os
import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from tests.support.small_study import prepare, results, start, strike

VICTIMS = ("driver", "actor", "raylet", "interrupt", "checkpoints")


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
                process.wait(180)
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
