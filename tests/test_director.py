"""The plan of a study, run in this process: no Ray."""

import dataclasses
from pathlib import Path

import numpy as np
import optuna
import pytest

from pilotstudy import arms, spec
from pilotstudy.director import Director, confirm_seeds, counts
from pilotstudy.results import Results, gather_epochs, optimism, summary
from pilotstudy.runs import Run
from pilotstudy.search import ArmSearch
from pilotstudy.trial import TrialRun

CONTENT = {
    "title": "squares",
    "seeds": [0, 1],
    "data": {"name": "squares", "validation": 60},
    "network": {"name": "mlp-512"},
    "training": {"epochs": 2, "batch_size": 32},
    "arms": {"vanilla": {}, "pilot-a-aug": {"dgm_width": 16, "z": 4}},
    "search": {"arms": ["pilot-a-aug", "dropout"], "trials": 9, "confirm_seeds": 2},
}


def make_study(**search) -> spec.Study:
    return spec.validate(CONTENT | {"search": CONTENT["search"] | search}, "test")


def conduct(plan: Director, data, most: int = 10_000) -> int:
    """Runs at most `most` trials one at a time; how many ran."""
    ran = 0
    while ran < most and not isinstance(item := plan.next(), str):
        under_way = TrialRun(item.trial, data, plan.run.files.trial(item.key), threads=1)
        while not under_way.ended:
            under_way.advance()
        plan.conclude(item.key, under_way.finish())
        ran += 1
    return ran


def outcome(plan: Director) -> list:
    return [
        (i.phase, i.arm, i.number, i.trial.seed, i.trial.settings, i.status, plan.run.result(i.key)["evaluations"])
        for i in plan.items
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory, squares) -> Director:
    plan = Director(make_study(), Run(tmp_path_factory.mktemp("whole")), squares.fingerprint)
    plan.ran = conduct(plan, squares)
    assert plan.next() == "done"
    return plan


def test_the_phases(whole):
    study = make_study()
    assert counts(study) == {"arms": 6, "search": 8, "confirm": 4}  # 9 trials for 2 arms: 4 each
    assert len(whole.items) == whole.total == 18
    assert confirm_seeds(study) == [2, 3]
    for arm in "pilot-a-aug", "dropout":
        searched = [item for item in whole.items if (item.phase, item.arm) == ("search", arm)]
        assert len(searched) == 4
        assert searched[0].trial.settings == study.arms[arm]  # the paper's settings are the first point
        assert searched[0].reused  # and have run as an arm already
        best = min(searched, key=lambda item: item.figures["nll"])
        confirmed = [item for item in whole.items if (item.phase, item.arm) == ("confirm", arm)]
        assert [item.trial.seed for item in confirmed] == [2, 3]
        assert all(item.trial.settings == best.trial.settings for item in confirmed)
    assert whole.ran == 18 - 2


@pytest.mark.parametrize("ran", [3, 9, 15])
def test_an_interrupted_study_ends_as_one_that_was_not(whole, squares, tmp_path, ran):
    first = Director(make_study(), Run(tmp_path), squares.fingerprint)
    assert conduct(first, squares, ran) == ran
    first.next()  # under way when the process died
    second = Director(make_study(), Run(tmp_path), squares.fingerprint)
    assert not second.all_done()
    assert conduct(second, squares) == whole.ran - ran
    assert sorted(outcome(second), key=str) == sorted(outcome(whole), key=str)


def test_what_is_done_is_not_repeated_and_more_trials_continue(whole, squares):
    again = Director(make_study(), whole.run, squares.fingerprint)
    assert again.all_done()
    assert all(item.reused for item in again.items)
    more = Director(make_study(trials=12), whole.run, squares.fingerprint)
    assert not more.all_done()
    proposals = [i.trial.settings for i in more.items if i.phase == "search" and i.number < 4]
    assert proposals == [
        i.trial.settings for i in sorted(whole.items, key=lambda i: i.arm != "pilot-a-aug") if i.phase == "search"
    ]
    other_code = Director(make_study(), whole.run, "other data")
    assert not other_code.all_done()


def test_no_search_without_trials(squares, tmp_path):
    study = make_study(trials=0)
    assert counts(study) == {"arms": 6, "search": 0, "confirm": 0}
    plan = Director(study, Run(tmp_path), squares.fingerprint)
    assert conduct(plan, squares, 6) == 6
    assert plan.next() == "done"


def test_test_data_guide_nothing(whole, squares, tmp_path):
    """Noise in place of the test labels: every proposal, every choice, every confirmation stays."""
    labels = np.random.default_rng(1).integers(0, 3, len(squares.test_labels))
    noisy = dataclasses.replace(squares, test_labels=labels, fingerprint="noisy")
    plan = Director(make_study(), Run(tmp_path), noisy.fingerprint)
    conduct(plan, noisy)

    def choices(plan: Director) -> list:
        return [
            (
                (i.phase, i.arm, i.number, i.trial.seed, i.trial.settings, found["best_epoch"], i.figures),
                [row["temperature"] for row in found["evaluations"]],
            )
            for i in plan.items
            if (found := plan.run.result(i.key))
        ]

    assert choices(plan) == choices(whole)
    assert outcome(plan) != outcome(whole)


