"""What a shell completes: names of studies, runs, arms and data sets. Nothing is asked of a store far away."""

import os
from collections.abc import Iterable
from pathlib import Path

import typer


def studies(incomplete: str) -> list[str]:
    """The built-in ones, study files and the folders that may hold some."""
    from pilotstudy.storage import packaged

    return beginning(incomplete, (path.stem for path in packaged("studies").glob("*.toml"))) + files(
        incomplete, ".toml"
    )


def runs(context: typer.Context, incomplete: str) -> list[str]:
    """Those in the folder of runs that is given before, or that would be looked into."""
    return beginning(incomplete, (path.parent.name for path in runs_dir(context).glob("*/study.json")))


def arms(incomplete: str) -> list[str]:
    """All of them: what was typed before an option that has no value yet is not known here."""
    from pilotstudy.arms.catalogue import all_arms

    return beginning(incomplete, all_arms())


def data_sets(incomplete: str) -> list[str]:
    """The known names, and the folders and files that may be one's own."""
    from pilotstudy.data.dataset import NAMES

    return beginning(incomplete, NAMES) + files(incomplete, ".npz")


def runs_dir(context: typer.Context) -> Path:
    folder = str(context.params.get("runs_dir") or os.environ.get("PILOTSTUDY_RUNS") or "runs")
    return Path(os.devnull if "://" in folder else folder)


def beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))


def files(incomplete: str, suffix: str) -> list[str]:
    """Paths that begin like this: folders, and files of one kind."""
    folder = Path(os.path.dirname(incomplete) or ".")
    try:
        found = [entry for entry in folder.iterdir() if entry.is_dir() or entry.suffix == suffix]
    except OSError:
        return []
    before = incomplete[: incomplete.rfind("/") + 1]
    return beginning(incomplete, (f"{before}{entry.name}{'/' * entry.is_dir()}" for entry in found))
