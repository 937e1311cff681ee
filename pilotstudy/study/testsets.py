"""The test sets of a study: their names, and its data with their images."""

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pilotstudy.data.dataset import DataSet, load_data
from pilotstudy.data.testsets import load_tests, parts_of
from pilotstudy.errors import InputError
from pilotstudy.metrics.recalibration import RECALIBRATIONS
from pilotstudy.study.faults import Fault, collecting, shown
from pilotstudy.study.spec import MOST_TESTS, Study

TAKEN = ("train", "validation", "test", *RECALIBRATIONS)  # the study's own splits, and other words of claims


def load_study_data(study: Study, data_dir: Path | None) -> DataSet:
    """The images of a study, with those of its test sets."""
    data = load_data(study.data.name, data_dir, study.data.image_size)
    return replace(data, tests=tuple(load_tests(study.tests, data, data_dir, study.data.image_size)))


def kinds_of_tests(study: Study) -> dict[str, str]:
    """By the names of all test sets, in the order of the study; without those that are wrong."""
    kinds: dict[str, str] = {}
    for test in study.tests:
        with suppress(InputError):
            kinds |= {part.name: test.kind for part in parts_of(test.name, test.data, test.kind)}
    return kinds


def check_tests(study: Study) -> list[Fault]:
    """What is wrong with them, as far as the study itself can tell."""
    faults: list[Fault] = []
    known: set[str] = set()
    for number, test in enumerate(study.tests):
        path = ("tests", number)
        names: list[str] = []
        with collecting(faults, (*path, "data"), f"tests.{number}.data = {shown(test.data)}: "):
            names = [part.name for part in parts_of(test.name, test.data, test.kind)]
        key = "name" if test.name else "data"
        with collecting(faults, (*path, key), f"tests.{number}.{key} = {shown(getattr(test, key))}: "):
            for name in names:
                _check_name(name, known)
                known.add(name)
        own = test.data in ("test", study.data.name) or test.data.startswith("corrupted:")
        if test.kind == "ood" and (test.soft_labels or own):
            what = "soft_labels are of the study's classes" if test.soft_labels else "these are the study's own images"
            faults.append(Fault((*path, "kind"), f"tests.{number}.kind = 'ood': {what}, so it must be 'shift'"))
    return faults


def _check_name(name: str, known: set[str]) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name) or name in TAKEN:
        raise InputError(
            f"a test set cannot be called {shown(name)}: give it a name of at most 64 letters, digits, dashes, dots "
            f"and underscores, a letter or digit first, that is none of {', '.join(TAKEN)}"
        )
    if len(known) == MOST_TESTS:
        raise InputError(f"a study has at most {MOST_TESTS} test sets")
    if name in known:
        raise InputError(f"there is a test set {shown(name)} already: give it another name")
