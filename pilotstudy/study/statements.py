"""What a claim says, as text: `nll: pilot-a-aug < vanilla`, and the names of rows and groups in it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from pilotstudy.arms.arm import Declared, Role
from pilotstudy.arms.catalogue import all_arms
from pilotstudy.errors import InputError, nearest
from pilotstudy.metrics.ood import OOD_METRICS, RESAMPLED_OOD_METRICS
from pilotstudy.metrics.recalibration import RECALIBRATIONS, Recalibration
from pilotstudy.metrics.registry import METRICS, resampled_metrics
from pilotstudy.metrics.soft import SOFT_METRICS

MARKS = ("mc", "seeds", "tuned")
ENSEMBLE = "ensemble"
PATTERN = "`metric: row < row`, for example `nll: pilot-a-aug < vanilla`"


@dataclass(frozen=True)
class Row:
    """One row of a table. As text: `dropout`, `dropout@mc`, `dropout@tuned`, `dropout@mc@tuned`, `dropout@seeds`.

    mode: point, mc, ensemble (the paper's, of all baselines) or seeds (a deep ensemble of the arm's own seeds).
    phase: arms, or confirm, which is written `tuned`. declared: what its study says of its arm.
    """

    arm: str
    mode: str = "point"
    phase: str = "arms"
    declared: Declared | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        marks = [self.arm, *([self.mode] if self.mode in ("mc", "seeds") else [])]
        return "@".join(marks + ["tuned"] * (self.phase == "confirm"))

    @classmethod
    def parse(cls, text: str, arms: "Arms | None" = None) -> "Row":
        """`arms`: what may be named; by default all that are known everywhere."""
        name, marks = _name_and_marks(text)
        phase = "confirm" if "tuned" in marks else "arms"
        arms = all_arms() if arms is None else arms
        if name in group_names(arms):
            raise InputError(f"{text!r} is a group of rows: name one row, such as 'dropout' or 'dropout@mc'")
        if name == ENSEMBLE:
            if marks:
                raise InputError(f"{text!r}: the ensemble takes no marks: write {ENSEMBLE!r}")
            return cls(ENSEMBLE, ENSEMBLE)
        if name not in arms:
            raise InputError(f"unknown arm {name!r}: {nearest(name, list(arms))} `pilotstudy arms` lists them all.")
        arm = arms[name]
        if "mc" in marks and "mc" not in arm.modes:
            instead = str(cls(name, "point", phase))
            raise InputError(f"{text!r}: {name} does not sample its predictions, so it has no '@mc': write {instead!r}")
        return cls(name, next((mode for mode in ("mc", "seeds") if mode in marks), "point"), phase, arm)

    @property
    def declaration(self) -> Declared | None:
        """What is known of its arm; None for the ensemble."""
        return self.declared or all_arms().get(self.arm)

    @property
    def role(self) -> Role | None:
        return self.declaration.role if self.declaration else None

    @property
    def in_ensemble(self) -> bool:
        """Whether the paper's ensemble averages it: a baseline at fixed settings, predicting as the network is."""
        is_baseline = self.declaration is not None and self.declaration.is_baseline
        return is_baseline and (self.mode, self.phase) == ("point", "arms")


