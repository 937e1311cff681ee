"""What a run trains at this moment: running.json, which its driver writes every few seconds while it trains."""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from pydantic import TypeAdapter

from pilotstudy.errors import NewerFormatError
from pilotstudy.runs.layout import RunFiles
from pilotstudy.runs.records import json_or_none
from pilotstudy.storage import check_format, read
from pilotstudy.study.budget import Phase


def timestamp(seconds: float) -> str:
    """Seconds since 1970 as files have them."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class RunningTrial:
    """A trial under way; `epoch` is the last that it has told of."""

    phase: Phase
    arm: str
    number: int
    seed: int
    key: str
    since: str
    epoch: int
    epochs: int


@dataclass(frozen=True)
class UnderWay:
    """`at`: when it was written. `ends`: when all will be done, if it goes on like this."""

    FORMAT = 1

    at: str
    ends: str | None
    trials: tuple[RunningTrial, ...]

    def to_json(self) -> str:
        return json.dumps({"format": self.FORMAT} | asdict(self))

    @classmethod
    def of(cls, files: RunFiles) -> "UnderWay | None":
        """What the driver told last; None where it has told nothing, or nothing that can be read."""
        try:
            content = json_or_none(read(files.running))
            check_format(files.running, content, cls.FORMAT)
            return _UNDER_WAY.validate_python(content)
        except (OSError, ValueError, NewerFormatError):
            return None


_UNDER_WAY = TypeAdapter(UnderWay)
