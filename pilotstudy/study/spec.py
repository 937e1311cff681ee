"""The study file: what is trained on what. TOML, validated, every key known."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from pilotstudy.arms.arm import Setting
from pilotstudy.errors import InputError
from pilotstudy.metrics import registry
from pilotstudy.networks.catalogue import check_name
from pilotstudy.study.recipe import Training, named
from pilotstudy.study.resources import Resources
from pilotstudy.study.section import Section

IMPORTED = "imported"  # the network of a study whose predictions came from elsewhere
FROZEN = "frozen"  # the context in which the study of a run is validated, which is there to be read
MOST = 10_000  # seeds of a study
MOST_TRIALS = 1_000_000  # of a search
LONGEST_NAME = 255  # of a file
MOST_ROWS = 1_000  # and claims
MOST_TESTS = 100
LARGEST_SEED = 2**62  # of a trial; those of a study leave room for fresh ones after them


class Data(Section):
    """`name`: a known data set, or your own: a folder, a .npz file, `hf:owner/name`.

    `validation`: images cut from the training ones to choose with. `train_size`: a class-balanced subset of what is
    left, or "all" of it; `train_subset`: whether every seed has the same, or each seed its own. `scaling`: inputs in
    [0, 1], or each channel standardised with the training images' mean and deviation. `image_size`: resize every image
    to this square.
    """

    name: str
    validation: int = Field(5000, ge=1, le=10**9)
    train_size: int | None = Field(None, ge=1, le=10**9)
    train_subset: Literal["fixed", "by-seed"] = "fixed"
    scaling: Literal["unit", "standardised"] = "unit"
    image_size: int | None = Field(None, ge=1, le=4096)

    @field_validator("train_size", mode="before")
    @classmethod
    def _all_of_it(cls, size: object) -> object:
        return None if size == "all" else size

    @field_validator("name")
    @classmethod
    def _can_be_a_path(cls, name: str) -> str:
        if not name or max(map(len, name.split("/"))) > LONGEST_NAME:
            raise ValueError("expected a known data set, a folder or file of your own, or hf:owner/name")
        return name

    @model_validator(mode="after")
    def _subset_of_what(self) -> "Data":
        if self.train_subset == "by-seed" and self.train_size is None:
            raise ValueError("train_subset = 'by-seed' needs a train_size: all images are the same for every seed")
        return self


class NetworkChoice(Section):
    """`name`: a built-in network, one of your own (`module:function`), `torchvision:NAME` or `timm:NAME`.

    `options`: what its function takes. `layers`: the modules whose outputs are the raw activations, in the order in
    which they run; by default, the linear and convolutional ones without the last.
    """

    name: str
    options: dict[str, Any] = Field(default_factory=dict)
    layers: tuple[str, ...] | None = Field(None, min_length=1, strict=False)

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        return named(value)

    @field_validator("name")
    @classmethod
    def _is_known(cls, name: str, info: ValidationInfo) -> str:
        if info.context != FROZEN:
            try:
                check_name(name)
            except InputError as error:
                raise ValueError(str(error)) from error
        return name


def _is_objective(name: str, info: ValidationInfo) -> str:
    *first, last = registry.objectives()
    if name not in (*first, last) and (info.context != FROZEN):
        raise ValueError(f"input should be {', '.join(map(repr, first))} or {last!r}")
    return name


Objective = Annotated[str, AfterValidator(_is_objective)]


class Search(Section):
    """Optuna's search, with the same budget for each of `arms`; each starts from the arm's settings above.

    `trials`: of all arms together. `budget`: what is the same for each: the number of its trials, or its training
    seconds: then the next trial is always one of the arm that has used the least of them.
    `objectives` are validation figures of the point prediction at the last epoch; with several, the Pareto front is
    searched, and the first decides what is confirmed. `accuracy_floor`: settings whose validation accuracy is below it
    cannot win, because an untrained network can have a small ECE. `early_stopping`: ASHA, for each arm alone, judged
    by the first objective (by NLL where that is not reported after every epoch). `confirm_seeds`: how many fresh seeds
    the best settings are trained with again. `space`: what may be chosen, for all searched arms or, in a table of its
    name, for one: beside the arm's own settings, or with other bounds, and of the recipe
    (`"training.learning_rate" = { low = 1e-4, high = 0.1, log = true }`).
    """

    arms: tuple[str, ...] = Field(min_length=1, strict=False)
    trials: int = Field(0, ge=0, le=MOST_TRIALS)
    budget: Literal["trials", "seconds"] = "trials"
    objectives: tuple[Objective, ...] = Field((registry.DEFAULT_OBJECTIVE,), min_length=1, strict=False)
    accuracy_floor: float = Field(0.0, ge=0, le=1)
    early_stopping: bool = False
    confirm_seeds: int = Field(3, ge=1, le=MOST)
    seed: int = Field(0, ge=0, le=LARGEST_SEED)
    space: dict[str, Any] = Field(default_factory=dict)


class Claim(Section):
    """`says`: in words. `holds`: the same as a statement that a run can decide, such as `nll: pilot-a-aug < vanilla`.

    `section`: where the paper says it. `only`: the studies for which it says so; none means all.
    """

    says: str
    holds: str
    section: str = ""
    only: tuple[str, ...] = Field((), strict=False)


class Used(Section):
    """A Python file of the user's own that comes with the study; in the file of the study just its path, beside it."""

    name: str
    text: str