@dataclass(frozen=True)
class Group:
    """The rows that one row is compared with. As text: `others`, `baselines`, `sampling`, or a group that arms declare,
    such as `noise`; `@mc` means their sampled rows, `@tuned` those after the search.

    others: every other row. baselines: arms of that role. sampling: what is sampled or averaged and is a baseline.
    """

    name: str
    mode: str | None = None  # mc, or what the group's name says
    phase: str = "arms"

    def __str__(self) -> str:
        return "@".join([self.name, *([self.mode] if self.mode else []), *["tuned"] * (self.phase == "confirm")])

    @classmethod
    def parse(cls, text: str, arms: "Arms | None" = None) -> "Group":
        name, marks = _name_and_marks(text)
        arms = all_arms() if arms is None else arms
        if "seeds" in marks:
            raise InputError(f"{text!r}: a group has no ensembles of seeds: name one row, such as 'dropout@seeds'")
        group = cls(name, "mc" if "mc" in marks else None, "confirm" if "tuned" in marks else "arms")
        possible = (Row(arm.name, mode, group.phase, arm) for arm in arms.values() for mode in arm.modes)
        if not any(group.stands_for(row) for row in possible):
            raise InputError(f"{text!r}: no arm of {name!r} samples its predictions: leave out '@mc'")
        return group

    def members(self, rows: Sequence[Row], subject: Row) -> list[Row]:
        """Which of these rows the group stands for, beside the row that is compared with them."""
        return [row for row in rows if row.arm != subject.arm and self.stands_for(row)]

    def stands_for(self, row: Row) -> bool:
        if row.phase != self.phase or row.mode == "seeds" or (self.mode and row.mode != self.mode):
            return False
        arm = row.declaration
        is_baseline = arm is not None and arm.is_baseline
        if self.name == "others":
            return True
        if self.name == "sampling":
            return row.mode == ENSEMBLE or (row.mode == "mc" and is_baseline)
        if row.mode != (self.mode or "point") or arm is None:
            return False
        return is_baseline if self.name == "baselines" else arm.group == self.name


Arms = Mapping[str, Declared]  # that may be named, by name


def group_names(arms: Arms) -> tuple[str, ...]:
    """The names of groups; arms declare some of them."""
    return "others", "baselines", "sampling", *dict.fromkeys(arm.group for arm in arms.values() if arm.group)


def _name_and_marks(text: str) -> tuple[str, list[str]]:
    """`dropout@mc@tuned` → dropout, [mc, tuned]; refused if a mark is unknown, given twice, or at odds with another."""
    name, *marks = text.split("@")
    for mark in marks:
        if mark not in MARKS:
            raise InputError(f"{text!r}: unknown mark '@{mark}': {nearest(mark, list(MARKS))}")
        if marks.count(mark) > 1:
            raise InputError(f"{text!r}: the mark '@{mark}' is given twice: once is enough")
    if "mc" in marks and "seeds" in marks:
        raise InputError(f"{text!r}: '@mc' and '@seeds' are two ways to predict: give one of them")
    return name, marks


Tests = Mapping[str, str]  # further test sets that may be named, each with its kind: shift, ood
NO_TESTS: Tests = MappingProxyType({})


@dataclass(frozen=True)
class Statement:
    """Σ coefficient · figure(row) + constant < 0, or > 0. `group`: said of the first row against each of a group.

    `qualifiers`: what is said of the metric in brackets, in the order in which it stands there.
    """

    metric: str
    terms: tuple[tuple[float, Row], ...]
    constant: float
    relation: str
    group: Group | None = None
    qualifiers: tuple[str, ...] = ()

    @property
    def test(self) -> str:
        """What it is said of: the study's own test images, or a further test set."""
        return next((name for name in self.qualifiers if name not in RECALIBRATIONS), "test")

    @property
    def recalibration(self) -> Recalibration:
        """How the networks are recalibrated before they are compared."""
        return next((name for name in RECALIBRATIONS if name in self.qualifiers), "none")

    @classmethod
    def parse(cls, text: str, arms: Arms | None = None, tests: Tests = NO_TESTS) -> "Statement":
        """`metric[qualifier, ..]: left < right`, both sides sums of rows and numbers; the right may be a group.

        `tests`: the further test sets that may be named in brackets, each with its kind.
        """
        arms = all_arms() if arms is None else arms
        groups = group_names(arms)
        before, colon, rest = text.partition(":")
        sides = re.split(r"\s([<>])\s", rest)
        if not colon or len(sides) != 3:
            raise InputError(f"claim {text!r}: expected {PATTERN}")
        metric, qualifiers = _metric_and_qualifiers(before.strip(), text, tests)
        left, relation, right = _signed(sides[0], text), sides[1], _signed(sides[2], text)

        def is_group(operand: str) -> bool:
            return operand.split("@")[0] in groups

        if any(is_group(operand) for _, operand in left + right):
            match left, right:
                case [(1.0, row)], [(1.0, group)] if is_group(group) and not (is_group(row) or _is_number(row)):
                    subject = ((1.0, Row.parse(row, arms)),)
                    return cls(metric, subject, 0.0, relation, Group.parse(group, arms), qualifiers)
            raise InputError(
                f"claim {text!r}: a group stands on the right, beside one row, as in `nll: pilot-a-aug < baselines`"
            )
        signed = left + [(-sign, operand) for sign, operand in right]
        constant = sum((sign * float(operand) for sign, operand in signed if _is_number(operand)), 0.0)
        terms = tuple((sign, Row.parse(operand, arms)) for sign, operand in signed if not _is_number(operand))
        if not terms:
            raise InputError(f"claim {text!r}: there is no row in it: expected {PATTERN}")
        return cls(metric, terms, constant, relation, qualifiers=qualifiers)


