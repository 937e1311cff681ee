"""Holds a study to what it may say: section by section, then what only all of it together can tell."""

import re
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from pilotstudy import extensions
from pilotstudy.arms.arm import Declared
from pilotstudy.arms.catalogue import RESERVED, all_arms, arm_named
from pilotstudy.errors import InputError
from pilotstudy.study.explaining import faults_of
from pilotstudy.study.faults import TOO_DEEP, Fault, Places, collecting, odd_values, refuse, shown
from pilotstudy.study.naming import wrong_name
from pilotstudy.study.rows import arm_of, known_rows
from pilotstudy.study.space import check_space
from pilotstudy.study.spec import OF_ROWS, Claim, Study
from pilotstudy.study.statements import Statement, group_names
from pilotstudy.study.testsets import check_tests, kinds_of_tests

# What stands in for sections that are wrong, so that the others can be looked at, too.
INSTEAD: dict[str, dict[str, object]] = {
    "data": {"name": "fashion"},
    "network": {"name": "mlp-512"},
    "training": {"epochs": 1_000},
    "search": {},
    "resources": {},
}
ENOUGH = 200  # faults, after which nothing more is looked for
NO_CLAIM = {"says": "", "holds": ""}


def checked(content: Mapping[str, object], places: Places) -> Study:
    """The study with the settings of its arms filled in; or all that is wrong with it, as one error."""
    if content.get("imported"):
        raise InputError(f"{places.where}: its predictions were imported: there is nothing to train")
    extensions.load_installed()
    faults = odd_values(content)
    if len(faults) > ENOUGH or any(TOO_DEEP in fault.text for fault in faults):
        refuse(faults, places)
    study: Study | None
    try:
        study = Study.model_validate(content)
    except ValidationError as error:
        faults += _new(faults_of(error, Study, content), faults)
        study = _mended(content, faults) if len(faults) <= ENOUGH else None
    except OverflowError:  # numbers that are no floats are faults already
        study = _mended(content, faults)
    if study is not None:
        study, more = _together(study, wrong_tests=any(fault.path[:1] == ("tests",) for fault in faults))
        faults += _new(more, faults)
    if faults or study is None:
        refuse(faults, places)
    return study


def _new(later: list[Fault], before: list[Fault]) -> list[Fault]:
    """Those about keys of which nothing is known yet, nor of the entries of their lists."""
    known = [fault for fault in before if fault.path]
    lists = {fault.path[:-1] for fault in known if isinstance(fault.path[-1], int)}
    told = {fault.path[:2] for fault in known if fault.path[0] == "claims"}  # NO_CLAIM stands in for them
    return [
        new
        for new in later
        if new.path not in lists and new.path[:2] not in told and not any(fault.covers(new.path) for fault in known)
    ]


def _mended(content: Mapping[str, object], faults: list[Fault]) -> Study | None:
    """The study without its faulty parts, if there is one."""
    mended = {key: INSTEAD[key] for key in ("data", "network", "training")} | dict(content)
    for fault in faults:
        top, *rest = fault.path or ("",)
        section = mended.get(str(top))
        if top in INSTEAD:
            old = section if rest and isinstance(section, Mapping) else {}
            mended[str(top)] = INSTEAD[str(top)] | {key: value for key, value in old.items() if key != rest[0]}
        elif rest and isinstance(section, Mapping):
            mended[str(top)] = {key: value for key, value in section.items() if key != rest[0]}
        elif top == "claims" and rest and isinstance(section, list | tuple):
            mended["claims"] = [NO_CLAIM if number == rest[0] else each for number, each in enumerate(section)]
        else:
            mended.pop(str(top), None)
    if mended.get("search") == {}:
        del mended["search"]
    try:
        return Study.model_validate(mended)
    except ValidationError:
        return None


