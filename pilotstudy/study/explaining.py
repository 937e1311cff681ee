"""What pydantic found, in the words of a study file: the key and its value, what is expected, what to do."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pilotstudy.arms.catalogue import all_arms
from pilotstudy.errors import nearest
from pilotstudy.study.faults import Fault, dotted, shown
from pilotstudy.study.lines import KeyPath
from pilotstudy.study.recipe import OPTIMISERS, Optimiser

SMALLEST = {  # what a section, or a key that must be there, looks like
    "data": '[data] with name = "fashion" and validation = 1000',
    "data.name": 'name = "fashion", or the path of a folder of your own',
    "network": '[network] with name = "mlp-512"',
    "network.name": 'name = "mlp-512"',
    "training": "[training] with epochs = 10",
    "training.epochs": "epochs = 10",
    "arms": "[arms] with vanilla = {} and dropout = {}",
    "search": '[search] with arms = ["dropout"] and trials = 8',
    "search.arms": 'arms = ["dropout"]',
    "tests": '[[tests]] with data = "corrupted:noise"',
    "claims": '[[claims]] with says = ".." and holds = "nll: dropout < vanilla"',
    "resources": "[resources] with cpus_per_trial = 1",
}
ALSO_CALLED = {  # other words that people use
    "seed": "seeds",
    "ranges": "space",
    "lr": "learning_rate",
    "rate": "learning_rate",
    "optimizer": "optimiser",
    "opt": "optimiser",
    "scheduler": "schedule",
    "model": "network",
    "architecture": "network",
    "dataset": "data",
    "methods": "arms",
    "regularisers": "arms",
    "regularizers": "arms",
    "hyperparameters": "search",
    "train": "training",
    "n_trials": "trials",
    "clip": "gradient_clip",
    "augment": "augmentation",
}
EXPECTED = {
    "string_type": "expected a text in quotes",
    "bool_type": "expected true or false",
    "int_type": "expected a valid integer, such as 10",
    "int_from_float": "expected a valid integer, such as 10",
    "int_parsing_size": "the number is too large",
    "float_type": "expected a number, such as 0.5",
    "float_parsing": "expected a number, such as 0.5",
    "finite_number": "expected a finite number",
    "too_short": "expected at least one entry",
}
MOST = 2_000  # faults that are put into words
A_SECTION = ("model_type", "model_attributes_type", "dict_type")
A_LIST = ("tuple_type", "list_type")
LISTS = {
    int: "a list of whole numbers, such as [0, 1, 2]",
    float: "a list of numbers, such as [0.5, 0.75]",
    str: 'a list of texts, such as ["dropout", "l2"]',
}


def faults_of(
    error: ValidationError, model: type[BaseModel], given: Mapping[str, object], prefix: KeyPath = ()
) -> list[Fault]:
    """Everything that is wrong, once for each key: what pydantic says of each kind that a value might have is one."""
    by_path: dict[KeyPath, list[ErrorDetails]] = {}
    for each in error.errors(include_url=False)[:MOST]:
        by_path.setdefault(_path_in(given, each), []).append(each)
    unknown = {
        path: _unknown(model, path, prefix) for path, errors in by_path.items() if _is(errors, "extra_forbidden")
    }
    meant = " ".join(unknown.values())
    faults = []
    for path, errors in by_path.items():
        if _is(errors, "too_short") and any(other[: len(path)] == path != other for other in by_path):
            continue  # it has entries, and each is told what is wrong with it
        if _is(errors, "missing") and f"did you mean {path[-1]!r}" in meant:
            continue  # it is there, misspelt
        text = unknown.get(path) or _told(model, path, prefix, errors)
        faults.append(Fault(prefix + path, text))
    return faults


def _is(errors: Sequence[ErrorDetails], kind: str) -> bool:
    return errors[0]["type"] == kind


def _path_in(given: object, error: ErrorDetails) -> KeyPath:
    """pydantic's location as far as there is such a key: kinds of a union are part of it, too."""
    path: KeyPath = ()
    for part in error["loc"]:
        if isinstance(given, Mapping) and part in given:
            given = given[part]
        elif isinstance(given, list | tuple) and part in range(len(given)):
            given = given[int(part)]
        elif isinstance(given, Mapping) and error["type"] == "missing" and part == error["loc"][-1]:
            return (*path, part)
        else:
            return path
        path += (part,)
    return path


