"""The paper's own figures: Table 1, the stop-gradient table (appendix B) and the small MLP's (appendix E).

`figures.csv` is transcribed exactly, digits as printed. They are data to compare with, not truths to match: where there
is a doubt about a figure, it stands beside it.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FIGURES = Path(__file__).with_name("figures.csv")

DOUBTS = {  # why a figure cannot be right
    "above": "ECE above 1 − accuracy: impossible where confidence is at least accuracy in every bin",
    "collapsed": "the accuracy is the majority class's rate: a collapsed run",
    "copied": "the same NLL as the small MLP's Add aug: probably copied",
}

REMARKS = {  # what is to be known of it
    "as-vanilla": "nearly equal to Vanilla in every column: dropout seems to have done almost nothing here",
    "methods": "averages different methods, not seeds of one method",
    "under-tuned": "a published SVHN MLP (4 × 150) with tuned dropout has accuracy 0.862, NLL 0.510, ECE 0.053 "
    "(Ferianc and others, 2024)",
    "unmarked": "printed without the subscript MC; its place in the table says that it is meant",
}

GENERAL = (
    "Mask setting 2 is printed as a-aug: it is x-aug.",
    "Unstated: the CNN, batch size, learning rates, DGM widths, size of z, mask rate r, number of bins, what ± means.",
    "The baselines look under-tuned, so compare at an equal tuning budget.",
)


@dataclass(frozen=True)
class Figure:
    """One cell. `value` and `spread` as printed; `best`: printed in bold; `doubts`, `remarks`: keys of those above."""

    table: str  # 1, B, E
    network: str
    data: str
    arm: str
    mode: str
    metric: str
    value: str
    spread: str
    best: bool
    doubts: tuple[str, ...]
    remarks: tuple[str, ...]

    @classmethod
    def from_record(cls, record: Mapping[str, str]) -> "Figure":
        return cls(
            table=record["table"],
            network=record["network"],
            data=record["data"],
            arm=record["arm"],
            mode=record["mode"],
            metric=record["metric"],
            value=record["value"],
            spread=record["spread"],
            best=record["best"] == "yes",
            doubts=tuple(word for word in record["doubts"].split() if word in DOUBTS),
            remarks=tuple(word for word in record["doubts"].split() if word in REMARKS),
        )


@cache
def printed_figures() -> tuple[Figure, ...]:
    """All 316, in the order in which they are printed."""
    with open(FIGURES, newline="", encoding="utf-8") as file:
        return tuple(Figure.from_record(record) for record in csv.DictReader(file))


def printed_rows(network: str, data: str) -> list[tuple[str, str]]:
    """(arm, mode) in the paper's order for one network and data set, the stop-gradient arms after their own kind."""
    return list(dict.fromkeys((f.arm, f.mode) for f in printed_figures() if (f.network, f.data) == (network, data)))


def printed_figure(network: str, data: str, arm: str, mode: str, metric: str) -> Figure | None:
    for figure in printed_figures():
        if (figure.network, figure.data, figure.arm, figure.mode, figure.metric) == (network, data, arm, mode, metric):
            return figure
    return None
