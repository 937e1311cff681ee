"""The plan of looks: its seeds, its arms, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotstudy.errors import InputError
from pilotstudy.study.budget import Budget, counts
from pilotstudy.study.looks import asked_looks, exceed, plan_looks
from pilotstudy.study.reading import validate_study
from tests.support.made_run import content


def study(**changes):
    return validate_study(content(**changes), "made")


@pytest.mark.parametrize(
    ("most", "seeds"),
    [(20, [3, 5, 8, 12, 20]), (10, [3, 5, 8, 10]), (8, [3, 5, 8]), (2, [2]), (30, [3, 5, 8, 12, 20, 30])],
)
def test_the_looks_are_cut_at_the_most(most, seeds):
    _, looks = plan_looks(study(), most)
    assert [look.seeds for look in looks.plan] == seeds
    assert looks.most == most


@given(st.lists(st.integers(0, 30), min_size=1, max_size=9, unique=True), st.integers(2, 25))
def test_the_studys_own_seeds_come_first(own, most):
    planned, _ = plan_looks(study(seeds=own), most)
    assert planned.seeds[: len(own)] == tuple(own)[:most]
    assert len(set(planned.seeds)) == len(planned.seeds) == most
    added = planned.seeds[len(own) :]
    assert list(added) == [seed for seed in range(60) if seed not in own][: len(added)]


def test_the_first_look_is_given_to_all_and_the_next_to_some():
    planned, looks = plan_looks(study(), 8)
    assert counts(planned, looks) == {"arms": 4 * 3, "search": 8, "confirm": 2 * 3}
    assert looks.words == "look 1 of 3: 3 seeds"
    second = looks.further({"arms": {"vanilla"}, "confirm": {"dropout"}})
    assert counts(planned, second) == {"arms": 3 * 3 + 5, "search": 8, "confirm": 3 + 5}
    assert Budget.of(planned, second).trials_of("vanilla") == {"arms": 5, "search": 0, "confirm": 0}
    third = second.further({"arms": {"vanilla"}})
    assert (third.words, third.last, second.last) == ("look 3 of 3: 8 seeds", True, False)
    assert third.given == {
        "arms": {"vanilla": 8, "pilot-a-aug": 3, "dropout": 3, "l2": 3},
        "confirm": {"pilot-a-aug": 3, "dropout": 5},
    }
    assert counts(planned) == {"arms": 4 * 8, "search": 8, "confirm": 2 * 8}


def test_seeds_beyond_the_plan_go_to_all_arms():
    planned, looks = plan_looks(study(), 5)
    more, beyond = exceed(planned.model_copy(update={"seeds": tuple(range(9))}), looks)
    assert counts(more, beyond) == {"arms": 4 * 9, "search": 8, "confirm": 2 * 3}
    assert beyond.exceeded
    assert beyond.last
    assert not looks.exceeded
    assert "beyond" in beyond.words


@pytest.mark.parametrize(
    ("asked", "changes", "word"),
    [
        ({"until_decided": True, "seeds": 3}, {}, "--max-seeds"),
        ({"max_seeds": 8}, {}, "--until-decided"),
        ({"until_decided": True}, {"claims": []}, "no claims"),
    ],
)
def test_what_does_not_go_together_is_refused(asked, changes, word):
    with pytest.raises(InputError, match=word):
        asked_looks(study(**changes), **{"until_decided": False, "max_seeds": None, "seeds": None} | asked)
