"""What a shell is told when somebody presses the tab key."""

import os
import subprocess
import sys

import pytest

from tests.support.made_run import made

SCRIPT = """
import sys
from pilotstudy.cli import main
sys.argv = ["pilotstudy"]
try: main()
finally: print([name for name in ("torch", "ray") if name in sys.modules], file=sys.stderr)
"""


def completed(folder, *words: str) -> list[str]:
    asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_PILOTSTUDY_COMPLETE": "complete_bash"}
    environment = {**os.environ, **asked} | {"PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("PILOTSTUDY_RUNS", None)
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=folder, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (0, "[]"), done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("re",), ["resume", "results"]),
        (("run", "cifar-m"), ["cifar-mlp", "cifar-mlp-small"]),
        (("run", "m"), ["mine.toml", "more/"]),
        (("run", "more/"), ["more/other.toml"]),
        (("table", "m"), ["mine"]),
        (("table", "--runs-dir", "more", ""), []),
        (("train", "quickstart", "--arm", "pilot-a-a"), ["pilot-a-aug"]),
        (("data", "prepare", "ci"), ["cifar10"]),
    ],
)
def test_names_are_completed(tmp_path, words, expected):
    (tmp_path / "mine.toml").touch()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "other.toml").touch()
    if words[0] == "table":
        made(tmp_path / "runs" / "mine", points=20, most=1)
    assert completed(tmp_path, "pilotstudy", *words) == expected


def test_an_object_store_is_not_asked(tmp_path):
    assert completed(tmp_path, "pilotstudy", "table", "--runs-dir", "s3://nowhere/runs", "") == []