def test_failures_and_early_stops_are_told_as_such(tmp_path):
    options = make_study().search
    search = ArmSearch("dropout", arms.get("dropout").space, {"rate": 0.5}, options)
    for _ in range(4):
        search.propose()
    search.learn(0, {"nll": 1.0, "accuracy": 0.5})
    search.learn(1, None)
    search.learn(2, None, stopped_early=True)
    states = [trial.state.name for trial in search.study.trials]
    assert states == ["COMPLETE", "FAIL", "PRUNED", "RUNNING"]
    assert [trial.value for trial in search.study.trials] == [1.0, None, None, None]
    assert search.best() == 0


def test_a_failed_trial_does_not_end_the_study_and_is_tried_again(squares, tmp_path):
    study = make_study(trials=4)
    plan = Director(study, Run(tmp_path), squares.fingerprint)
    while not isinstance(item := plan.next(), str):
        failed = {"status": "failed", "error": "no luck", "evaluations": []}
        plan.conclude(item.key, failed)
    assert {item.status for item in plan.items} == {"failed"}
    assert not [item for item in plan.items if item.phase == "confirm"]  # nothing to confirm
    assert conduct(Director(study, Run(tmp_path), squares.fingerprint), squares, 1) == 1


def test_the_floor_on_accuracy_and_several_objectives():
    options = make_study(objectives=["ece", "nll"], accuracy_floor=0.4).search
    search = ArmSearch("dropout", arms.get("dropout").space, {"rate": 0.5}, options)
    for number, (ece, nll, accuracy) in enumerate([(0.01, 2.3, 0.1), (0.05, 1.0, 0.5), (0.04, 1.2, 0.5)]):
        search.propose()
        search.learn(number, {"ece": ece, "nll": nll, "accuracy": accuracy})
    assert search.best() == 2  # the first is below the floor


def test_proposals_come_from_the_whole_space():
    space = arms.get("pilot-a-aug").space
    start = arms.get("pilot-a-aug").settings().model_dump()
    search = ArmSearch("pilot-a-aug", space, start, make_study().search)
    for number in range(30):
        settings = search.propose()
        arms.get("pilot-a-aug").settings.model_validate(settings)
        search.learn(number, {"nll": (settings["mask_rate"] - 0.7) ** 2, "accuracy": 0.5})
    found = [trial.params for trial in search.study.trials]
    assert {params["mask_schedule"] for params in found} == {"constant", "annealed"}
    assert abs(search.study.best_params["mask_rate"] - 0.7) < 0.05


@pytest.mark.parametrize("options", [{}, {"objectives": ["ece", "nll"], "accuracy_floor": 0.4}])
def test_proposals_are_those_of_optuna_itself(monkeypatch, options):
    """Ours only saves it the work of finding out which settings all trials have in common."""
    space, start = arms.get("pilot-a-aug").space, arms.get("pilot-a-aug").settings().model_dump()

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
    monkeypatch.setattr("pilotstudy.search.Sampler", plain)
    assert proposals() == ours


def test_results(whole):
    whole.save()
    results = Results(whole.run.files)
    assert results.trials.num_rows == 18
    rows = {(row["arm"], row["mode"], row["phase"], row["at"]): row for row in summary(results)}
    vanilla = rows["vanilla", "point", "arms", "last"]
    values = [
        evaluation["nll"]
        for item in whole.items
        if (item.phase, item.arm) == ("arms", "vanilla")
        for evaluation in whole.run.result(item.key)["evaluations"]
        if (evaluation["at"], evaluation["split"], evaluation["scaled"]) == ("last", "test", False)
    ]
    assert vanilla["seeds"] == 2
    assert vanilla["nll"] == pytest.approx(np.mean(values))
    assert vanilla["nll_sd"] == pytest.approx(np.std(values, ddof=1))
    assert ("dropout", "mc", "confirm", "best") in rows
    gap = {row["arm"]: row for row in optimism(results.trials.to_pylist())}["dropout"]
    assert gap["optimism"] == pytest.approx(gap["confirmed"] - gap["search"])
    assert len(set(results.epochs["key"].to_pylist())) == 16
    assert results.epochs.num_rows == 16 * 2
    before = results.epochs
    whole.save()  # what has ended is in memory as Arrow by now
    assert results.trials.num_rows == 18
    gather_epochs(whole.run.files, {item.key for item in whole.items[:5]})
    assert results.epochs == before  # some from the gathered file, the rest from their own
    test = results.predictions.to_pandas().query("split == 'test' and mode == 'point' and at == 'last'")
    assert len(test) == 16 * 120


def test_a_second_process_is_refused(tmp_path):
    from pilotstudy.errors import RunLockedError

    run = Run(tmp_path / "run")
    with run.locked():
        assert run.at_work()
        assert run.lost == ""
        with pytest.raises(RunLockedError, match=r"process \d+ on "), Run(tmp_path / "run").locked():
            pass
    assert not run.at_work()
    run.files.lock.write_text('{"pid": 1, "host": "gone"}')  # left by a crash: the lock itself ended with its process
    with run.locked():
        pass


def test_the_key_is_of_settings_data_seed_and_code(monkeypatch, squares):
    from pilotstudy import runs

    run, study = Run(Path("x")), make_study()
    trial = spec.trial(study, "vanilla", 0)
    key = run.key(trial, "a")
    assert key == run.key(spec.trial(make_study(), "vanilla", 0), "a")
    assert key != run.key(trial, "b")
    assert key != run.key(spec.trial(study, "vanilla", 1), "a")
    monkeypatch.setattr(runs, "code_version", lambda: "other")
    assert key != run.key(trial, "a")
