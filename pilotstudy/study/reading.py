"""Reads a study: a built-in one or a file, with what the command line changes, every key checked."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from pilotstudy import extensions
from pilotstudy.console import message
from pilotstudy.errors import InputError, nearest
from pilotstudy.metrics import registry
from pilotstudy.storage import packaged
from pilotstudy.study.budget import claims_without_rows
from pilotstudy.study.checking import checked
from pilotstudy.study.explaining import faults_of
from pilotstudy.study.faults import TOO_DEEP, Fault, Places, odd_values, printable, refuse, shown
from pilotstudy.study.lines import KeyPath, key_parts
from pilotstudy.study.naming import wrong_name
from pilotstudy.study.spec import Claim, Study, Used

LARGEST = 2_000_000  # bytes of a file
# Keys within keys without end, for which tomllib takes time without end.
ENDLESS = re.compile(r"""(?<![\w"'-])(?:[\w"'-]+[ \t]*\.[ \t]*){200}""")

extensions.on_forgetting(registry.forget)


def builtin_studies() -> list[str]:
    return sorted(path.stem for path in packaged("studies").glob("*.toml"))


def read_study(
    study: str, overrides: Mapping[str, object] | None = None, options: Mapping[str, str] | None = None
) -> Study:
    """A built-in study by name, or a study file by path, with `overrides` (dotted key → value) on top.

    `options`: which option of a command said so, where it was not `--set`.
    """
    path = _path_of(study)
    text = read_text(path)
    return complete_study(parsed(text, str(path)), path, Places(f"study {study}", study, text), overrides, options)


def complete_study(
    content: dict[str, object],
    path: Path,
    places: Places,
    overrides: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
) -> Study:
    """A study as the file at `path` has it, with the files of claims and code beside it that it names."""
    for key, value in (overrides or {}).items():
        said = (options or {}).get(key, f"--set {key}")
        places.options[_override(content, key, value, said)] = said
    odd = [fault for fault in odd_values(content) if fault.path[:1] in (("claims",), ("uses",))]
    if odd:
        refuse(odd, places)
    content["claims"] = _claims(content.get("claims", []), path, places)
    if "uses" in content:
        content["uses"] = _uses(content["uses"], path.parent, places)
    if content.get("name", "") == "":
        content["name"] = path.stem
        if why := wrong_name(path.stem):
            raise InputError(f'{places.where}: a run cannot be called like its file, {why}: add name = ".."')
    study = checked(content, places)
    if lacking := claims_without_rows(study):
        listed = ", ".join(f"`{claim.holds}`" for claim in lacking[:3]) + ", .." * (len(lacking) > 3)
        message(f"{places.where}: it has no rows for {len(lacking)} of its claims, so they stay untested: {listed}")
    return study


def read_claims(path: Path) -> list[Claim]:
    """A file of claims, in the form that study files have."""
    text = read_text(path)
    claims = parsed(text, str(path)).get("claims", [])
    if not isinstance(claims, list) or not claims:
        raise InputError(f"{path} has no [[claims]]")
    try:
        return [Claim.model_validate(claim) for claim in claims]
    except ValidationError as error:
        faults = faults_of(error, Claim, {})
        raise InputError(f"{path}: {faults[0].text}") from error


def validate_study(content: Mapping[str, object], where: str) -> Study:
    """A study that is no file; `where` stands before what is wrong."""
    return checked(content, Places(where))


def _path_of(study: str) -> Path:
    if study in builtin_studies():
        return packaged("studies") / f"{study}.toml"
    path = Path(study)
    try:
        if path.is_file():
            return path
        if path.is_dir():
            raise InputError(f"{study} is a folder: give the path of a study file in it")
    except (OSError, ValueError):
        pass  # no file can have this name
    names = builtin_studies()
    raise InputError(f"unknown study {shown(study)}: {nearest(study, names)} Or give the path of a study file.")


def read_text(path: Path) -> str:
    """A file that a user wrote."""
    try:
        if not path.is_file():
            raise InputError(f"cannot read {shown(str(path))}: there is no such file")
        if path.stat().st_size > LARGEST:
            raise InputError(f"cannot read {path}: it has more than {LARGEST // 10**6} MB, so it is something else")
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"{path} is not a text in UTF-8, so not valid TOML: see line {line}") from error
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {shown(str(path))}: {getattr(error, 'strerror', None) or error}") from error


def parsed(text: str, where: str) -> dict[str, object]:
    """TOML, of a file or of an option."""
    if ENDLESS.search(text):
        raise InputError(f"{where} is {TOO_DEEP}: a study has no such key")
    try:
        return tomllib.loads(text)
    except ValueError as error:  # tomllib's own, and Python's of numbers with more than 4,300 digits
        raise InputError(f"{where} is not valid TOML: {printable(str(error))}") from error
    except RecursionError as error:
        raise InputError(f"{where} is {TOO_DEEP}: a study has no such key") from error


def _claims(claims: object, path: Path, places: Places) -> object:
    """The claims that are made for this study: where they stand in a file of their own, it may serve several."""
    if isinstance(claims, str):
        file = path.parent / claims
        try:
            text = read_text(file)
            claims = parsed(text, str(file)).get("claims", [])
        except InputError as error:
            refuse([Fault(("claims",), f"claims: {error}")], places)
        places.claims = Places(places.where, str(file), text)
    if not isinstance(claims, list):
        return claims
    places.numbers = [number for number, claim in enumerate(claims) if _is_for(path.stem, claim)]
    return [claims[number] for number in places.numbers]


def _is_for(study: str, claim: object) -> bool:
    only = claim.get("only") if isinstance(claim, dict) else None
    return not only or not isinstance(only, list) or study in only


def _uses(uses: object, folder: Path, places: Places) -> list[dict[str, str]]:
    """The files that a study uses, each a table of its name and text; what they declare is known from now on."""
    try:
        return read_uses(uses, folder)
    except InputError as error:
        refuse([Fault(("uses",), str(error))], places)


def read_uses(uses: object, folder: Path) -> list[dict[str, str]]:
    """The files that a study uses, by their paths beside it, or whole; what they declare is known from now on."""
    if not isinstance(uses, list | tuple):
        raise InputError(f"uses = {shown(uses)}: expected a list of Python files beside the study")
    files = [_read_used(entry, folder) for entry in uses]
    for used in files:
        extensions.load(used.name, used.text)
    return [used.model_dump() for used in files]


def _read_used(entry: object, folder: Path) -> Used:
    if isinstance(entry, Mapping):
        try:
            return Used.model_validate(entry)
        except ValidationError as error:
            raise InputError("; ".join(fault.text for fault in faults_of(error, Used, entry, ("uses",)))) from error
    if not isinstance(entry, str) or "\0" in entry:
        raise InputError(f"uses: {shown(entry)} is not the path of a Python file")
    path = folder / entry
    extensions.module_name(path.name)
    try:
        return Used(name=path.name, text=read_text(path))
    except InputError as error:
        raise InputError(f"uses: {error}".replace(", so not valid TOML", "")) from error


def load_uses(study: Study) -> None:
    """Makes known what the files declare that came with a study."""
    for used in study.uses:
        extensions.load(used.name, used.text)


def _override(content: dict[str, object], key: str, value: object, said: str) -> KeyPath:
    """Changes one key; its path. The entries of a list have numbers from 0: `tests.0.size`."""
    *sections, last = key_parts(key)
    path: list[str | int] = []
    inner: object = content
    for section in sections:
        path.append(_place(inner, section, said))
        if isinstance(inner, dict):
            inner.setdefault(section, {})
        inner = inner[path[-1]]  # type: ignore[index]
        if not isinstance(inner, dict | list):
            raise InputError(f"{said}: {section!r} has no keys of its own")
    path.append(_place(inner, last, said))
    inner[path[-1]] = value  # type: ignore[index]
    return tuple(path)


def _place(inner: object, part: str, said: str) -> str | int:
    """Where that part of a key leads: in a list, to one of its entries."""
    if not isinstance(inner, list):
        return part
    if not re.fullmatch("[0-9]{1,9}", part) or int(part) >= len(inner):
        numbers = f"0 to {len(inner) - 1}" if inner else "none yet"
        raise InputError(f"{said}: {part!r} is none of the list's entries, which are {numbers}: set the whole list")
    return int(part)


def parse_override(text: str) -> tuple[str, object]:
    """`key=value`, the value as in TOML; text that is not valid TOML is taken as a string."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"--set {text}: expected key=value, for example --set training.epochs=10")
    try:
        return key.strip(), value.strip() if ENDLESS.search(value) else tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()
    except (RecursionError, ValueError) as error:
        raise InputError(f"--set {key.strip()}: the value is {TOO_DEEP} or too large") from error
