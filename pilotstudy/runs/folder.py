"""The run folder: what ran, from what, and what came of it. Everything in it can be read while a study runs."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePath

import numpy as np
from numpy.typing import NDArray

from pilotstudy.arms.arm import Setting
from pilotstudy.data.dataset import TestSet
from pilotstudy.errors import DataError, InputError, RunLockedError, nearest
from pilotstudy.runs.frozen import FrozenStudy, FrozenTest, Start
from pilotstudy.runs.keys import key_of
from pilotstudy.runs.layout import RunFiles
from pilotstudy.runs.lock import FileLock, Lease, lock_of
from pilotstudy.runs.provenance import provenance
from pilotstudy.runs.records import Proposal, TrialResult
from pilotstudy.storage import absolute, names, place, read, readable, write
from pilotstudy.study.looks import Looks
from pilotstudy.study.naming import check_run_name
from pilotstudy.study.resources import Location
from pilotstudy.study.rows import declared_rows
from pilotstudy.study.space import space_of
from pilotstudy.study.spec import Study, Trial


class Run:
    """One run, by its folder."""

    def __init__(self, folder: Path):
        self.files = RunFiles(folder)
        self.name = folder.name
        self._lock: FileLock | Lease | None = None  # while this process holds it

    @classmethod
    def named(cls, name: str, runs_dir: Path) -> "Run":
        """A run that may be new: its name must be that of a folder, which lies in `runs_dir`."""
        return cls(runs_dir / check_run_name(name))

    @classmethod
    def find(cls, name: str, runs_dir: Path) -> "Run":
        """A run by its name in `runs_dir`, or by the path of its folder."""
        for folder in [place(name)] if "://" in name else [runs_dir / name, Path(name)]:
            if RunFiles(folder).study.is_file():
                return cls(folder)
        run_names = [run.name for run in cls.all(runs_dir)]
        hint = nearest(name, run_names) if run_names else f"there are none in {runs_dir}."
        raise InputError(f"unknown run {name!r}: {hint} --runs-dir tells where to look.")

    @classmethod
    def all(cls, runs_dir: Path) -> "list[Run]":
        """Every run in a folder of runs, by name."""
        folders = sorted(runs_dir.iterdir()) if runs_dir.is_dir() else []
        return [cls(folder) for folder in folders if RunFiles(folder).study.is_file()]

    def freeze(
        self,
        study: Study,
        location: Location,
        fingerprint: str,
        looks: Looks | None = None,
        tests: Mapping[str, FrozenTest] | None = None,
    ) -> None:
        """Keeps the study as it is run, and where it came from; earlier starts are kept as history."""
        before = self.frozen() if self.files.study.exists() else None
        now = Start(
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            command=tuple(sys.argv),
            study=study.model_dump(),
            results=sum(name.endswith(".json") for name in names(self.files.results)),
        )
        self._keep(
            FrozenStudy(
                study=study.model_dump(),
                options=vars(location),
                fingerprint=fingerprint,
                tests=tests or {},
                provenance=provenance(),
                history=(*(before.history if before else ()), now),
                devices=before.devices if before else (),
                arms=declared_rows(study),
                spaces={arm: space_of(study, arm) for arm in (study.search.arms if study.search else ())},
                looks=looks,
            )
        )

    def keep_looks(self, looks: Looks) -> None:
        """Keeps how many seeds each arm is given, before their trials start."""
        self._keep(replace(self.frozen(), looks=looks))

    def add_devices(self, devices: Iterable[str]) -> None:
        """Keeps what the trials ran on: a CUDA device draws other random numbers than a CPU, or than another kind."""
        frozen = self.frozen()
        self._keep(replace(frozen, devices=tuple(dict.fromkeys((*frozen.devices, *devices)))))

    def _keep(self, frozen: FrozenStudy) -> None:
        write(self.files.study, frozen.to_json() + "\n")

    def frozen(self) -> FrozenStudy:
        """The study as it was last run, how, and from what."""
        path = self.files.study
        try:
            return FrozenStudy.from_json(path.read_bytes(), path)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error}") from error

    def study(self) -> Study:
        """The study as it was last run."""
        return self.frozen().parsed()

    def key(self, trial: Trial, fingerprint: str) -> str:
        """Settings, data, seed and code version: trials with the same key are the same trial."""
        return key_of(trial, fingerprint)

    def keep_soft_labels(self, tests: Iterable[TestSet]) -> None:
        """Keeps what people said of images that test, for figures of ensembles, which no trial has."""
        for test in tests:
            path = self.files.soft_labels_of(test.fingerprint)
            if test.soft_labels is not None and not path.exists():
                write(path, partial(np.save, arr=test.soft_labels))

    def soft_labels(self, test: FrozenTest) -> NDArray[np.float64] | None:
        """[n, K], in the order of the test set's predictions; None where it has none."""
        path = self.files.soft_labels_of(test.fingerprint)
        try:
            return np.asarray(np.load(readable(path)), np.float64) if path.exists() else None
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{path} is damaged: remove it, and `pilotstudy resume` writes it again") from error

    def result(self, key: str) -> TrialResult | None:
        """What has become of a trial; None where there is no file, or a damaged one: then it is trained again."""
        path = self.files.trial(key).result
        try:
            return TrialResult.from_json(read(path), path)
        except (OSError, DataError):
            return None

    def proposal(self, arm: str, number: int) -> Mapping[str, Setting] | None:
        """The settings that an arm's search proposed; None where there is no file, or a damaged one."""
        path = self.files.proposal(arm, number)
        try:
            return Proposal.from_json(read(path), path).settings
        except (OSError, DataError):
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
        """Which process is at work on it."""
        return lock_of(self.files.lock).holder()

    def at_work(self) -> bool:
        """Whether a process is at work on it."""
        return lock_of(self.files.lock).taken()


def distinct(folders: Sequence[Path]) -> list[str]:
    """The folders' names; where two are the same, with as much of their paths as tells them apart."""
    paths = [PurePath(absolute(folder)) for folder in folders]
    for path in paths:
        if paths.count(path) > 1:
            raise InputError(f"run {path.name!r} is given twice: a run is compared with others")
    most = max(len(path.parts) for path in paths)
    several = (["/".join(path.parts[-parts:]) for path in paths] for parts in range(1, most + 1))
    return next(names for names in several if len(set(names)) == len(names))
