"""What the driver and the actors of a run tell each other.

Ray Tune carries it: a work order as text, because Tune keeps statistics of every number in what it is given; a report
as a dict of plain values, to which it adds its own.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from pilotstudy.errors import DataError
from pilotstudy.runs.records import Place, Plain, Status, TrialResult, first_problem
from pilotstudy.storage import check_format
from pilotstudy.study.spec import FROZEN, Trial


def slice_seconds(concurrency: int) -> float:
    """How long a trial trains between two reports: the driver takes some two hundred of them a second with ease."""
    return max(1.0, concurrency / 200)


def stop_mark(session: str) -> bytes:
    """The key, in the cluster's own store, that tells the trials of a session to save and end."""
    return f"pilotstudy-stop-{session}".encode()


@dataclass(frozen=True)
class WorkOrder:
    """What an actor is to train, and how."""

    trial: Trial
    uses: list[dict[str, str]]  # files of the user's own that came with the study
    key: str
    folder: str  # of the run
    session: str  # a name for this start of the run
    threads: int
    gpus: float  # its share of a GPU; 0: it trains on the CPU
    mps: bool
    graph: bool  # whether steps may be captured as a CUDA graph
    test: bool  # whether it predicts the test images
    forgiven: int  # restarts that do not count against the trial
    slice_seconds: float  # how long to train between two reports
    checkpoint_seconds: float
    each_epoch: bool  # report after every epoch, for early stopping

    def to_json(self) -> str:
        return json.dumps(vars(self) | {"trial": self.trial.model_dump()})

    @classmethod
    def from_json(cls, text: str) -> "WorkOrder":
        content = json.loads(text)
        # The study was validated where it was read; what its own files declare is not known here yet.
        return cls(**content | {"trial": Trial.model_validate(content["trial"], context=FROZEN)})


class Interruption(StrEnum):
    """What an actor's work on a trial can end with, beside the statuses of a trial that has ended."""

    SAVED = "saved"  # it was told to stop
    STORAGE = "storage"  # a file cannot be written
    OUT_OF_MEMORY = "out of memory"  # its share of a GPU is too small


class FaultKind(StrEnum):
    """What an error is put down to."""

    TRIAL = "trial"  # itself
    STORAGE = "storage"  # where files are written
    OUT_OF_MEMORY = "out of memory"  # too small a share of a GPU
    CAPTURE = "capture"  # steps that cannot be captured as a CUDA graph
    NODE = "node"  # the node, or a GPU of it


@dataclass(frozen=True)
class Fault:
    """What went wrong with a trial, and where. `ends_process`: its process is of no more use, to any trial."""

    kind: FaultKind
    error: str  # in one line
    traceback: str | None = None
    place: Place | None = None
    ends_process: bool = False

    @property
    def ending(self) -> Status | Interruption:
        """How the trial ends with it, where the process goes on."""
        return ENDINGS.get(self.kind, Status.FAILED)


ENDINGS = {
    FaultKind.STORAGE: Interruption.STORAGE,
    FaultKind.OUT_OF_MEMORY: Interruption.OUT_OF_MEMORY,
}
SENT = Path("the result that an actor sent")
KINDS: dict[Status | Interruption | None, FaultKind] = {ending: kind for kind, ending in ENDINGS.items()}


@dataclass(frozen=True)
class Report:
    """What an actor tells after training for a while. `record`: the last epoch's, for early stopping and the screen."""

    place: Place | None = None
    device: str = ""
    record: Mapping[str, float] = field(default_factory=dict)
    ending: Status | Interruption | None = None  # None while the trial goes on
    fault: Fault | None = None
    result: str = ""  # of a trial that has ended, as text: the driver need not fetch it from a store far away

    @classmethod
    def of_fault(cls, fault: Fault) -> "Report":
        """The last one, of a trial that met it."""
        return cls(fault.place, ending=fault.ending, fault=fault)

    @property
    def epoch(self) -> int:
        return int(self.record.get("epoch", 0))

    @property
    def seconds(self) -> float | None:
        """Of training, so far."""
        return self.record.get("training_seconds")

    def trial_result(self) -> TrialResult:
        """Of a trial that has finished or diverged."""
        return TrialResult.from_json(self.result, SENT)

    def to_tune(self) -> dict[str, Plain]:
        """As Tune carries it. `done` tells Tune that the trial has ended."""
        values: dict[str, Plain] = {**self.record, "device": self.device}
        if self.place:
            values |= self.place._asdict()
        if self.ending is not None:
            values |= {"done": True, "status": str(self.ending)}
        if self.fault:
            values |= {"error": self.fault.error, "traceback": self.fault.traceback}
        if self.result:
            values["result"] = self.result
        return values

    @classmethod
    def from_tune(cls, values: Mapping[str, object]) -> "Report":
        """Of what Tune hands over, which may be nothing; what Tune has added is left aside."""

        def text(name: str) -> str:
            return str(values.get(name) or "")

        place = Place(text("node"), text("host"), text("gpu")) if "node" in values else None
        numbers = ((name, values.get(name)) for name in ("epoch", "images_per_second", "training_seconds"))
        record = {name: value for name, value in numbers if isinstance(value, int | float)}
        ending = ending_named(text("status"))
        kind = KINDS.get(ending, FaultKind.TRIAL)
        fault = Fault(kind, text("error"), text("traceback") or None, place) if "error" in values else None
        return cls(place, text("device"), record, ending, fault, text("result"))


def ending_named(text: str) -> Status | Interruption | None:
    """The ending that a report names."""
    if not text:
        return None
    return Interruption(text) if text in {str(ending) for ending in Interruption} else Status(text)


@dataclass(frozen=True)
class Starts:
    """How often a trial was started in a session, and where last: checkpoints/KEY.json, while it is under way."""

    FORMAT = 1

    session: str
    node: str
    moves: int = 0  # after its node was lost
    restarts: int = 0  # after its process had died

    def again(self, node: str, *, moved: bool) -> "Starts":
        """After one more start."""
        if moved:
            return replace(self, node=node, moves=self.moves + 1)
        return replace(self, node=node, restarts=self.restarts + 1)

    def to_json(self) -> str:
        return json.dumps({"format": self.FORMAT} | asdict(self))

    @classmethod
    def from_json(cls, text: bytes, path: Path) -> "Starts":
        try:
            check_format(path, json.loads(text), cls.FORMAT)
            return _STARTS.validate_json(text)
        except ValidationError as error:
            raise DataError(f"{path} is damaged: {first_problem(error)}") from error
        except ValueError as error:
            raise DataError(f"{path} is damaged") from error


_STARTS = TypeAdapter(Starts)