def _told(model: type[BaseModel], path: KeyPath, prefix: KeyPath, errors: Sequence[ErrorDetails]) -> str:
    key = dotted(prefix + path)
    if _is(errors, "missing"):
        example = SMALLEST.get(key)
        return f"the key {key!r} is missing" + (f": add {example}" if example else "")
    expected = " or ".join(dict.fromkeys(_expected(model, path, key, each) for each in errors))
    value = errors[0]["input"]
    if not key or (_is(errors, "value_error") and isinstance(value, Mapping | BaseModel)):
        return f"{key or 'the study'}: {expected}"
    return f"{key} = {shown(value)}: {expected}"


def _expected(model: type[BaseModel], path: KeyPath, key: str, error: ErrorDetails) -> str:
    kind = error["type"]
    if kind in A_SECTION:
        return f"expected a section: {SMALLEST[key]}" if key in SMALLEST else "expected a table, such as {}"
    if kind in A_LIST:
        return f"expected {_list_of(model, path, key)}"
    if kind == "too_long":
        return f"expected at most {error['ctx']['max_length']:,} entries"
    message = error["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    if kind.startswith(("greater", "less")):
        return message.replace("input should be", "it must be")
    return EXPECTED.get(kind) or message.replace("input should be", "expected")


def _list_of(model: type[BaseModel], path: KeyPath, key: str) -> str:
    if key in SMALLEST:
        return SMALLEST[key]
    inner = (each for kind in _kinds_at(model, path) for argument in get_args(kind) for each in _alternatives(argument))
    return next((LISTS[each] for each in inner if isinstance(each, type) and each in LISTS), "a list")


def _kinds_at(model: type[BaseModel], path: KeyPath) -> list[object]:
    """The kinds that the value of a key may have."""
    kinds: list[object] = [model]
    for part in path:
        kinds = [inner for kind in kinds for inner in _inside(kind, part)]
    return kinds


def _inside(kind: object, part: str | int) -> Iterator[object]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        field = kind.model_fields.get(str(part))
        yield from _alternatives(field.annotation) if field else ()
    elif get_origin(kind) in (tuple, list, dict):
        for inner in get_args(kind):
            yield from _alternatives(inner)


def _alternatives(annotation: object) -> Iterator[object]:
    if get_origin(annotation) is Annotated:
        yield from _alternatives(get_args(annotation)[0])
    elif get_origin(annotation) is Union or type(annotation).__name__ == "UnionType":
        for inner in get_args(annotation):
            yield from _alternatives(inner)
    else:
        yield annotation


def _unknown(model: type[BaseModel], path: KeyPath, prefix: KeyPath) -> str:
    """A key that nothing has: what it is called, or where it belongs."""
    *_, last = path
    section = next((kind for kind in _kinds_at(model, path[:-1]) if hasattr(kind, "model_fields")), model)
    known: list[str] = list(getattr(section, "model_fields", ()))
    if section is Optimiser:  # its options may stand beside its name
        known = list(dict.fromkeys((*known, *(option for options in OPTIMISERS.values() for option in options))))
    text = f"unknown key {dotted(prefix + path)!r}: "
    if owners := [name for name, options in OPTIMISERS.items() if section is Optimiser and last in options]:
        return f"{text}it is an option of {', '.join(owners)}"
    if not known:
        return f"{text}{dotted((prefix + path)[:-1])} has no settings"
    other = ALSO_CALLED.get(str(last))
    if other in known:
        return f"{text}did you mean {other!r}?"
    homes = [] if prefix else [home for home, keys in _sections(model) if last in keys and home != dotted(path[:-1])]
    if not prefix and last in all_arms():
        homes = ["arms"]
    if len(homes) == 1:
        return text + (f"it belongs in [{homes[0]}]" if homes[0] else "it belongs above the first [section]")
    return text + nearest(str(last), known)


def _sections(model: type[BaseModel], name: str = "") -> Iterator[tuple[str, list[str]]]:
    """Every section by its name, with its keys; what comes in lists is none."""
    yield name, list(model.model_fields)
    for key, field in model.model_fields.items():
        for kind in _alternatives(field.annotation):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from _sections(kind, f"{name}.{key}".lstrip("."))
