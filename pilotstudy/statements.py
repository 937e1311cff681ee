"""What a claim says, as text: `nll: pilot-a-aug < vanilla`, and the names of rows in it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pilotstudy import arms
from pilotstudy.errors import InputError, nearest

MARKS = ("mc", "seeds", "tuned")
GROUPS = ("others", "baselines", "standard", "noise", "sampling")
STANDARD = ("dropout", "l2", "batchnorm", "data-aug")
METRICS = ("accuracy", "nll", "ece", "brier", "adaptive_ece", "classwise_ece", "mce", "aurc", "entropy", "confidence")
PATTERN = "`metric: row < row`, for example `nll: pilot-a-aug < vanilla`"


@dataclass(frozen=True)
class Row:
    """One row of a table. As text: `dropout`, `dropout@mc`, `dropout@tuned`, `dropout@mc@tuned`, `dropout@seeds`.

    mode: point, mc, ensemble (the paper's, of all baselines) or seeds (a deep ensemble of the arm's own seeds).
    phase: arms, or confirm, which is written `tuned`.
    """

    arm: str
    mode: str = "point"
    phase: str = "arms"

    def __str__(self) -> str:
        marks = [self.arm, *([self.mode] if self.mode in ("mc", "seeds") else [])]
        return "@".join(marks + ["tuned"] * (self.phase == "confirm"))

    @classmethod
    def parse(cls, text: str) -> "Row":
        arm, *marks = text.split("@")
        for mark in marks:
            if mark not in MARKS:
                raise InputError(f"{text!r}: unknown mark '@{mark}': {nearest(mark, list(MARKS))}")
        if arm not in ("ensemble", *GROUPS):
            arms.get(arm)
        mode = "mc" if "mc" in marks else "seeds" if "seeds" in marks else "ensemble" if arm == "ensemble" else "point"
        return cls(arm, mode, "confirm" if "tuned" in marks else "arms")

    @property
    def is_pilot(self) -> bool:
        return self.arm.startswith("pilot-")

    @property
    def is_baseline(self) -> bool:
        """A method of its own that is not Pilot, predicting as the network is."""
        return not self.is_pilot and self.mode == "point"

    def members(self, rows: Sequence["Row"], subject: "Row") -> list["Row"]:
        """The rows that a group's name stands for, beside the row that is compared with them."""
        test = {
            "others": lambda row: row.mode != "seeds",
            "baselines": lambda row: row.is_baseline,
            "standard": lambda row: row.is_baseline and row.arm in STANDARD,
            "noise": lambda row: row.is_baseline and row.arm.startswith(("add-", "sub-")),
            "sampling": lambda row: row.mode in ("mc", "ensemble") and not row.is_pilot,
        }[self.arm]
        return [row for row in rows if row.phase == self.phase and row.arm != subject.arm and test(row)]


@dataclass(frozen=True)
class Statement:
    """Σ coefficient · figure(row) + constant < 0, or > 0. `group`: said of the first row against each of a group."""

    metric: str
    terms: tuple[tuple[float, Row], ...]
    constant: float
    relation: str
    group: Row | None = None

    @classmethod
    def parse(cls, text: str) -> "Statement":
        """`metric: left < right`, both sides sums of rows and numbers; the right may be one of GROUPS."""
        metric, colon, rest = text.partition(":")
        sides = re.split(r"\s([<>])\s", rest)
        if not colon or len(sides) != 3:
            raise InputError(f"claim {text!r}: expected {PATTERN}")
        if metric.strip() not in METRICS:
            raise InputError(f"claim {text!r}: unknown metric {metric.strip()!r}: {nearest(metric, list(METRICS))}")
        terms: list[tuple[float, Row]] = []
        constant, group = 0.0, None
        for side, sign in (sides[0], 1.0), (sides[2], -1.0):
            coefficient, expected = sign, True
            for token in side.split():
                if token in "+-":
                    coefficient, expected = (sign if token == "+" else -sign), True
                    continue
                if not expected:
                    raise InputError(f"claim {text!r}: expected + or - before {token!r}")
                if re.fullmatch(r"\d+(\.\d+)?", token):
                    constant += coefficient * float(token)
                elif (row := Row.parse(token)).arm in GROUPS:
                    group = row
                else:
                    terms.append((coefficient, row))
                expected = False
            if expected:
                raise InputError(f"claim {text!r}: expected {PATTERN}")
        alone = len(terms) == 1 and terms[0][0] == 1.0 and not constant and len(sides[2].split()) == 1
        if not terms or (group and not alone):
            raise InputError(
                f"claim {text!r}: a group stands on the right, beside one row, as in `nll: pilot-a-aug < baselines`"
            )
        return cls(metric.strip(), tuple(terms), constant, sides[1], group)
