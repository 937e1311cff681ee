"""The run folder: what ran, from what, and what came of it. Everything in it can be read while a study runs."""

import hashlib
import json
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from pilotstudy import __version__
from pilotstudy.errors import InputError, RunLockedError, nearest
from pilotstudy.files import PACKAGE, RunFiles, names, place, read, write
from pilotstudy.locking import FileLock, Lease, lock_of
from pilotstudy.spec import Study, Trial

# What decides a trial's numbers: a change in one of these makes its results another version's.
DECIDING = ("arms", "data/splits.py", "evaluation.py", "method", "metrics.py", "networks.py", "training.py")
PACKAGES = ("torch", "torchvision", "numpy", "scipy", "ray", "optuna", "pyarrow")


@cache
def code_version() -> str:
    """A digest of the code that decides a trial's numbers."""
    digest = hashlib.sha256()
    for name in DECIDING:
        path = PACKAGE / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


class Run:
    def __init__(self, folder: Path):
        self.files = RunFiles(folder)
        self.name = folder.name
        self._lock: FileLock | Lease | None = None  # while this process holds it

    @classmethod
    def find(cls, name: str, runs_dir: Path) -> "Run":
        """A run by its name in `runs_dir`, or by the path of its folder."""
        for folder in [place(name)] if "://" in name else [runs_dir / name, Path(name)]:
            if RunFiles(folder).study.is_file():
                return cls(folder)
        known = [run.name for run in cls.all(runs_dir)]
        hint = nearest(name, known) if known else f"there are none in {runs_dir}."
        raise InputError(f"unknown run {name!r}: {hint} --runs-dir tells where to look.")

    @classmethod
    def all(cls, runs_dir: Path) -> "list[Run]":
        folders = sorted(runs_dir.iterdir()) if runs_dir.is_dir() else []
        return [cls(folder) for folder in folders if RunFiles(folder).study.is_file()]

    def freeze(self, study: Study, options: dict[str, Any], fingerprint: str) -> None:
        """Keeps the study as it was run, and where it came from; what was frozen before is kept as history."""
        before = self.frozen() if self.files.study.exists() else None
        now = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": sys.argv,
            "study": study.model_dump(),
            # So many were known when it was said.
            "results": sum(name.endswith(".json") for name in names(self.files.results)),
        }
        content = {
            "study": study.model_dump(),
            "options": options,
            "fingerprint": fingerprint,
            "provenance": provenance(),
            "history": [*(before["history"] if before else []), now],
            "devices": before.get("devices", []) if before else [],
        }
        write(self.files.study, json.dumps(content, indent=1, default=str) + "\n")

    def add_devices(self, devices: Iterable[str]) -> None:
        """Keeps what the trials ran on: a CUDA device draws other random numbers than a CPU, or than another kind."""
        content = self.frozen()
        known = content.get("devices", [])
        content["devices"] = [*known, *(device for device in devices if device not in known)]
        write(self.files.study, json.dumps(content, indent=1, default=str) + "\n")

    def frozen(self) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads(self.files.study.read_text())
            return content
        except (OSError, ValueError) as error:
            raise InputError(f"{self.files.study} cannot be read: {error}") from error

    def study(self) -> Study:
        content = self.frozen()["study"]
        return Study.model_validate(content, strict=False)

    def key(self, trial: Trial, fingerprint: str) -> str:
        """Settings, data, seed and code version: trials with the same key are the same trial."""
        known = json.dumps([trial.model_dump(), fingerprint, code_version()], sort_keys=True)
        return hashlib.sha256(known.encode()).hexdigest()[:20]

    def result(self, key: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(read(self.files.trial(key).result))
            return found
        except (OSError, ValueError):
            return None

    def proposal(self, arm: str, number: int) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(read(self.files.proposal(arm, number)))
            return found
        except (OSError, ValueError):
            return None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time."""
        lock = lock_of(self.files.lock)
        try:
            with lock.held():
                self._lock = lock
                yield
        except RunLockedError as error:
            raise RunLockedError(f"run {self.name!r} is at work: {error}") from error
        finally:
            self._lock = None

    @property
    def lost(self) -> str:
        """Who took the run over from this process, which has to stop then; empty while all is well."""
        return self._lock.lost if self._lock else ""

    def holder(self) -> str:
        return lock_of(self.files.lock).holder()

    def at_work(self) -> bool:
        return lock_of(self.files.lock).taken()


def overview(run: Run) -> dict[str, Any]:
    """One line about a run."""
    from pilotstudy.results import Results

    frozen = run.frozen()
    statuses = Results(run.files).trials["status"].to_pylist()
    done = sum(status not in ("waiting", "running") for status in statuses)
    total = total_of(run)
    state = "running" if run.at_work() else "done" if done == total and "failed" not in statuses else "stopped"
    return {
        "run": run.name,
        "state": state,
        "done": done,
        "trials": total,
        "failed": statuses.count("failed"),
        "data": frozen["study"]["data"]["name"],
        "network": frozen["study"]["network"]["name"],
        "since": frozen["history"][0]["at"],
    }


def total_of(run: Run) -> int:
    from pilotstudy.director import counts

    return sum(counts(run.study()).values())


def progress_of(run: Run) -> list[dict[str, Any]]:
    """For each phase: how many trials are finished, running, diverged, stopped, failed."""
    from pilotstudy.director import counts
    from pilotstudy.results import Results

    trials = Results(run.files).trials.select(["phase", "status", "moves"]).to_pylist()
    return [
        {"phase": phase, "trials": number}
        | {
            status: sum((row["phase"], row["status"]) == (phase, status) for row in trials)
            for status in ("finished", "running", "diverged", "stopped", "failed")
        }
        | {"moved": sum(row["moves"] or 0 for row in trials if row["phase"] == phase)}
        for phase, number in counts(run.study()).items()
    ]


def provenance() -> dict[str, Any]:
    versions: dict[str, str | None] = {"pilotstudy": __version__}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "code_version": code_version(),
        "git_commit": git_commit(),
        "packages": versions,
        "python": platform.python_version(),
        "machine": {"host": socket.gethostname(), "system": platform.platform(), "cores": os.cpu_count()},
    }


def git_commit() -> str | None:
    """The commit of the checkout that this package lies in, if it lies in one."""
    try:
        command = ["git", "-C", str(PACKAGE), "describe", "--always", "--dirty", "--abbrev=40"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
