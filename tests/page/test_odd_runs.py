"""Pages of runs that are empty, torn, hostile or large, in a real browser."""

import pytest

from pilotstudy.page import render
from pilotstudy.study import reading
from tests.page.conftest import look_at_all
from tests.support.made_run import Maker, content, made

HOSTILE = "</script><script>alert(1)</script> \"quotes\" 'and' <img src=x onerror=alert(2)> & 🦊 {{data}}"


def test_what_users_wrote_is_text(tmp_path, visit):
    names = tuple(f"{HOSTILE} {k}" for k in range(10))
    study = reading.validate_study(
        content(title=HOSTILE, claims=[{"says": HOSTILE, "holds": "nll: l2 < vanilla", "section": HOSTILE}]), "made"
    ).model_copy(update={"name": HOSTILE})  # a study file with this name is refused; a run's folder may be anybody's
    tab = visit(render.save(Maker(tmp_path / "hostile", study, points=60, classes=names).make()), bypass_csp=False)
    tab.wait_for_selector("#plot-forest .main-svg")
    assert tab.inner_text("#title") == HOSTILE
    assert HOSTILE in tab.inner_text(".claims")
    assert HOSTILE.split("\n")[0][:20] in tab.inner_text("#study")


@pytest.mark.parametrize(
    ("name", "changes", "most", "status", "expected"),
    [
        ("nothing", {}, 0, "finished", "No trial has finished yet"),
        ("half", {}, 7, "finished", "Best accuracy"),
        ("one", {"arms": {"vanilla": {}}, "seeds": [0], "search": None}, 1, "finished", "the only row"),
        ("failures", {}, 1000, "failed", "No trial has finished yet"),
        ("seed", {"seeds": [0]}, 1000, "finished", "one seed"),
    ],
)
def test_odd_runs_make_sense(tmp_path, visit, name, changes, most, status, expected):
    maker = Maker(tmp_path / name, reading.validate_study(content(**changes), "made"), points=100)
    tab = visit(render.save(maker.make(most, status)))
    assert expected in tab.inner_text("#answer")
    look_at_all(tab)
    if name == "seed":
        assert "✓" not in tab.inner_text(".cards")
    if status == "failed":
        assert "pilotstudy status failures --errors" in tab.inner_text("#answer")
        assert "pilotstudy status failures --errors" in tab.inner_text("#table")
        tab.locator("#trials-table tbody tr").first.click()
        assert "no <luck> today" in tab.inner_text("#detail")
        assert tab.inner_text("#traceback") == "Traceback: <b>line 1</b>"


@pytest.mark.long
def test_a_hundred_classes(tmp_path, visit):
    study = reading.validate_study(content(search=None, seeds=[0, 1]), "made")
    tab = visit(
        render.save(Maker(tmp_path / "c", study, points=400, classes=tuple(f"c{k}" for k in range(100))).make())
    )
    assert tab.locator(".multiples > button").count() == 4


@pytest.mark.long
def test_the_index_lays_runs_side_by_side(tmp_path, visit):
    runs = [made(tmp_path / name, network={"name": network}) for name, network in (("a", "mlp-512"), ("b", "cnn"))]
    made(tmp_path / "empty", most=0)
    made(tmp_path / "torn", most=0).files.study.write_text("{")
    from pilotstudy.runs.folder import Run

    tab = visit(render.save_index(Run.all(tmp_path), tmp_path))
    assert tab.locator("#runs tbody tr").count() == 4
    assert "torn: " in tab.inner_text("#runs")
    for run in runs:
        tab.check(f"input[value={run.name}]")
    assert tab.locator("#beside table").count() == 3
    assert "pilotstudy compare a b" in tab.inner_text("#beside")
    tab.click("a:text-is('a')")
    tab.wait_for_selector("body[data-ready]")
    assert tab.title() == "a: Made up"
