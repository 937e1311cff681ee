"""The records of a run's trials: what was proposed, what became of each, and its figures.

They are plain dataclasses; what comes from a file is validated where it is read. Each file format has a number, which
is raised when a file of the new form would mislead, or break, a version that knows only the old one. Files without a
number are of format 1.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, cast

from pydantic import BeforeValidator, TypeAdapter, ValidationError

from pilotstudy.arms.arm import Mode, Setting
from pilotstudy.errors import DataError
from pilotstudy.metrics import registry
from pilotstudy.storage import check_format
from pilotstudy.study.budget import Phase
from pilotstudy.study.spec import FROZEN, Trial

At = Literal["last", "best"]  # the last epoch, or the one with the lowest validation NLL
OWN_SPLITS = ("validation", "test")  # of the study's data
Split = str  # one of these, or the name of a further test set
Plain = bool | int | float | str | None  # a value in a JSON file


class Status(StrEnum):
    """What has become of a place in the plan, and of its trial."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    DIVERGED = "diverged"
    STOPPED = "stopped"  # early, by the search
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        return self not in (Status.WAITING, Status.RUNNING)

    @property
    def final(self) -> bool:
        """Whether the same settings would give the same again. What failed is tried again when a run is resumed."""
        return self in FINAL


FINAL = (Status.FINISHED, Status.DIVERGED, Status.STOPPED)


