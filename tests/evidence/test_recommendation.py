"""What a run says is to be done, on made-up runs of each kind."""

import pytest

from pilotstudy.evidence import settling
from pilotstudy.evidence.recommendation import answer
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.study import reading
from tests.support import made_run
from tests.support.made_run import Maker, content


def said(folder, most=10**6, skill=None, **changes):
    study = reading.validate_study(content(**changes), "made")
    return answer(RunEvidence(Maker(folder / "made", study, points=300, skill=skill).make(most)))


def test_a_row_that_is_really_better_is_recommended_with_its_price(tmp_path):
    found = said(tmp_path)
    assert found.row is not None
    assert found.row.startswith("pilot-a-aug")
    assert found.text.startswith("Take Pilot")
    assert found.gain < 0
    assert found.high < 0  # a lower NLL, and the interval leaves out 0
    assert found.p < 0.05
    for part in "its price: an accuracy of", "training time", "at test":
        assert part in found.text


def test_what_gains_is_no_price_and_what_worsens_is(tmp_path, monkeypatch):
    monkeypatch.setattr(made_run, "SHARPNESS", {"vanilla": 1.0, "pilot-a-aug": 0.6})
    skill = {"pilot-a-aug": 3.0}
    found = said(tmp_path, skill=skill, search=None, arms={"vanilla": {}, "pilot-a-aug": {}}, claims=[])
    gained, price = found.sentences[0].split("; its price: ")
    assert ", with an accuracy of 0." in gained
    assert price.startswith("a worse ECE, 0.")
    assert "accuracy" not in price


def test_where_nothing_is_better_the_simplest_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(made_run, "SHARPNESS", dict.fromkeys(made_run.SHARPNESS, 1.0))
    found = said(tmp_path, skill={}, search=None)
    assert found.row == "vanilla"
    assert found.text.startswith("Keep Vanilla: nothing beats")
    assert found.settling.says.startswith("To tell L2 from Vanilla would take about 13 to 116 seeds; there are 3 now. ")
    assert "Train 27 more, 30 for every arm (others are out of reach), about" in found.settling.says
    assert found.settling.says.endswith("of training.")
    assert found.settling.command == ""  # none finds a study that was made in Python
    assert found.settling.seeds == 30
    assert found.settling.minutes > 0
    monkeypatch.setattr(settling, "builtin_studies", lambda: {"made": None})
    known = said(tmp_path / "known", skill={}, search=None).settling
    assert known.says == f"{found.settling.says.removesuffix('.')}: `{known.command}`"
    assert known.command.startswith("pilotstudy run made --")
    assert "--seeds 30" in known.command


def test_seeds_that_nobody_would_train_are_not_proposed(tmp_path, monkeypatch):
    monkeypatch.setattr(made_run, "SHARPNESS", dict.fromkeys(made_run.SHARPNESS, 1.0))
    found = said(tmp_path, skill={"pilot-a-aug": 0.06}, search=None)
    assert "would take about 40 to 821 seeds; there are 3 now, so that is out of reach" in found.text
    assert found.settling.command == ""


def test_of_many_settings_it_names_those_that_moved_and_where_the_others_are(tmp_path):
    found = said(tmp_path)
    settings = dict(found.settings)
    assert len(settings) > 3
    first, second, third, *_ = settings
    assert f"({first} " in found.text
    assert f", {second} " in found.text
    assert third not in found.text
    assert f"and {len(settings) - 2} more settings, which `pilotstudy results made --runs-dir" in found.text


def test_one_seed_recommends_nothing(tmp_path):
    found = said(tmp_path, seeds=[0], search=None)
    assert found.row is None
    assert "One seed cannot tell" in found.text
    assert found.text.endswith("Run with 5 seeds, about 3 min of training.")


def test_a_run_that_goes_on_says_so(tmp_path):
    assert said(tmp_path, most=7).text.startswith("With 7 of ")


def test_nothing_yet(tmp_path):
    assert said(tmp_path, most=0).text.startswith("No trial has finished yet")


@pytest.mark.parametrize("arms", [{"pilot-a-aug": {}, "dropout": {}}])
def test_without_a_reference(tmp_path, arms):
    assert said(tmp_path, arms=arms, search=None, claims=[]).text
