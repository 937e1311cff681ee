"""The record of a run itself: the study as it was frozen, and where it came from."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from pilotstudy.arms.arm import Choice, Declared, Range
from pilotstudy.arms.catalogue import all_arms
from pilotstudy.data.dataset import DataSet
from pilotstudy.errors import DataError
from pilotstudy.runs.records import Plain, first_problem, json_or_none
from pilotstudy.storage import check_format
from pilotstudy.study.looks import Looks
from pilotstudy.study.resources import Location, Resources
from pilotstudy.study.spec import FROZEN, Study


@dataclass(frozen=True)
class Provenance:
    """Where a run came from."""

    code_version: str
    git_commit: str | None
    packages: Mapping[str, str | None]
    python: str
    machine: Mapping[str, Plain]


@dataclass(frozen=True)
class Start:
    """One start of a run, and the study that it was given."""

    at: str
    command: tuple[str, ...]
    study: Mapping[str, object]
    results: int = 0  # that were there already; 0 means that the study's claims came before any result


@dataclass(frozen=True)
class FrozenTest:
    """What readers must know of a further test set: see `data.dataset.TestSet`."""

    kind: Literal["shift", "ood"]
    fingerprint: str
    images: int
    paired: bool = False  # with the study's own test images, by row
    family: str = ""  # of a corruption
    strength: int = 0


def tests_of(data: DataSet) -> dict[str, FrozenTest]:
    """By name."""
    return {
        test.name: FrozenTest(test.kind, test.fingerprint, len(test.images), test.paired, test.family, test.strength)
        for test in data.tests
    }


@dataclass(frozen=True, kw_only=True)
class FrozenStudy:
    """All of study.json: the study as it was last run, how, from what, and each time that it was started."""

    FORMAT = 3

    format: int | None = field(default=None, compare=False)  # that its file says; 0.1.0 said none
    study: Mapping[str, object]  # as it was written; `parsed` has the defaults of later versions, too
    options: Mapping[str, object]  # where it ran; in format 1 also what each trial was given
    fingerprint: str  # of the data
    tests: Mapping[str, FrozenTest] = field(default_factory=dict)  # further test sets, by name
    provenance: Provenance
    history: tuple[Start, ...]
    devices: tuple[str, ...] = ()  # that its trials ran on
    arms: Mapping[str, Declared] = field(default_factory=dict)  # by row; 0.2.0 and before kept none
    spaces: Mapping[str, Mapping[str, Range | Choice]] = field(default_factory=dict)  # by searched row
    looks: Looks | None = None  # where seeds are added until the claims are decided

    def parsed(self) -> Study:
        """The study; in format 1, what each trial is given stood in the options."""
        try:
            study = with_units(Study.model_validate(self.study, strict=False, context=FROZEN))
        except ValidationError as error:
            raise DataError(f"the study of this run is damaged: {first_problem(error)}") from error
        resources = {name: self.options[name] for name in Resources.model_fields if name in self.options}
        return study.model_copy(update={"resources": study.resources.changed(resources)}) if resources else study

    def declared(self) -> dict[str, Declared]:
        """What there is to know of each row of the study, whether or not its arm's code is here."""
        rows = {name: Declared(name=name) for name in self.parsed().arms}
        return rows | {name: arm for name, arm in all_arms().items() if name in rows} | dict(self.arms)

    @property
    def location(self) -> Location:
        """Where it ran, and where its data lay."""
        data_dir, address = (self.options.get(name) for name in ("data_dir", "address"))
        return Location(str(data_dir) if data_dir else None, str(address) if address else None)

    def content(self) -> dict[str, object]:
        return asdict(self) | {"format": self.FORMAT}

    def to_json(self) -> str:
        return json.dumps(self.content(), indent=1, default=str)

    @classmethod
    def from_json(cls, text: bytes | str, path: Path) -> "FrozenStudy":
        content = json_or_none(text)
        if not isinstance(content, Mapping):
            raise damaged(path)
        check_format(path, content, cls.FORMAT)
        try:
            return _FROZEN.validate_python(content)
        except ValidationError as error:
            raise damaged(path, f" ({first_problem(error)})") from error


def with_units(study: Study) -> Study:
    """0.1.0 did not say what variances were in: Pilot's in what its DGM sees, those of noise in raw values."""
    arms = dict(study.arms)
    for name, settings in study.arms.items():
        arm = all_arms().get(study.method(name))
        known = arm.settings.model_fields if arm else {}
        if "variance_in" in known and "variance_in" not in settings:
            normalised = settings.get("normalise", "normalise" in known)
            arms[name] = {**settings, "variance_in": "relative" if normalised else "raw"}
    return study.model_copy(update={"arms": arms})


_FROZEN = TypeAdapter(FrozenStudy)


def damaged(path: Path, why: str = "") -> DataError:
    """What to raise where a run's record is not one."""
    return DataError(f"{path} is damaged{why}: bring a copy of it back, or start the study under another name")
