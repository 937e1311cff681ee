"""The README's own files, word for word, as a new user would run them: on Ray, on the real data, in a real browser."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import LONG

README = Path(__file__).parents[2] / "README.md"


def block(language: str, holding: str) -> str:
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return next(text for text in blocks if holding in text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    (folder / "my_lab.py").write_text(block("python", "@pilotstudy.arm"))
    (folder / "mine.toml").write_text(block("toml", "uses ="))
    return folder


def pilotstudy(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pilotstudy", *words]
    here = os.environ | environment
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=LONG, env=here)


def test_the_file_has_40_lines_and_keeps_the_contract(folder):
    assert len((folder / "my_lab.py").read_text().splitlines()) == 40
    done = pilotstudy(folder, "check", "my_lab.py", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {row["what"] for row in json.loads(done.stdout)} == {
        "network my-resnet",
        "arm soft-targets",
        "metric top3_error",
    }


@pytest.mark.long
@pytest.mark.realdata
def test_the_study_runs_on_ray_and_its_page_opens(folder, shared_data, visit):
    data = {"PILOTSTUDY_DATA": str(shared_data)}
    done = pilotstudy(folder, "run", "mine.toml", **data)
    assert done.returncode == 0, done.stderr
    trials = json.loads(pilotstudy(folder, "results", "mine", "--json").stdout)["results"]
    assert {row["arm"] for row in trials} == {"vanilla", "soft-targets", "dropout-light", "pilot-a-aug"}
    assert all(0 <= row["top3_error"] <= 1 - row["accuracy"] for row in trials)
    claims = pilotstudy(folder, "claims", "mine").stdout
    assert "nll: soft-targets@tuned < vanilla@tuned" in claims
    assert pilotstudy(folder, "dashboard", "mine").returncode == 0
    tab = visit(folder / "runs" / "mine" / "dashboard.html")
    table = tab.inner_text("#table")
    for word in "top-3 error", "Dropout 0.1", "Soft-targets", "Pilot a-aug":
        assert word in table
    again = subprocess.run(
        [sys.executable, "-c", block("python", "study.run(")],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG,
        env=os.environ | data,
    )
    assert again.returncode == 0, again.stderr
    assert "top-3 error" in again.stdout
    assert "top3_error: pilot-a-aug < vanilla" in again.stdout
