"""What axe-core finds: nothing, on a page of a run and on the index, light and dark, wide and narrow."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from pilotstudy.page import render
from pilotstudy.runs.folder import Run
from tests.support.made_run import broad, made

SIZES = pytest.mark.parametrize("width", [1440, 390])
THEMES = pytest.mark.parametrize("theme", ["light", "dark"])


def findings(tab) -> list[str]:
    return [
        f"{found['id']}: {node['target']} {node['html'][:200]}"
        for found in Axe().run(tab, options={"resultTypes": ["violations"]}).response["violations"]
        for node in found["nodes"]
    ]


def with_a_trial_open(visit, page, width: int, theme: str):
    tab = visit(page, viewport={"width": width, "height": 900}, color_scheme=theme)
    tab.locator("#trials-table .opener").nth(1).click()
    tab.wait_for_selector("#detail-bins .main-svg")
    tab.click("#filter-help summary")
    tab.fill("#filter", "mask_rat>1")  # a fault is shown
    return tab


@SIZES
@THEMES
def test_a_run(saved, visit, width, theme):
    assert findings(with_a_trial_open(visit, saved, width, theme)) == []


@pytest.fixture(scope="module")
def every_arm(tmp_path_factory):
    return render.save(broad(tmp_path_factory.mktemp("every") / "arm", points=60))


@pytest.mark.long
@SIZES
@THEMES
def test_a_run_of_every_arm(every_arm, visit, width, theme):
    assert findings(with_a_trial_open(visit, every_arm, width, theme)) == []


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    few = {"points": 60, "search": None, "seeds": [0, 1]}
    made(folder / "first", **few)
    made(folder / "second", **few)
    made(folder / "torn", most=0).files.study.write_text("{")
    return render.save_index(Run.all(folder), folder)


@SIZES
@THEMES
def test_the_index(index, visit, width, theme):
    tab = visit(index, viewport={"width": width, "height": 900}, color_scheme=theme)
    for name in "first", "second":
        tab.check(f"input[value={name}]")
    assert findings(tab) == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
