"""What the search sees, what it proposes and which settings win, with figures that are made up."""

import numpy as np
import pyarrow as pa
import pytest

from pilotstudy.arms import catalogue
from pilotstudy.metrics.registry import METRICS
from pilotstudy.runs.records import Evaluation, validation_figures
from pilotstudy.runs.results import figures_of
from pilotstudy.runs.schemas import trials_schema
from pilotstudy.schedule import search
from pilotstudy.schedule.search import ArmSearch
from tests.support.plans import make_study


def made_search(**options) -> ArmSearch:
    made = make_study(arms=["dropout"], **{"trials": 4} | options)
    return ArmSearch("dropout", catalogue.arm_named("dropout").space, made.arms["dropout"], made.search)


def evaluation(
    at: str = "last", mode: str = "point", split: str = "validation", scaled: bool = False, *, nll: float
) -> Evaluation:
    return Evaluation(at, mode, split, scaled, 1.0, 50, dict.fromkeys(METRICS, 0.1) | {"nll": nll})


def test_the_search_sees_the_validation_of_the_last_epoch_as_it_is():
    """Everything else is made to look better, and comes before it and after it."""
    decoys = [
        evaluation("last", "point", "test", nll=0.1),
        evaluation("last", "point", "validation", True, nll=0.2),
        evaluation("best", "point", "validation", nll=0.3),
        evaluation("last", "mc", "validation", nll=0.4),
    ]
    whole = [*decoys, evaluation(nll=1.5), *decoys]
    assert validation_figures(whole)["nll"] == 1.5
    assert validation_figures(decoys) is None
    lists = [[one.row() for one in evaluations] for evaluations in (whole, [], decoys)]
    found = figures_of(pa.Table.from_pylist([{"evaluations": rows} for rows in lists], trials_schema()))
    assert found[0]["nll"] == 1.5
    assert found[1:] == [None, None]


def test_the_best_is_by_the_first_objective_in_its_own_direction():
    figures = [(1.0, 0.5), (0.8, 0.4), (1.2, 0.9)]
    for objectives, best in (["nll"], 1), (["accuracy"], 2), (["nll", "accuracy"], 1), (["accuracy", "nll"], 2):
        made = made_search(objectives=objectives)
        for number, (nll, accuracy) in enumerate(figures):
            made.propose()
            made.learn(number, {"nll": nll, "accuracy": accuracy})
        assert made.best() == best, objectives
        fronts = {trial.number for trial in made.study.best_trials}
        assert best in fronts
        assert (0 in fronts) == (len(objectives) == 2)  # on the front of two: between them in both


@pytest.mark.parametrize(("floor", "best"), [(0.0, 0), (0.4, 1), (0.5, 1), (0.51, 2), (0.95, None)])
def test_settings_below_the_floor_cannot_win_and_those_on_it_can(floor, best):
    made = made_search(accuracy_floor=floor)
    for number, (nll, accuracy) in enumerate([(0.1, 0.3), (0.2, 0.5), (0.3, 0.9)]):
        made.propose()
        made.learn(number, {"nll": nll, "accuracy": accuracy})
    assert made.best() == best
    if floor:
        violated = [trial.number for trial in made.study.trials if any(v > 0 for v in trial.constraints.values())]
        assert violated == [n for n, accuracy in enumerate((0.3, 0.5, 0.9)) if accuracy < floor]


def test_proposals_depend_on_the_searchs_seed_and_the_arm():
    def proposals(arm: str = "pilot-a-aug", seed: int = 0) -> list:
        start = catalogue.arm_named("pilot-a-aug").settings().model_dump()
        made = ArmSearch(arm, catalogue.arm_named("pilot-a-aug").space, start, make_study(seed=seed).search)
        return [made.propose() for _ in range(3)]

    assert proposals() == proposals()
    assert proposals()[0] == proposals(seed=1)[0]  # the settings that the study states
    assert proposals()[1:] != proposals(seed=1)[1:]
    assert proposals()[1:] != proposals("pilot-a-drop")[1:]


@pytest.mark.parametrize(("objectives", "wanted"), [(["nll"], 0.0), (["accuracy"], 1.0)])
def test_a_search_moves_towards_what_is_better(objectives, wanted):
    """The figures follow the rate, so the best settings lie at one of its ends."""
    made = made_search(objectives=objectives, trials=40)
    rates = []
    for number in range(40):
        rates.append(made.propose()["rate"])
        made.learn(number, {"nll": rates[-1], "accuracy": rates[-1]})
    late = np.mean(rates[20:])
    assert abs(late - wanted) < abs(0.5 - wanted)
    assert made.best() == (np.argmin(rates) if wanted == 0 else np.argmax(rates))


def test_a_block_keeps_the_best_of_what_was_learnt_before_it(monkeypatch):
    monkeypatch.setattr(search, "KEPT", 20)
    made = made_search(objectives=["accuracy", "nll"], accuracy_floor=0.2)
    random = np.random.default_rng(0)
    figures = [{"nll": float(a), "accuracy": float(b)} for a, b in random.uniform(size=(200, 2))]
    figures[50] = {"nll": 0.0, "accuracy": 0.1}  # the lowest NLL, below the floor
    for number, one in enumerate(figures):
        made.recall({"rate": 0.1 + number / 400})
        made.learn(number, one)
    allowed = [n for n in range(150) if figures[n]["accuracy"] >= 0.2]
    kept = {trial.number for trial in made._thinned(150)}
    assert len(kept) <= 20
    assert max(kept) < 150
    for name, sign in ("accuracy", -1), ("nll", 1):
        best = sorted(allowed, key=lambda n, name=name, sign=sign: sign * figures[n][name])[:2]
        assert set(best) <= kept, name