def _together(study: Study, *, wrong_tests: bool) -> tuple[Study, list[Fault]]:
    """The study with its arms' settings filled in, and what is wrong with arms, search, test sets and claims.

    Claims about what is wrong itself are not looked at, nor those with qualifiers where test sets are wrong.
    """
    faults: list[Fault] = []
    if study.name and (why := wrong_name(study.name)):
        faults.append(Fault(("name",), f"name = {shown(study.name)}: {why}"))
    arms = {}
    for name in study.arms:
        filled, wrong = _filled_in(study, name)
        faults += wrong
        if not wrong:
            arms[name] = filled
    wrong_arms = set(study.arms) - set(arms)
    searched = []
    for number, name in enumerate(study.search.arms if study.search else ()):
        with collecting(faults, ("search", "arms", number), "search.arms: "):
            if name not in study.arms:
                arms[name] = arm_named(name).settings().model_dump()
                _check_decay(study, arms[name])
            if name in arms:
                searched.append(name)
    study = study.model_copy(update={"arms": arms, "title": study.title or study.name})
    if study.search:
        if len(set(searched)) < len(searched):
            faults.append(Fault(("search", "arms"), f"search.arms = {shown(study.search.arms)}: each arm once"))
        faults += check_space(study, list(dict.fromkeys(searched)))
    of_tests = check_tests(study)
    faults += of_tests + _repeated_labels(study)
    rows = known_rows(study)
    not_now = wrong_arms | ({"["} if of_tests or wrong_tests else set())
    for number, claim in enumerate(study.claims):
        if not any(name in claim.holds for name in not_now):
            with collecting(faults, ("claims", number, "holds"), f"claims.{number}.holds = {shown(claim.holds)}: "):
                Statement.parse(claim.holds, rows, kinds_of_tests(study))
    return study, faults


def _repeated_labels(study: Study) -> list[Fault]:
    """Rows that a table could not tell apart."""
    faults, rows = [], dict[str, str]()
    for name in study.arms:
        label = arm_of(study, name).label
        if (first := rows.setdefault(label, name)) != name:
            told = f"arms.{name}.label = {shown(label)}: it is the label of {first}, too: give it another"
            faults.append(Fault(("arms", name, "label"), told))
    return faults


def _filled_in(study: Study, name: str) -> tuple[dict[str, object], list[Fault]]:
    """The settings of a row, every default filled in, with its method and label where it has them."""
    faults: list[Fault] = []
    path = ("arms", name)
    given = study.arms[name]
    own = {key: given[key] for key in OF_ROWS if key in given}
    with collecting(faults, path):
        check_row_name(name)
    if not isinstance(own.get("label", ""), str):
        faults.append(Fault((*path, "label"), f"arms.{name}.label = {shown(own['label'])}: expected a text"))
    methods = own.get("method", name)
    listed = methods if isinstance(methods, list | tuple) else [methods]
    if not listed or not all(isinstance(method, str) and method and "+" not in method for method in listed):
        expected = "expected the name of an arm, or a list of names"
        faults.append(Fault((*path, "method"), f"arms.{name}.method = {shown(methods)}: {expected}"))
    if faults:
        return {}, faults
    has_method = "method" in own
    before = f"arms.{name}.method = {shown(methods)}: " if isinstance(own.get("method"), str) else f"arms.{name}: "
    with collecting(faults, (*path, "method") if has_method else path, before):
        arm = arm_of(study, name)
        if arm.wraps:
            raise InputError(f'it acts on another arm: method = ["{study.method(name)}", "dropout"]')
        kind = arm.settings
        try:
            settings = kind.model_validate(study.settings(name)).model_dump()
            _check_decay(study, settings)
            return own | settings, faults
        except ValidationError as error:
            faults += faults_of(error, kind, study.settings(name), path)
    return {}, faults


def _check_decay(study: Study, settings: Mapping[str, object]) -> None:
    """Refuses an arm that is its weight decay, as L2 is, where the recipe's optimiser has none."""
    decay = settings.get("weight_decay")
    try:
        study.training.check_decay(decay if isinstance(decay, float) else 0.0)
    except ValueError as error:
        raise InputError(f"weight_decay = {shown(decay)}: {error}") from error


def check_claims(claims: Sequence[Claim], rows: Mapping[str, Declared]) -> None:
    """`rows`: what they may name."""
    for number, claim in enumerate(claims):
        try:
            Statement.parse(claim.holds, rows)
        except InputError as error:
            raise InputError(f"claims.{number}.holds = {shown(claim.holds)}: {error}") from error


def check_row_name(name: str) -> None:
    """A row's name stands in claims and names files."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name) or name in RESERVED:
        raise InputError(
            f"arms.{shown(name)}: a name has letters, digits, dashes and dots, and is none of {', '.join(RESERVED)}"
        )
    if name in group_names(all_arms()):
        raise InputError(f"arms.{shown(name)} has the name of a group of arms: call it otherwise")
