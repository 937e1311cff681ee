"""Whose code readers of a run execute: files that came with a study, once this user has run or checked them here.

A run's folder may come from anybody, and its metrics may be Python. Looking at it must not execute that.
"""

import hashlib
import shlex
from collections.abc import Iterable

from pilotstudy import extensions
from pilotstudy.console import message
from pilotstudy.errors import InputError, PilotstudyError
from pilotstudy.runs.folder import Run
from pilotstudy.storage import cache_folder, write
from pilotstudy.study.reading import load_uses
from pilotstudy.study.spec import Used


def trust(uses: Iterable[Used]) -> None:
    """Remembers that this user has run these files."""
    for used in uses:
        path = cache_folder() / "trusted" / _digest(used)
        if not path.exists():
            write(path, used.name + "\n")


def load_trusted(run: Run) -> None:
    """Makes known what a run's own files declare, or says why not. Without them, it has no metrics of its own."""
    extensions.load_installed()
    try:
        study = run.study()
    except PilotstudyError:  # whoever reads it says so
        return
    unknown = _unknown(study.uses)
    if unknown:
        message(
            f"run {run.name}: {', '.join(unknown)} came with it and was never run here, so metrics of its own are left "
            f"out; `pilotstudy check {quoted(run)}` looks at it, and trusts it from then on"
        )
        return
    load_uses(study)


def check_trusted(run: Run) -> None:
    """Refuses to train with files that came with a run's folder, which may be anybody's, and were never run here."""
    unknown = _unknown(run.study().uses)
    if unknown:
        raise InputError(
            f"run {run.name}: {', '.join(unknown)} came with it and was never run here; look at it, and if you "
            f"trust it, `pilotstudy check {quoted(run)}` tries it, and {run.files.hint('resume')} goes on from then on"
        )


def quoted(run: Run) -> str:
    """Its folder, as it can be typed."""
    return shlex.quote(str(run.files.folder))


def _unknown(uses: Iterable[Used]) -> list[str]:
    return [used.name for used in uses if not (cache_folder() / "trusted" / _digest(used)).exists()]


def _digest(used: Used) -> str:
    return hashlib.sha256(f"{used.name}\0{used.text}".encode()).hexdigest()[:32]
