"""The page of several runs, in a real browser."""

from pathlib import Path

import pytest

from pilotstudy.page import render
from pilotstudy.runs.folder import Run
from pilotstudy.runs.importing import Words, import_predictions
from pilotstudy.study import reading
from tests.page.conftest import see
from tests.page.test_accessible import SIZES, THEMES, findings
from tests.page.test_odd_runs import HOSTILE
from tests.support.foreign import as_npz
from tests.support.made_run import Maker, content, made


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    runs = [
        made(folder / "first", points=100, search=None),
        made(folder / "second", points=100, search=None, network={"name": "mlp-1024"}, seeds=[3, 4, 5]),
        made(folder / "third", points=100, search=None, arms={"vanilla": {}, "dropout": {}}, claims=[], most=3),
    ]
    return render.save_comparison(runs, folder / "page.html")


def test_every_section_says_what_the_data_say(compared, visit):
    tab = visit(compared)
    assert tab.title() == "Compared: first, second, third"
    heads = tab.eval_on_selector_all("h2", "all => all.map(e => e.textContent)")
    assert heads == ["The answer", "The runs", "Side by side", "Who beats whom", "Claims"]
    assert tab.locator("dl.of-runs dt").all_inner_texts() == ["first", "second", "third"]
    assert "mlp-1024" in tab.inner_text("#differs")
    see(tab, "plot-panels")
    assert tab.evaluate("document.getElementById('plot-panels').data.map(one => one.x.length)") == [7, 7, 1]
    assert tab.locator("#claims-table tbody tr").count() == 1


def test_one_choice_of_figure_and_rows_is_for_all_sections(compared, visit):
    tab = visit(compared)
    tab.click("#choices button:text-is('accuracy')")
    assert "By accuracy" in tab.inner_text("#answer")
    tab.click(".chooser summary")
    tab.click(".chooser button:text-is('none')")
    assert "Two rows or more are needed" in tab.inner_text("#matrix")
    tab.check(".chooser input[value=vanilla]")
    tab.check(".chooser input[value=dropout]")
    tab.keyboard.press("Escape")
    assert tab.locator(".matrix tbody tr").count() == 2
    assert tab.inner_text(".chooser summary") == "2 of 7 rows"


def test_the_matrix_is_walked_with_the_keyboard(compared, visit):
    tab = visit(compared)
    tab.locator(".matrix td[tabindex='0']").focus()
    assert "first" in tab.inner_text("#pair")
    before = tab.inner_text("#pair b >> nth=0")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("End")
    assert tab.inner_text("#pair b >> nth=0") != before
    assert tab.locator(".matrix td[tabindex='0']").count() == 1


def test_the_matrix_colours_winners_and_losers(compared, visit):
    tab = visit(compared)
    grounds = tab.eval_on_selector_all(
        ".matrix td.told", "all => all.map(e => [e.textContent.startsWith('−'), getComputedStyle(e).backgroundColor])"
    )
    won, lost = ({ground for loses, ground in grounds if loses is way} for way in (False, True))
    assert won
    assert lost
    assert not won & lost
    assert (
        tab.evaluate("getComputedStyle(document.querySelector('.matrix td:not(.told, .same)')).backgroundColor")
        not in lost
    )


@pytest.mark.long
def test_odd_runs_stand_beside_others(tmp_path, visit):
    study = reading.validate_study(content(title=HOSTILE, search=None), "made")
    whole = Maker(tmp_path / "<b>whole<b> &amp;", study, points=60).make()
    imported = Run(tmp_path / "imported")
    import_predictions(imported, as_npz(whole, tmp_path / "npz", validation=False), Words(title="Mine <b>"))
    diverged = Maker(tmp_path / "diverged", study, points=60)
    diverged.make(8)
    runs = [
        whole,
        imported,
        made(tmp_path / "nothing", most=0),
        made(tmp_path / "one", points=60, seeds=[0], search=None),
        diverged.make(4, "diverged"),
    ]
    tab = visit(render.save_comparison(runs, tmp_path / "page.html"))
    assert "<b>whole<b> &amp;" in tab.inner_text("#state")
    assert HOSTILE[:20] in tab.inner_text("#runs-table")
    assert "No trial has finished yet" in tab.inner_text("#answer")
    assert "2 of 5 runs have no reference with several seeds" in tab.inner_text("#answer")
    see(tab, "plot-panels")
    assert "<b>whole<b> &amp;" in tab.locator("#plot-panels .annotation").first.text_content()


def test_what_was_chosen_is_in_the_address(compared, visit):
    tab = visit(compared)
    tab.click("#choices button:text-is('ECE')")
    tab.click(".chooser summary")
    tab.click(".chooser button:text-is('none')")
    tab.check(".chooser input[value=dropout]")
    tab.wait_for_function("location.hash.includes('rows=dropout')")
    tab.reload()
    tab.wait_for_selector("body[data-ready]")
    assert "By ECE" in tab.inner_text("#answer")
    assert tab.inner_text(".chooser summary") == "1 of 7 rows"


@SIZES
@THEMES
def test_axe_finds_nothing(compared, visit, width, theme):
    tab = visit(compared, viewport={"width": width, "height": 900}, color_scheme=theme)
    tab.click("#matrix button:text-is('each pair alone')")
    tab.locator(".matrix td[tabindex='0']").focus()
    assert findings(tab) == []
    tab.click(".chooser summary")
    assert findings(tab) == []


@pytest.mark.long
def test_it_fits_a_phone_and_paper(compared, visit, tmp_path):
    narrow = visit(compared, viewport={"width": 390, "height": 800})
    assert narrow.evaluate("document.documentElement.scrollWidth") <= 390
    narrow.pdf(path=tmp_path / "compared.pdf")
    assert (tmp_path / "compared.pdf").stat().st_size > 30_000
