"""What a study file may not say, and which claims are a study's own."""

import pytest

from pilotstudy.errors import InputError
from pilotstudy.study import reading
from pilotstudy.study.toml import toml_text


def content(**changes) -> dict:
    return {
        "title": "made",
        "seeds": [0, 1],
        "data": {"name": "cifar10", "validation": 50},
        "network": {"name": "mlp-512"},
        "training": {"epochs": 6},
        "arms": {"vanilla": {}, "l2": {}},
    } | changes


@pytest.mark.parametrize("seeds", [[0, 0], [3, 1, 3], [-1], [2, -5]])
def test_seeds_are_different_and_none_is_below_0(seeds):
    with pytest.raises(InputError, match="seeds must be different whole numbers from 0 to"):
        reading.validate_study(content(seeds=seeds), "test")
    assert reading.validate_study(content(seeds=[5, 0]), "test").seeds == (5, 0)


def test_an_arm_without_settings_cannot_be_searched():
    with pytest.raises(InputError, match=r"search\.arms: 'vanilla' has nothing to search"):
        reading.validate_study(content(search={"arms": ["l2", "vanilla"], "trials": 4}), "test")


def test_a_searched_arm_that_is_not_listed_runs_at_its_defaults_too():
    study = reading.validate_study(content(search={"arms": ["dropout"], "trials": 4}), "test")
    assert study.arms["dropout"] == {"rate": 0.5}


def test_claims_for_other_studies_are_left_out(tmp_path):
    made = {"all": "", "one": 'only = ["a"]', "two": 'only = ["a", "b"]', "none": "only = []"}
    claims = [f"[[claims]]\nsays = '{says}'\nholds = 'nll: l2 < vanilla'\n{only}\n" for says, only in made.items()]
    (tmp_path / "b.toml").write_text(toml_text(content()) + "".join(claims))
    assert [claim.says for claim in reading.read_study(str(tmp_path / "b.toml")).claims] == ["all", "two", "none"]
