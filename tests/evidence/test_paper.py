"""The transcription of the paper's tables, against the paper itself where it is at hand."""

import csv
import re
from collections import Counter

import pytest

from pilotstudy.arms import catalogue
from pilotstudy.evidence import paper
from tests.support.places import SHARED

TEX = SHARED / "paper.tex"
METRICS = ("accuracy", "accuracy", "nll", "nll", "ece", "ece")
NAMES = {"vanilla": "vanilla", "dropout": "dropout", "batch norm": "batchnorm", "data aug": "data-aug"}


def arm_of(label: str, small: bool, stopgrad: bool) -> tuple[str, str]:
    text = re.sub(r"\\textit\{([^}]*)\}", r"\1", label)
    sampled = "MC" in text
    text = re.sub(r"\$_\{\\mathrm\{MC\}\}\$|MC ", "", text)
    text = " ".join(text.split()).lower()
    if text.startswith("$l_2$"):
        return "l2", "point"
    if text == "ensemble":
        return "ensemble", "ensemble"
    name = NAMES.get(text) or text.replace(" ", "-")
    if small and re.fullmatch(r"(pilot|add|sub)-(aug|drop)", name):
        name = name.replace("-", "-a-")
    return name + ("-stopgrad" if stopgrad else ""), "mc" if sampled else "point"


def transcribe(tex: str) -> list[dict[str, str]]:
    """Every cell of the three tables, by their labels in the source."""
    cells = []
    for label, table in ("table:results", "1"), ("table:noise_grad_results", "B"), ("table:small_mlp_results", "E"):
        body = tex.split(f"\\label{{{label}}}")[1].split("\\end{tabular}")[0]
        network = "mlp-512" if table == "E" else "cnn"
        seen: Counter[tuple[str, str]] = Counter()
        for line in body.replace("\n    &", " &").replace("\n     &", " &").split("\\\\"):
            line = re.sub(r"\\(toprule|midrule|bottomrule)", "", line)
            if "MLP models" in line:
                network, seen = "mlp-1024", Counter()
            parts = line.split("&")
            if len(parts) < 5 or "Model" in line:
                continue
            arm, mode = arm_of(parts[0], table == "E", table == "B")
            unmarked = seen[arm, mode] > 0
            seen[arm, mode] += 1
            for number, cell in enumerate(parts[1:]):
                found = re.search(r"([\d.]+)\}?\s*(?:\\pm\s*([\d.]+))?", cell)
                cells.append(
                    {
                        "table": table,
                        "network": network,
                        "data": ("cifar10", "svhn")[number % 2],
                        "arm": arm,
                        "mode": "mc" if unmarked else mode,
                        "metric": METRICS[number],
                        "value": found[1],
                        "spread": found[2] or "",
                        "best": "yes" if "\\bm" in cell else "",
                        "doubts": "unmarked" if unmarked else "",
                    }
                )
    accuracy = {
        (c["network"], c["data"], c["arm"], c["mode"]): float(c["value"]) for c in cells if c["metric"] == "accuracy"
    }
    for cell in cells:
        doubts = cell["doubts"].split()
        place = tuple(cell[name] for name in ("network", "data", "arm", "mode"))
        if cell["metric"] == "ece" and float(cell["value"]) > 1 - accuracy[place] + 1e-9:
            doubts.append("above")
        if place[:3] == ("cnn", "svhn", "pilot-a-drop"):
            doubts.append("collapsed")
        if (place[0], *place[2:]) == ("cnn", "dropout", "point"):
            doubts.append("as-vanilla")
        if (place[0], *place[2:], cell["metric"]) == ("cnn", "add-a-aug", "point", "nll"):
            doubts.append("copied")
        if place[2] == "ensemble":
            doubts.append("methods")
        if place == ("mlp-1024", "svhn", "dropout", "point"):
            doubts.append("under-tuned")
        cell["doubts"] = " ".join(doubts)
    return cells


@pytest.mark.skipif(not TEX.exists(), reason="../shared/paper.tex is not there")
def test_every_figure_is_as_printed():
    with open(paper.FIGURES, newline="", encoding="utf-8") as file:
        assert list(csv.DictReader(file)) == transcribe(TEX.read_text())


def test_all_316_are_there_and_known():
    found = paper.printed_figures()
    assert Counter((f.table, f.network) for f in found) == {
        ("1", "cnn"): 120,
        ("1", "mlp-1024"): 120,
        ("B", "cnn"): 8,
        ("B", "mlp-1024"): 8,
        ("E", "mlp-512"): 60,
    }
    assert len({(f.network, f.data, f.arm, f.mode, f.metric) for f in found}) == 316
    assert {f.arm for f in found} - {"ensemble"} <= set(catalogue.all_arms())
    with open(paper.FIGURES, newline="", encoding="utf-8") as file:
        words = {word for record in csv.DictReader(file) for word in record["doubts"].split()}
    assert words == {*paper.DOUBTS, *paper.REMARKS}
    assert Counter(doubt for f in found for doubt in f.doubts) == {"above": 8, "collapsed": 6, "copied": 2}
    assert sum(bool(f.doubts) for f in found) == 16
    assert sum(bool(f.remarks and not f.doubts) for f in found) == 32


@pytest.mark.parametrize(
    ("place", "value", "spread", "doubts"),
    [
        (("cnn", "cifar10", "pilot-a-aug", "point", "ece"), "0.012", "0.000", ()),
        (("cnn", "svhn", "add-a-drop", "mc", "ece"), "0.0528", "0.001", ()),
        (("cnn", "cifar10", "data-aug", "point", "nll"), "1.027", "0.00", ()),
        (("cnn", "svhn", "pilot-a-drop", "point", "accuracy"), "0.200", "0.001", ("collapsed",)),
        (("mlp-1024", "cifar10", "vanilla", "point", "ece"), "0.470", "0.004", ("above",)),
        (("mlp-1024", "svhn", "add-a-drop", "mc", "nll"), "1.12", "0.00", ("unmarked",)),
        (("mlp-1024", "cifar10", "add-a-aug-stopgrad", "point", "nll"), "2.61", "", ()),
        (("mlp-512", "svhn", "sub-a-aug", "point", "accuracy"), "0.7415", "0.017", ()),
        (("cnn", "svhn", "ensemble", "ensemble", "accuracy"), "0.870", "0.001", ("methods",)),
    ],
)
def test_some_figures_read_by_eye(place, value, spread, doubts):
    found = paper.printed_figure(*place)
    assert (found.value, found.spread, found.doubts + found.remarks) == (value, spread, doubts)
