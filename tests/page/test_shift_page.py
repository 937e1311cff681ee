"""Corrupted images on a page: every row as colours, a few as lines."""

import pytest

from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.evidence.shift import all_test_figures
from pilotstudy.page import render
from pilotstudy.page.content import page_data
from pilotstudy.page.shift import FEW
from pilotstudy.study import reading
from tests.page.conftest import see
from tests.support.made_run import Maker, content, corrupted

ARMS = "vanilla", "pilot-a-aug", "dropout", "l2", "batchnorm", "data-aug", "mixup", "focal", "sam", "isda"


def unpacked(columns) -> list[dict]:
    return [dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)]


@pytest.fixture(scope="module")
def shifted(tmp_path_factory):
    study = reading.validate_study(content(arms={arm: {} for arm in ARMS}, search=None, seeds=[0, 1]), "made")
    tests = corrupted(60, families=("noise", "blur"), strengths=2)
    return Maker(tmp_path_factory.mktemp("shifted") / "made", study, points=60, tests=tests).make()


def test_lines_begin_with_the_reference_the_methods_and_the_best(shifted):
    data = page_data(shifted)
    begin, lines = data["shift"]["begin"], unpacked(data["shift"]["shift"])
    assert data["shift"]["reference"] == "vanilla"
    assert {"vanilla", "pilot-a-aug"} <= set(begin)
    assert len(begin) == FEW < len({line["row"] for line in lines})
    means = {row: sum(line["nll"] for line in lines if line["row"] == row) for row in {line["row"] for line in lines}}
    assert min(means, key=means.get) in begin


def test_figures_are_those_of_the_command(shifted):
    """In the digits that both show."""
    named = ("", "figure"), ("_low", "low"), ("_high", "high"), ("_difference", "difference")
    own = {(str(each.row), each.test, each.metric): each for each in all_test_figures(RunEvidence(shifted))}
    for line in unpacked(page_data(shifted)["shift"]["shift"]):
        for metric in "accuracy", "nll", "ece":
            figure = own[line["row"], line["test"], metric]
            for part, name in named:
                shown, whole = line[metric + part], getattr(figure, name)
                assert (shown is None and whole is None) or f"{shown:.4f}" == f"{whole:.4f}"


def test_every_row_is_in_the_colours_and_those_ticked_are_lines(shifted, visit, tmp_path):
    tab = visit(render.save(shifted, tmp_path / "page.html"))
    see(tab, "plot-corruptions")
    cells = "document.getElementById('plot-corruptions').data?.[0]"
    assert tab.evaluate(f"[{cells}.z.length, {cells}.x]") == [len(ARMS), ["noise", "blur"]]
    tab.click("#corruptions button:text-is('sampling and ensembles')")
    tab.wait_for_function(f"{cells}?.z.length === 3")  # two that sample, and the ensemble
    see(tab, "plot-strengths")
    lines = "document.getElementById('plot-strengths').data"
    assert tab.evaluate(f"{lines}.length") == FEW
    tab.click("#strengths .chooser summary")
    tab.click("#strengths .chooser button:text-is('none')")
    tab.check("#strengths .chooser input[value=sam]")
    tab.wait_for_function(f"{lines}?.length === 1")  # between the two clicks there was nothing to draw
    assert tab.evaluate(f"{lines}[0].x") == [0, 1, 2]
