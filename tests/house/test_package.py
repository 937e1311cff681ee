"""What a user gets: the wheel, away from the checkout."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.places import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_the_wheel_works_from_another_folder(wheel, tmp_path):
    """Unpacked, with the checkout out of reach (-P, and an editable install would lose against PYTHONPATH)."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    command = [sys.executable, "-P", "-m", "pilotstudy", "train", "quickstart", "--arm", "vanilla"]
    command += ["--epochs", "1", "--train-size", "100", "--debug"]
    environment = {"PYTHONPATH": str(tmp_path / "site"), "PILOTSTUDY_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "vanilla on fashion" in done.stdout


def test_what_the_wheel_carries(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for study in (ROOT / "studies").glob("*.toml"):
        assert f"pilotstudy/studies/{study.name}" in names
    assert {"pilotstudy/data/fashion/LICENSE", "pilotstudy/py.typed", "pilotstudy/runs/folder.py"} <= names
    for part in (ROOT / "dashboards").rglob("*"):
        linting = part.name == "biome.json"
        assert part.is_dir() or (f"pilotstudy/{part.relative_to(ROOT)}" in names) != linting
    assert not any(name.startswith("tests") or "/published/" in name for name in names)


def test_every_room_says_what_it_is_and_imports_only_what_it_may():
    done = subprocess.run([Path(sys.executable).with_name("lint-imports")], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    for folder in (ROOT / "pilotstudy").iterdir():
        if (folder / "__init__.py").is_file():
            assert (folder / "__init__.py").read_text().startswith('"""'), folder
            assert f"`{folder.name}/`" in (ROOT / "pilotstudy" / "README.md").read_text(), folder
