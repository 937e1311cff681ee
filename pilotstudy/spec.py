"""The study file: what is trained on what. TOML, validated, every key known."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from pilotstudy import arms
from pilotstudy.errors import InputError, nearest
from pilotstudy.files import resource
from pilotstudy.statements import Statement


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Data(Section):
    """`name`: a known data set, or a folder. `validation`: images cut from the training ones to choose with.

    `train_size`: a class-balanced subset of what is left. `scaling`: inputs in [0, 1], or each channel standardised
    with the training images' mean and deviation. `image_size`: resize every image to this square.
    """

    name: str
    validation: int = Field(5000, ge=1)
    train_size: int | None = Field(None, ge=1)
    scaling: Literal["unit", "standardised"] = "unit"
    image_size: int | None = Field(None, ge=1)


class Network(Section):
    name: Literal["mlp-1024", "mlp-512", "cnn"]


class Training(Section):
    """`precision` other than float32 is for CUDA: tf32 multiplies in TF32, bf16 trains under autocast.

    `cuda_graph`: on CUDA, steps are captured once and replayed, which saves the host's time for each of their launches.
    """

    epochs: int = Field(ge=1)
    batch_size: int = Field(128, ge=1)
    learning_rate: float = Field(1e-3, gt=0)
    precision: Literal["float32", "tf32", "bf16"] = "float32"
    cuda_graph: bool = False


Objective = Literal["nll", "accuracy", "ece", "brier"]


class Search(Section):
    """Optuna's search, with the same number of trials for each of `arms`; each starts from the arm's settings above.

    `objectives` are validation figures of the point prediction at the last epoch; with several, the Pareto front is
    searched, and the first decides what is confirmed. `accuracy_floor`: settings whose validation accuracy is below it
    cannot win, because an untrained network can have a small ECE. `early_stopping`: ASHA, for each arm by itself.
    `confirm_seeds`: how many fresh seeds the best settings are trained with again.
    """

    arms: tuple[str, ...] = Field(min_length=1, strict=False)
    trials: int = Field(0, ge=0)
    objectives: tuple[Objective, ...] = Field(("nll",), min_length=1, strict=False)
    accuracy_floor: float = Field(0.0, ge=0, le=1)
    early_stopping: bool = False
    confirm_seeds: int = Field(3, ge=1)
    seed: int = Field(0, ge=0)


def share_of_gpu(given: object) -> float | Literal["auto"]:
    """A trial's share of a GPU: 1, 1/k for k trials on one (also as the text "1/3"), 0 for none, or "auto"."""
    if given == "auto":
        return "auto"
    try:
        text = str(given)
        share = 1 / int(text[2:]) if text.startswith("1/") else float(text)
        trials = round(1 / share) if share else 1
    except (ValueError, ZeroDivisionError, OverflowError):
        share = trials = -1
    if share > 1:
        raise ValueError("a trial trains on one GPU: give 1, or 1/k for k trials on one (0.5, 0.25, 1/3, ..)")
    if not 0 <= share <= 1 or (share and abs(share * trials - 1) > 1e-6):
        raise ValueError("give 1, 1/k for k trials on one GPU (0.5, 0.25, 1/3, ..), 0 for the CPU, or auto")
    return share


class Resources(Section):
    """What one trial is given. `gpus_per_trial`: 1/k for k trials on a GPU, or "auto" (one trial's memory decides).

    `checkpoint_seconds`: how often a trial saves itself, so how much of it a crash can cost; 0 is after every epoch.
    """

    cpus_per_trial: int = Field(1, ge=1)
    gpus_per_trial: float | Literal["auto"] | None = None
    concurrency: int | None = Field(None, ge=1)
    checkpoint_seconds: float = Field(10.0, ge=0, strict=False)

    @field_validator("gpus_per_trial", mode="before")
    @classmethod
    def _one_gpu_at_most(cls, given: object) -> object:
        return None if given is None else share_of_gpu(given)


class Claim(Section):
    """`says`: in words. `holds`: the same as a statement that a run can decide, such as `nll: pilot-a-aug < vanilla`.

    `section`: where the paper says it. `only`: the studies for which it says so; none means all.
    """

    says: str
    holds: str
    section: str = ""
    only: tuple[str, ...] = Field((), strict=False)

    @field_validator("holds")
    @classmethod
    def _can_be_decided(cls, text: str) -> str:
        try:
            Statement.parse(text)
        except InputError as error:
            raise ValueError(str(error)) from error
        return text


