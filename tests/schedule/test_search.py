import optuna
import pytest

from pilotstudy.arms import catalogue
from pilotstudy.schedule.search import ArmSearch
from tests.support.plans import make_study


def test_failures_and_early_stops_are_told_as_such(tmp_path):
    options = make_study().search
    search = ArmSearch("dropout", catalogue.arm_named("dropout").space, {"rate": 0.5}, options)
    for _ in range(4):
        search.propose()
    search.learn(0, {"nll": 1.0, "accuracy": 0.5})
    search.learn(1, None)
    search.learn(2, None, stopped_early=True)
    states = [trial.state.name for trial in search.study.trials]
    assert states == ["COMPLETE", "FAIL", "PRUNED", "RUNNING"]
    assert [trial.value for trial in search.study.trials] == [1.0, None, None, None]
    assert search.best() == 0


def test_the_floor_on_accuracy_and_several_objectives():
    options = make_study(objectives=["ece", "nll"], accuracy_floor=0.4).search
    search = ArmSearch("dropout", catalogue.arm_named("dropout").space, {"rate": 0.5}, options)
    for number, (ece, nll, accuracy) in enumerate([(0.01, 2.3, 0.1), (0.05, 1.0, 0.5), (0.04, 1.2, 0.5)]):
        search.propose()
        search.learn(number, {"ece": ece, "nll": nll, "accuracy": accuracy})
    assert search.best() == 2  # the first is below the floor


def test_proposals_come_from_the_whole_space():
    space = catalogue.arm_named("pilot-a-aug").space
    start = catalogue.arm_named("pilot-a-aug").settings().model_dump()
    search = ArmSearch("pilot-a-aug", space, start, make_study().search)
    for number in range(30):
        settings = search.propose()
        catalogue.arm_named("pilot-a-aug").settings.model_validate(settings)
        search.learn(number, {"nll": (settings["mask_rate"] - 0.7) ** 2, "accuracy": 0.5})
    found = [trial.params for trial in search.study.trials]
    assert {params["mask_schedule"] for params in found} == {"constant", "annealed"}
    assert abs(search.study.best_params["mask_rate"] - 0.7) < 0.05


@pytest.mark.parametrize("options", [{}, {"objectives": ["ece", "nll"], "accuracy_floor": 0.4}])
def test_proposals_are_those_of_optuna_itself(monkeypatch, options):
    """Ours only saves it the work of finding out which settings all trials have in common."""
    space, start = catalogue.arm_named("pilot-a-aug").space, catalogue.arm_named("pilot-a-aug").settings().model_dump()

    def proposals() -> list:
        search = ArmSearch("pilot-a-aug", space, start, make_study(trials=80, **options).search)
        found = []
        for number in range(24):
            found.append(search.propose())
            if number >= 3:  # four are under way at a time
                accuracy = found[number - 3]["mask_rate"]
                figures = {"nll": found[number - 3]["decoder_variance"], "ece": accuracy**2, "accuracy": accuracy}
                search.learn(number - 3, None if number % 9 == 4 else figures, stopped_early=number % 2 == 0)
        return found

    ours = proposals()
    plain = lambda space, **settings: optuna.samplers.TPESampler(**settings)  # noqa: E731
    monkeypatch.setattr("pilotstudy.schedule.search.Sampler", plain)
    assert proposals() == ours