class Place(NamedTuple):
    """Where a trial runs: Ray's name of the node, its host, and the GPUs of it that the trial sees."""

    node: str
    host: str
    gpu: str = ""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A trial's figures at one epoch, in one mode, on one split, before or after temperature scaling.

    In files a row with a column for each metric.
    """

    at: At
    mode: Mode
    split: Split
    scaled: bool
    temperature: float
    n: int
    figures: Mapping[str, float]  # by metric

    def row(self) -> dict[str, Plain]:
        """As it stands in files."""
        return {
            "at": self.at,
            "mode": self.mode,
            "split": self.split,
            "scaled": self.scaled,
            "temperature": self.temperature,
            "n": self.n,
            **self.figures,
        }

    @staticmethod
    def folded(row: Mapping[str, Plain]) -> dict[str, object]:
        """A row as the fields of an evaluation. What a table of an earlier version has no column for is left out."""
        own: dict[str, object] = {name: row[name] for name in OF_EVALUATIONS if name in row}
        return own | {"figures": {k: v for k, v in row.items() if k not in OF_EVALUATIONS and v is not None}}


OF_EVALUATIONS = frozenset({"at", "mode", "split", "scaled", "temperature", "n"})
Evaluations = tuple[Annotated[Evaluation, BeforeValidator(Evaluation.folded)], ...]


def validation_figures(evaluations: Iterable[Evaluation]) -> dict[str, float] | None:
    """What a search may see of a trial: validation figures of the point prediction at the last epoch."""
    for each in evaluations:
        if (each.at, each.mode, each.split, each.scaled) == ("last", "point", "validation", False):
            return {name: each.figures[name] for name in registry.objectives() if name in each.figures}
    return None


@dataclass(frozen=True, slots=True)
class Bin:
    """One bin of a reliability diagram; an empty one has no confidence and no accuracy. Tables keep no bounds."""

    count: int
    confidence: float | None
    accuracy: float | None
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, slots=True)
class Diagram:
    """The reliability diagram of the test images at one epoch and in one mode."""

    at: At
    mode: Mode
    bins: tuple[Bin, ...]


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """All of results/KEY.json. A trial that did not reach its end has less to tell."""

    FORMAT = 3

    format: int | None = field(default=None, compare=False)  # that its file says; 0.1.0 said none
    version: str | None = None  # of pilotstudy
    trial: Trial
    fingerprint: str  # of the data
    tests: Mapping[str, str] = field(default_factory=dict)  # further test sets that it predicted: their fingerprints
    classes: tuple[str, ...] = ()
    train_size: int | None = None
    parameters: Mapping[str, int] = field(default_factory=dict)  # how many, by part of the model
    sampling: Mapping[str, int] = field(default_factory=dict)  # of sampled predictions: passes, and sets of weights
    environment: Mapping[str, Plain] = field(default_factory=dict)  # torch, the device, threads
    notes: tuple[str, ...] = ()  # what a user should know of how it was trained
    training_seconds: float | None = None
    node: str | None = None
    host: str | None = None
    gpu: str | None = None
    moves: int = 0  # to another node, after its own was lost
    restarts: int = 0  # after its process died
    status: Status
    epochs: int | None = None
    best_epoch: int | None = None
    evaluations: Evaluations = ()
    validation_reliability: tuple[Bin, ...] = ()  # of the point prediction at the last epoch
    reliability: tuple[Diagram, ...] = ()  # of the test images
    error: str | None = None
    traceback: str | None = None

    @property
    def device(self) -> str | None:
        """The kind of device that it ran on: a card's name, or the CPU's model."""
        device, model = (self.environment.get(name) for name in ("device", "model"))
        return f"CPU ({model})" if device == "cpu" and model else str(device) if device else None

    @property
    def has_test(self) -> bool:
        """Whether it predicted the test images: trials of a search do not."""
        return any(each.split == "test" for each in self.evaluations)

    @property
    def torch(self) -> str | None:
        return str(self.environment["torch"]) if "torch" in self.environment else None

    @property
    def place(self) -> Place | None:
        return None if self.node is None else Place(self.node, self.host or "", self.gpu or "")

    def columns(self) -> dict[str, object]:
        """What the table of trials keeps of it."""
        bins = self.validation_reliability
        return {
            "moves": self.moves,
            "error": self.error,
            "epochs": self.epochs,
            "best_epoch": self.best_epoch,
            "training_seconds": self.training_seconds,
            "torch": self.torch,
            "device": self.device,
            "tests": json.dumps(dict(self.tests)),
            "evaluations": [evaluation.row() for evaluation in self.evaluations],
            "reliability": [{"count": b.count, "confidence": b.confidence, "accuracy": b.accuracy} for b in bins],
        }

    def content(self) -> dict[str, object]:
        """What its file holds; of what is not known, nothing."""
        values: dict[str, object] = {each.name: getattr(self, each.name) for each in fields(self)}
        values |= {
            "format": self.FORMAT,
            "trial": self.trial.model_dump(),
            "evaluations": [each.row() for each in self.evaluations],
            "notes": list(self.notes),
            "validation_reliability": tuple(map(asdict, self.validation_reliability)),
            "reliability": tuple(map(asdict, self.reliability)),
        }
        return {name: value for name, value in values.items() if value not in (None, (), {})}

    def to_json(self, indent: int | None = 1) -> str:
        return json.dumps(self.content(), indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: bytes | str, path: Path) -> "TrialResult":
        """What `to_json` wrote, in this version or an earlier one; `path` is for what is said of a bad one."""
        try:
            result = _RESULTS.validate_json(text, context=FROZEN)
        except ValidationError as error:
            check_format(path, json_or_none(text), cls.FORMAT)
            raise DataError(f"{path} is damaged ({first_problem(error)}): remove it, and it is made again") from error
        check_format(path, {"format": result.format}, cls.FORMAT)
        return result


_RESULTS = TypeAdapter(TrialResult)


@dataclass(frozen=True, slots=True)
class TrialRow:
    """A row of the table of trials: a place in the plan, and what has become of its trial."""

    phase: Phase
    arm: str
    number: int  # within the phase and the arm
    seed: int
    key: str
    status: Status
    reused: bool
    retries: int
    moves: Annotated[int, BeforeValidator(lambda moves: moves or 0)]
    error: str | None
    settings: Annotated[Mapping[str, Setting], BeforeValidator(json.loads)]
    epochs: int | None
    best_epoch: int | None
    training_seconds: float | None
    evaluations: Evaluations
    reliability: tuple[Bin, ...]  # of validation, point prediction, last epoch
    torch: str | None = None  # its version; 0.1.0 kept it in the results only
    device: str | None = None  # the kind
    tests: Annotated[Mapping[str, str], BeforeValidator(lambda tests: json.loads(tests or "{}"))] = field(
        default_factory=dict
    )  # further test sets that it predicted: their fingerprints

    @property
    def name(self) -> str:
        return f"{self.phase} {self.arm} {self.number}"

    @property
    def has_validation(self) -> bool:
        """Whether it predicted validation images: predictions from elsewhere need not."""
        return any(each.split == "validation" for each in self.evaluations)

    @property
    def figures(self) -> dict[str, float] | None:
        """What a search may see of it: validation figures of the point prediction at the last epoch."""
        return validation_figures(self.evaluations)


@dataclass(frozen=True)
class Proposal:
    """Settings that a search has proposed: search/ARM-NUMBER.json. In format 1 the settings were all of the file."""

    FORMAT = 2

    settings: Mapping[str, Setting]

    def to_json(self) -> str:
        return json.dumps({"format": self.FORMAT, "settings": dict(self.settings)})

    @classmethod
    def from_json(cls, text: bytes | str, path: Path) -> "Proposal":
        content = json_or_none(text)
        check_format(path, content, cls.FORMAT)
        if isinstance(content, Mapping) and isinstance(content.get("settings"), Mapping):
            content = content["settings"]
        if not isinstance(content, Mapping):
            raise DataError(f"{path} is damaged: remove it, and it is made again")
        return cls(cast(Mapping[str, Setting], content))


def json_or_none(text: bytes | str) -> object:
    """JSON, or None where it is none."""
    try:
        return cast(object, json.loads(text))
    except ValueError:
        return None


def first_problem(error: ValidationError) -> str:
    """What is wrong with a file, of several things the first, in a few words."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else first["msg"]
