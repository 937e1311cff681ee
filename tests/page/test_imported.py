"""The page of predictions from elsewhere: what there is, and nothing of a training that nobody saw."""

from pilotstudy.page import render
from pilotstudy.runs.folder import Run
from pilotstudy.runs.importing import Words, import_predictions
from tests.page.conftest import look_at_all
from tests.support.foreign import as_npz
from tests.support.made_run import made


def test_it_opens_without_validation_or_epochs(tmp_path, visit):
    source = made(tmp_path / "made", points=60, search=None, arms={"vanilla": {}, "dropout": {}}, seeds=[0, 1])
    run = Run(tmp_path / "mine")
    import_predictions(run, as_npz(source, tmp_path / "npz", validation=False), Words(title="Mine <b>"))
    tab = visit(render.save(run))
    assert tab.inner_text("#title") == "Mine <b>"
    heads = tab.eval_on_selector_all("h2", "all => all.map(e => e.textContent)")
    assert "Calibration" in heads
    assert "Training" not in heads
    look_at_all(tab)
    assert "predictions of 2 methods were imported from vanilla-seed0.npz" in tab.inner_text("#made")
    assert tab.eval_on_selector_all("#table .buttons button", "all => all.map(e => e.textContent)")[0] == "last epoch"
    assert tab.locator("#table button:text-is('best epoch')").count() == 0
    tab.locator("#trials-table tbody tr").first.click()
    assert "It has no epochs to show." in tab.inner_text("#detail")