def _metric_and_qualifiers(text: str, claim: str, tests: Tests) -> tuple[str, tuple[str, ...]]:
    """`nll[temperature]` → nll, (temperature,): refused if a name is unknown, given twice, or at odds with another."""
    metric, bracket, inside = text.partition("[")
    metric = metric.strip()
    if bracket and not inside.endswith("]"):
        raise InputError(f"claim {claim!r}: expected `metric[qualifier]:`, for example `nll[temperature]:`")
    names = tuple(name.strip() for name in inside.removesuffix("]").split(",")) if bracket else ()
    for name in names:
        if name not in RECALIBRATIONS and name not in tests:
            raise InputError(f"claim {claim!r}: unknown qualifier {name!r}: {nearest(name, (*RECALIBRATIONS, *tests))}")
        if names.count(name) > 1:
            raise InputError(f"claim {claim!r}: the qualifier {name!r} is given twice: once is enough")
    for doing, known in ("recalibrate", RECALIBRATIONS), ("are test sets", tests):
        both = [name for name in names if name in known]
        if len(both) > 1:
            raise InputError(f"claim {claim!r}: {' and '.join(both)} both {doing}: give one of them")
    is_ood = any(tests.get(name) == "ood" for name in names)
    metrics = RESAMPLED_OOD_METRICS if is_ood else resampled_metrics()
    if metric not in metrics:
        where = " of a test set that is out of distribution" if is_ood else ""
        hint = nearest(metric, metrics)
        if metric in RESAMPLED_OOD_METRICS:
            hint = f"only a test set that is out of distribution has it, such as {metric}[svhn]"
        elif metric in (*METRICS, *SOFT_METRICS, *OOD_METRICS) and metric not in resampled_metrics():
            hint = f"it has no intervals, so nothing can be claimed of it; those that have are {', '.join(metrics)}"
            raise InputError(f"claim {claim!r}: {metric!r}: {hint}")
        raise InputError(f"claim {claim!r}: unknown metric {metric!r}{where}: {hint}")
    return metric, names


def _signed(side: str, claim: str) -> list[tuple[float, str]]:
    """One side of a claim, `a - b + 0.1` → [(1, a), (−1, b), (1, 0.1)]: signs and operands in turn."""
    operands: list[tuple[float, str]] = []
    sign = ""
    for token in side.split():
        if re.fullmatch(r"[+-]+", token):
            if sign or len(token) > 1:
                raise InputError(f"claim {claim!r}: expected one sign at a time, not {f'{sign} {token}'.strip()!r}")
            sign = token
            continue
        if operands and not sign:
            raise InputError(f"claim {claim!r}: expected + or - before {token!r}")
        operands.append((-1.0 if sign == "-" else 1.0, token))
        sign = ""
    if sign or not operands:
        what = f"a row or a number after {sign!r}" if sign else PATTERN
        raise InputError(f"claim {claim!r}: expected {what}")
    return operands


def _is_number(operand: str) -> bool:
    return re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12})?", operand) is not None
