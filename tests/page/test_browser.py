"""A page in a real browser: drawn, used, dark, printed."""

import re
from pathlib import Path

import pytest

from tests.page.conftest import look_at_all, see


def test_it_opens_from_disk_and_draws_everything(saved, visit):
    tab = visit(saved)
    assert tab.title() == "made: Made up"
    assert tab.eval_on_selector_all("h2", "all => all.map(e => e.textContent)") == [
        "The answer",
        "Table",
        "Calibration",
        "Search",
        "Training",
        "Trials",
        "How it was made",
    ]
    look_at_all(tab)
    empty = "all => all.filter(e => !e.querySelector('.main-svg')).map(e => e.id)"
    assert tab.eval_on_selector_all(".plot", empty) == []
    captions = tab.eval_on_selector_all(
        "figure", "all => all.map(e => [e.querySelector('h3'), e.querySelector('.reading')])"
    )
    assert len(captions) >= 11
    assert all(
        tab.eval_on_selector_all(
            "figure", "all => all.map(e => !!e.querySelector('h3') && !!e.querySelector('.reading'))"
        )
    )
    assert "pilotstudy" in tab.inner_text("#command")
    buttons = set(tab.eval_on_selector_all(".modebar-btn", "all => all.map(e => e.dataset.title)"))
    assert buttons <= {"Zoom", "Pan", "Box Select", "Lasso Select", "Reset axes"}  # none that uploads


def test_a_selection_carries_over(saved, visit):
    tab = visit(saved)
    box = see(tab, "plot-history").locator(".nsewdrag").first.bounding_box()
    tab.mouse.move(box["x"] + 3, box["y"] + 3)
    tab.mouse.down()
    tab.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] - 3, steps=8)
    tab.mouse.up()
    tab.wait_for_selector("#selection:not([hidden])")
    number = int(re.match(r"\d+", tab.inner_text("#selection span"))[0])
    assert 2 <= number < 20
    count = "document.getElementById('plot-pareto').data?.reduce((n, t) => n + (t.selectedpoints || []).length, 0)"
    tab.wait_for_function(f"{count} > 0")
    assert tab.evaluate(count) == number
    tab.check("#only-selected")
    assert tab.inner_text("#trials-count") == f"{number} of 38 trials"
    assert tab.locator("#trials-table tr.selected").count() == number
    tab.uncheck("#only-selected")
    # From the table, with the keyboard, to the figures.
    tab.locator("#trials-table .opener").nth(1).focus()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    assert tab.inner_text("#selection span") == "1 trial selected: Vanilla, arms 2"
    tab.wait_for_selector("tr.open + tr.under #detail-curves .main-svg")
    tab.wait_for_selector("#detail-bins .main-svg")
    tab.keyboard.press("Enter")  # the same button closes it
    assert tab.locator("#detail").count() == 0
    assert tab.is_hidden("#selection")
    # From a figure, to the page of the table that it is on.
    see(tab, "plot-history")
    tab.evaluate("document.getElementById('plot-history').emit('plotly_click', {points: [{customdata: 20}]})")
    tab.click("#to-trial")
    tab.wait_for_selector("#detail-bins .main-svg")
    assert "search" in tab.inner_text("#detail h3")
    tab.click("#clear")
    assert tab.is_hidden("#selection")


def test_sorting_filtering_switching_and_the_large_view(saved, visit):
    tab = visit(saved)
    tab.fill("#filter", "dropout search")
    assert tab.inner_text("#trials-count") == "10 of 38 trials"
    tab.click("#trials-table th button:text-is('NLL')")
    values = [
        float(v)
        for v in tab.eval_on_selector_all("#trials-table tbody tr", "all => all.map(e => e.cells[5].textContent)")
    ]
    assert values == sorted(values)
    assert tab.get_attribute("#trials-table th:nth-child(6)", "aria-sort") == "ascending"
    first = "#table tbody tr:first-child td:nth-child(5)"
    before = tab.inner_text(first)
    tab.click("text=last, temperature-scaled")
    assert tab.inner_text(first) != before
    assert "training s" not in tab.inner_text("#table thead")
    tab.click("#table button:text-is('with cost')")
    assert "training s" in tab.inner_text("#table thead")
    tab.click("#table button:text-is('Monte Carlo')")
    assert all(
        "MC" in text for text in tab.eval_on_selector_all("#table tbody th", "all => all.map(e => e.textContent)")
    )
    tab.click(".multiples > button:first-child")
    tab.wait_for_selector("dialog[open] .main-svg")
    tab.keyboard.press("Escape")
    tab.click("#history summary")
    tab.wait_for_selector("#history details table tbody tr")
    assert tab.locator("#history details table tbody tr").count() == 20
    with tab.expect_download() as downloaded:
        tab.click("#history button:text-is('CSV')")
    assert Path(downloaded.value.path()).read_text().startswith("arm,trial,NLL,accuracy,ECE\n")


@pytest.mark.long
def test_dark_narrow_and_printed(saved, visit, tmp_path):
    background = "getComputedStyle(document.body).backgroundColor"
    dark = visit(saved, color_scheme="dark")
    assert dark.evaluate(background) == "rgb(20, 22, 26)"
    dark.click("#theme")
    assert dark.evaluate(background) == "rgb(251, 250, 247)"
    narrow = visit(saved, viewport={"width": 390, "height": 800})
    assert narrow.evaluate("document.documentElement.scrollWidth") <= 390
    narrow.pdf(path=tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").stat().st_size > 50_000