class Imported(Section):
    """A file of predictions that were made elsewhere, and how many trials it brought."""

    file: str
    sha256: str
    trials: int = Field(ge=0)


class ExtraTest(Section):
    """A test set beside the study's own test images, or several.

    `data`: as for a study, of which the test images are taken; `corrupted:noise-3`, `corrupted:noise` (five strengths),
    `corrupted:all-3` or `corrupted:all` of the study's own; `test`, those as they are; a .npy file of CIFAR-10-C or
    CIFAR-10.1. `kind`: `shift`, of the study's classes, or `ood`, of none of them. `name`: by default from `data`.
    `size`: a fixed subset with the share of each class. `soft_labels`: a .npy file [n, K] of what people said of each
    image.
    """

    data: str = Field(min_length=1)
    kind: Literal["shift", "ood"] = "shift"
    name: str = ""
    size: int | None = Field(None, ge=1, le=10**9)
    soft_labels: str | None = Field(None, min_length=1)


OF_ROWS = ("method", "label")  # keys of an arm that are no settings


class Study(Section):
    """`arms`: name → its settings (in the file, what differs from its defaults), trained once for each of `seeds`.

    A name is an arm's, or any other with the `method` that it stands for, or several that are composed, and perhaps a
    `label`. `tests`: further test sets. `claims`: what is expected, said before it runs; in the file also the path,
    beside it, of a file of claims. `uses`: Python files beside it with networks, arms and metrics of one's own.
    `imported`: what its predictions are, where nothing is trained; no study file has it.
    """

    name: str = ""
    title: str = ""
    uses: tuple[Used, ...] = Field((), strict=False)
    seeds: tuple[int, ...] = Field((0,), min_length=1, max_length=MOST, strict=False)
    data: Data
    network: NetworkChoice
    training: Training
    arms: dict[str, dict[str, Any]] = Field(min_length=1, max_length=MOST_ROWS)
    search: Search | None = None
    tests: tuple[ExtraTest, ...] = Field((), max_length=MOST_TESTS, strict=False)
    claims: tuple[Claim, ...] = Field((), max_length=MOST_ROWS, strict=False)
    resources: Resources = Field(default_factory=lambda: Resources.model_validate({}))
    imported: tuple[Imported, ...] | None = Field(None, strict=False)

    @model_validator(mode="before")
    @classmethod
    def _untrained(cls, value: object) -> object:
        """What was imported says nothing of a network or a training."""
        if isinstance(value, dict) and value.get("imported"):
            return {"network": {"name": IMPORTED}, "training": {"epochs": 1}} | value
        return value

    @field_validator("seeds")
    @classmethod
    def _distinct_seeds(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) > LARGEST_SEED // 2:
            raise ValueError(f"seeds must be different whole numbers from 0 to {LARGEST_SEED // 2}")
        return seeds

    def method(self, arm: str) -> str:
        """What a row is trained with: an arm, or several composed (`pilot-a-aug+dropout`)."""
        named_method = self.arms.get(arm, {}).get("method", arm)
        return "+".join(map(str, named_method)) if isinstance(named_method, list | tuple) else str(named_method)

    def settings(self, arm: str) -> dict[str, Setting]:
        """The settings of a row."""
        return {key: value for key, value in self.arms[arm].items() if key not in OF_ROWS}


class Trial(Section):
    """One training: everything that decides its result, and nothing else. `arm`: its method; rows may share one."""

    arm: str
    settings: dict[str, Any]
    seed: int = Field(ge=0, le=LARGEST_SEED)
    data: Data
    network: NetworkChoice
    training: Training
