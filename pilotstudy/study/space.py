"""What a search may choose for each arm of a study: what the arm declares, and what `[search.space]` says."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field, ValidationError, model_validator

from pilotstudy.arms.arm import Choice, Range, Setting, Space
from pilotstudy.errors import InputError, nearest
from pilotstudy.study.explaining import faults_of
from pilotstudy.study.faults import Fault, collecting, dotted, shown
from pilotstudy.study.lines import KeyPath
from pilotstudy.study.recipe import PREFIX, SEARCHED, with_recipe
from pilotstudy.study.rows import arm_of
from pilotstudy.study.section import Section
from pilotstudy.study.spec import Study

LARGEST_WHOLE = 2**53  # beyond it a float is not exact


class _Bounds(Section):
    low: float = Field(strict=False)
    high: float = Field(strict=False)
    log: bool = False
    whole: bool = False

    @model_validator(mode="after")
    def _in_order(self) -> "_Bounds":
        if not self.low < self.high:
            raise ValueError("low must be less than high")
        if self.log and self.low <= 0:
            raise ValueError("a logarithmic range must be above 0")
        if self.whole and (self.low % 1 or self.high % 1):
            raise ValueError("the bounds of whole numbers must be whole")
        if self.whole and max(abs(self.low), abs(self.high)) > LARGEST_WHOLE:
            raise ValueError("the bounds of whole numbers are at most 2^53")
        return self


def space_of(study: Study, arm: str) -> Space:
    """By setting, or by key of the recipe (`training.learning_rate`), what the arm's search may choose."""
    declared = dict(arm_of(study, arm).space)
    for name, choice in _entries(study, arm).items():
        if not name.startswith(PREFIX) and name not in arm_of(study, arm).settings.model_fields:
            continue  # it is for other arms
        declared[name] = choice
    return declared


def start_of(study: Study, arm: str, space: Space | None = None) -> dict[str, Setting]:
    """The settings that a search starts from, with those keys of the recipe that it changes."""
    recipe = study.training.model_dump()
    searched = (name for name in (space_of(study, arm) if space is None else space) if name.startswith(PREFIX))
    return study.settings(arm) | {name: recipe[name.removeprefix(PREFIX)] for name in searched}


def _entries(study: Study, arm: str) -> dict[str, Range | Choice]:
    """What the file says of an arm: the entries for all, then its own."""
    common, own = _tables(study)
    listed = [*_listed(common), *_listed(own.get(arm, {}), arm)]
    return {name: _choice(entry, path) for name, entry, path in listed}


def _tables(study: Study) -> tuple[dict[str, object], dict[str, Mapping[str, object]]]:
    """The entries for all searched arms, and the tables of single ones."""
    assert study.search is not None
    common, own = dict(study.search.space), {}
    for name in study.search.arms:
        table = common.get(name)
        if isinstance(table, Mapping) and _is_table(table):
            del common[name]
            own[name] = table
    return common, own


def _is_table(entry: object) -> bool:
    """Whether it is meant for a single arm, rather than a range or choices."""
    return isinstance(entry, Mapping) and not {"low", "high"} & set(entry)


def _listed(table: Mapping[str, object], arm: str = "") -> Iterator[tuple[str, object, KeyPath]]:
    """The entries of a table: name, what it says, and where it stands."""
    path: KeyPath = ("search", "space", arm) if arm else ("search", "space")
    for name, entry in table.items():
        if name == PREFIX.rstrip(".") and isinstance(entry, Mapping):  # a dotted key without quotes is a table in TOML
            yield from ((f"{PREFIX}{key}", each, (*path, name, key)) for key, each in entry.items())
        else:
            yield name, entry, (*path, name)


def _choice(entry: object, path: KeyPath) -> Range | Choice:
    where = dotted(path)
    if isinstance(entry, list | tuple):
        if not entry or not all(isinstance(option, bool | int | float | str) for option in entry):
            raise InputError(f"{where}: choices are a list of texts or numbers, at least one")
        return Choice(tuple(entry))
    if not isinstance(entry, Mapping):
        raise InputError(f"{where} = {shown(entry)}: expected {{ low = .., high = .. }} or a list of choices")
    try:
        return Range(**_Bounds.model_validate(entry).model_dump())
    except ValidationError as error:
        told = (fault.text for fault in faults_of(error, _Bounds, entry, path))
        raise InputError("; ".join(told)) from error


def check_space(study: Study, arms: Sequence[str]) -> list[Fault]:
    """Names that nothing has, and values that a setting cannot take, of those searched arms that there are."""
    faults: list[Fault] = []
    common, own = _tables(study)
    settings = {arm: set(arm_of(study, arm).settings.model_fields) for arm in arms}
    recipe = {f"{PREFIX}{key}" for key in SEARCHED}
    known = sorted(recipe.union(*settings.values()))
    for name, entry, path in _listed(common):
        with collecting(faults, path):
            if name not in known and _is_table(entry):
                searched = nearest(name, list(study.search.arms) if study.search else [])
                raise InputError(f"search.space.{name}: search.arms has no {shown(name)}: {searched}")
            choice = _choice(entry, path)
            if name not in known:
                raise InputError(f"search.space: unknown name {shown(name)}: {nearest(name, known)}")
            for arm in arms:
                _check_values(study, arm, name, choice)
    for arm in arms:
        for name, entry, path in _listed(own.get(arm, {}), arm):
            with collecting(faults, path):
                choice = _choice(entry, path)
                if name not in settings[arm] | recipe:
                    mine = sorted(settings[arm] | recipe)
                    raise InputError(f"search.space.{arm}: {arm} has no setting {shown(name)}: {nearest(name, mine)}")
                _check_values(study, arm, name, choice)
    return faults or _unstartable(study, arms)


def _unstartable(study: Study, arms: Sequence[str]) -> list[Fault]:
    """Searches that have nothing to choose, or nothing to start from."""
    faults: list[Fault] = []
    for arm in arms:
        unset = [name for name, value in start_of(study, arm).items() if value is None]
        for name in unset:
            told = f"search.space: {name} needs a value in the study for the search to start from"
            faults.append(Fault(("search", "space", name), told))
        if not space_of(study, arm):
            told = f"search.arms: {arm!r} has nothing to search: give it something in [search.space]"
            faults.append(Fault(("search", "arms"), told))
    return faults


def _check_values(study: Study, arm: str, name: str, choice: Range | Choice) -> None:
    """Both ends of a range, or each choice, must be what the setting takes."""
    declaration = arm_of(study, arm)
    ends: tuple[Setting, ...] = choice.options if isinstance(choice, Choice) else (choice.low, choice.high)
    is_whole = SEARCHED.get(name.removeprefix(PREFIX)) is int or (
        name in declaration.settings.model_fields and declaration.settings.model_fields[name].annotation is int
    )
    if isinstance(choice, Range) and is_whole:
        if not choice.whole:
            raise InputError(f"search.space.{name}: it takes whole numbers: add whole = true")
        ends = int(choice.low), int(choice.high)
    for value in ends:
        try:
            if name.startswith(PREFIX):
                with_recipe(study.training, {name: value})
            elif name in declaration.settings.model_fields:
                declaration.settings.model_validate(study.settings(arm) | {name: value})
        except ValidationError as error:
            said = error.errors()[0]["msg"].removeprefix("Value error, ")
            said = f"{said[0].lower()}{said[1:]}".replace("input should be", "it must be")
            raise InputError(f"search.space.{name}: {arm} cannot have {shown(value)}: {said}") from error
