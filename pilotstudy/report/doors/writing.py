"""Which tools there are, what each takes, and an export for several of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from shlex import quote

from pilotstudy.errors import InputError
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.report.export import export
from pilotstudy.runs.folder import Run


@dataclass(frozen=True)
class Door:
    """`package`: what must be installed. `command`: what shows that which was written at `place`."""

    module: str
    function: str
    package: str
    command: str
    place: str


DOORS = {
    "optuna": Door("optuna_file", "write_optuna", "optuna", "optuna-dashboard", "sqlite:///{path}"),
    "tensorboard": Door("tensorboard_folder", "write_tensorboard", "tensorboard", "tensorboard --logdir", "{path}"),
    "mlflow": Door(
        "mlflow_folder", "write_mlflow", "mlflow-skinny", "mlflow ui --backend-store-uri", "sqlite:///{path}/mlflow.db"
    ),
}


def write_door(name: str, evidence: RunEvidence, path: Path) -> str:
    """Writes a run for one of them; returns what there is to say of it."""
    door = DOORS[name]
    try:
        module = import_module(f"pilotstudy.report.doors.{door.module}")
    except ImportError as error:
        how = f"`pip install {door.package}`, or `pip install 'pilotstudy[doors]'`"
        raise InputError(f"--{name} needs {door.package} ({error}): {how}") from error
    trials: int = getattr(module, door.function)(evidence, path)
    return f"{trials} trials in {path}: {door.command} {quote(door.place.format(path=path))}"


def export_to(
    run: Run, folder: Path | None, doors: Mapping[str, Path | None], *, predictions: bool = True
) -> list[str]:
    """Writes the appendix of a run into `folder`, and its trials for each of these tools; says what was written."""
    asked = {name: path for name, path in doors.items() if path}
    targets = [*([folder] if folder else []), *asked.values()]
    if not targets:
        raise InputError(f"say what to write: --output FOLDER, --{', --'.join(DOORS)}, or several of them")
    for path in targets:
        if path.exists() or targets.count(path) > 1:
            raise InputError(
                f"{path} exists already: choose another place" if path.exists() else f"{path} is given twice"
            )
    said = [f"{export(run, folder, predictions=predictions)} files in {folder}"] if folder else []
    evidence = RunEvidence(run)
    return said + [write_door(name, evidence, path) for name, path in asked.items()]