class Study(Section):
    """`arms`: name → its settings (in the file, what differs from its defaults), trained once for each of `seeds`.

    `claims`: what is expected, said before it runs; in the file also the path, beside it, of a file of claims.
    """

    name: str = ""
    title: str
    seeds: tuple[int, ...] = Field((0,), min_length=1, strict=False)
    data: Data
    network: Network
    training: Training
    arms: dict[str, dict[str, Any]] = Field(min_length=1)
    search: Search | None = None
    claims: tuple[Claim, ...] = Field((), strict=False)
    resources: Resources = Field(default_factory=lambda: Resources.model_validate({}))

    @field_validator("seeds")
    @classmethod
    def _distinct_seeds(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) < len(seeds) or min(seeds) < 0:
            raise ValueError("seeds must be different whole numbers, none below 0")
        return seeds


class Trial(Section):
    """One training: everything that decides its result, and nothing else."""

    arm: str
    settings: dict[str, Any]
    seed: int
    data: Data
    network: Network
    training: Training


def trial(study: Study, arm: str, seed: int) -> Trial:
    """`arm` at the study's settings, or, where the study does not list it, at the arm's defaults."""
    return Trial(
        arm=arm,
        settings=study.arms.get(arm) or arms.get(arm).settings().model_dump(),
        seed=seed,
        data=study.data,
        network=study.network,
        training=study.training,
    )


def builtin() -> list[str]:
    return sorted(path.stem for path in resource("studies").glob("*.toml"))


def load(study: str, overrides: Mapping[str, Any] | None = None) -> Study:
    """A built-in study by name, or a study file by path, with `overrides` (dotted key → value) on top."""
    path = resource("studies") / f"{study}.toml"
    if study not in builtin():
        path = Path(study)
        if not path.is_file():
            names = builtin()
            raise InputError(f"unknown study {study!r}: {nearest(study, names)} Or give the path of a study file.")
    content = read_toml(path)
    if isinstance(content.get("claims"), str):
        content["claims"] = read_toml(path.parent / content["claims"]).get("claims", [])
    content["claims"] = of_study(content.get("claims", []), path.stem)
    for key, value in (overrides or {}).items():
        put(content, key, value)
    return validate({"name": path.stem} | content, f"study {study}")


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid TOML: {error}") from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def of_study(claims: Any, name: str) -> Any:
    """Those claims that are made for this study, where a file of claims serves several."""
    if not isinstance(claims, list):
        return claims
    return [claim for claim in claims if not isinstance(claim, dict) or name in (claim.get("only") or [name])]


def put(content: dict[str, Any], key: str, value: Any) -> None:
    *sections, last = key.split(".")
    for section in sections:
        content = content.setdefault(section, {})
        if not isinstance(content, dict):
            raise InputError(f"--set {key}: {section!r} has no keys of its own")
    content[last] = value


def parse_override(text: str) -> tuple[str, Any]:
    """`key=value`, the value as in TOML; what is not TOML is a string."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"--set {text}: expected key=value, for example --set training.epochs=10")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def validate(content: dict[str, Any], where: str) -> Study:
    try:
        study = Study.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{where}: {explain(error, Study)}") from error
    settings = {}
    for name, given in study.arms.items():
        kind = arms.get(name).settings
        try:
            settings[name] = kind.model_validate(given).model_dump()
        except ValidationError as error:
            raise InputError(f"{where}: {explain(error, kind, f'arms.{name}.')}") from error
    for name in study.search.arms if study.search else ():
        if not arms.get(name).space:
            raise InputError(f"{where}: search.arms: {name!r} has nothing to search")
        settings.setdefault(name, arms.get(name).settings().model_dump())
    return study.model_copy(update={"arms": settings})


def explain(error: ValidationError, model: type[BaseModel], prefix: str = "") -> str:
    """The first thing that is wrong, in one line."""
    first = error.errors()[0]
    *sections, last = location = [str(part) for part in first["loc"]]
    key = prefix + ".".join(location)
    if first["type"] == "extra_forbidden":
        for section in sections:
            kinds = get_args(model.model_fields[section].annotation) or (model.model_fields[section].annotation,)
            model = next(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel))
        return f"unknown key {key!r}: {nearest(last, list(model.model_fields))}"
    if first["type"] == "missing":
        return f"the key {key!r} is missing"
    message = first["msg"].removeprefix("Value error, ")
    return f"{key} = {first['input']!r}: {message[0].lower()}{message[1:]}"
