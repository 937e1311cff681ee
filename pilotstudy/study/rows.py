"""The arms of a study as its rows: each with its method's declaration, under its own name and label."""

from dataclasses import replace

from pilotstudy.arms.arm import Arm, Declared
from pilotstudy.arms.catalogue import all_arms, arm_named
from pilotstudy.study.spec import Study


def arm_of(study: Study, name: str) -> Arm:
    """The arm that a row of the study stands for; a name that the study does not list is that of an arm."""
    method = study.method(name)
    arm = arm_named(method)
    own = study.arms.get(name, {}).get("label")
    label = str(own or arm.label) if own or not _is_repeated(study, name) else f"{arm.label} ({name})"
    if (arm.name, arm.label) == (name, label):
        return arm
    sampled = arm.sampled_label if label == arm.label else f"{label}, sampled"
    return replace(arm, name=name, label=label, sampled_label=sampled)


def _is_repeated(study: Study, name: str) -> bool:
    """Whether a row that has no label of its own is the method of another such row, under another name."""
    method = study.method(name)
    same = [row for row in study.arms if study.method(row) == method and not study.arms[row].get("label")]
    return name != method and same not in ([], [name])


def declared_rows(study: Study) -> dict[str, Declared]:
    """What readers must know of the study's arms."""
    return {name: arm_of(study, name).declared() for name in study.arms}


def known_rows(study: Study) -> dict[str, Declared]:
    """What claims may name: all arms, and the rows of the study under their own names."""
    return {**all_arms(), **declared_rows(study)}
