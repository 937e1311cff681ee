"""What a user gets: the wheel, away from the checkout."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_the_wheel_works_from_another_folder(wheel, tmp_path):
    """Unpacked, with the checkout out of reach (-P, and an editable install would lose against PYTHONPATH)."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    command = [sys.executable, "-P", "-m", "pilotstudy", "train", "quickstart", "--arm", "pilot-a-aug"]
    command += ["--epochs", "1", "--train-size", "100", "--debug"]
    environment = {"PYTHONPATH": str(tmp_path / "site"), "PILOTSTUDY_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pilot-a-aug on fashion" in done.stdout


def test_what_the_wheel_carries(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for study in (ROOT / "studies").glob("*.toml"):
        assert f"pilotstudy/studies/{study.name}" in names
    assert "pilotstudy/data/fashion/LICENSE" in names
    assert any(name.startswith("pilotstudy/dashboards/") for name in names)
    assert not any(name.startswith("tests") for name in names)


def test_layers_keep_apart():
    """The method, the masks, the metrics and the statistics import neither Ray nor Plotly."""
    for path in (ROOT / "pilotstudy").rglob("*.py"):
        text = path.read_text()
        for word, folder in ("ray", "cluster"), ("plotly", "dashboard"):
            if folder not in path.parts:
                assert f"import {word}" not in text, path
                assert f"from {word}" not in text, path
