"""Where a run came from: versions, the commit, the machine."""

import os
import platform
import socket
import subprocess
from importlib import metadata

from pilotstudy import __version__
from pilotstudy.runs.frozen import Provenance
from pilotstudy.runs.keys import code_version
from pilotstudy.storage import PACKAGE

PACKAGES = ("torch", "torchvision", "numpy", "scipy", "ray", "optuna", "pyarrow")


def provenance() -> Provenance:
    versions: dict[str, str | None] = {"pilotstudy": __version__}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return Provenance(
        code_version=code_version(),
        git_commit=git_commit(),
        packages=versions,
        python=platform.python_version(),
        machine={"host": socket.gethostname(), "system": platform.platform(), "cores": os.cpu_count()},
    )


def git_commit() -> str | None:
    """The commit of the checkout that this package lies in, if it lies in one."""
    try:
        command = ["git", "-C", str(PACKAGE), "describe", "--always", "--dirty", "--abbrev=40"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
