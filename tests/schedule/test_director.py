"""The plan of a study, run in this process: no Ray."""

import ast
import dataclasses
from pathlib import Path

import numpy as np
import pytest

from pilotstudy import storage
from pilotstudy.runs.folder import Run
from pilotstudy.runs.records import Status, TrialResult
from pilotstudy.runs.results import Results
from pilotstudy.schedule.director import Director
from pilotstudy.schedule.item import Item
from pilotstudy.study.budget import confirm_seeds, counts
from tests.support.plans import conduct, make_study, outcome


def test_the_phases(whole):
    study = make_study()
    assert counts(study) == {"arms": 6, "search": 8, "confirm": 4}  # 9 trials for 2 arms: 4 each
    assert len(whole.items) == whole.total == 18
    assert confirm_seeds(study) == [10_000, 10_001]
    for arm in "pilot-a-aug", "dropout":
        searched = [item for item in whole.items if (item.phase, item.arm) == ("search", arm)]
        assert len(searched) == 4
        assert searched[0].trial.settings == study.arms[arm]  # the paper's settings are the first point
        assert searched[0].reused  # and have run as an arm already
        best = min(searched, key=lambda item: item.figures["nll"])
        confirmed = [item for item in whole.items if (item.phase, item.arm) == ("confirm", arm)]
        assert [item.trial.seed for item in confirmed] == [10_000, 10_001]
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
                (i.phase, i.arm, i.number, i.trial.seed, i.trial.settings, result.best_epoch, i.figures),
                [each.temperature for each in result.evaluations],
            )
            for i in plan.items
            if (result := plan.run.result(i.key))
        ]

    assert choices(plan) == choices(whole)
    assert outcome(plan) != outcome(whole)


def test_a_failed_trial_does_not_end_the_study_and_is_tried_again(squares, tmp_path):
    study = make_study(trials=4)
    plan = Director(study, Run(tmp_path), squares.fingerprint)
    while not isinstance(item := plan.next(), str):
        plan.failed(item.key, "no luck")
    assert {item.status for item in plan.items} == {"failed"}
    assert not [item for item in plan.items if item.phase == "confirm"]  # nothing to confirm
    assert conduct(Director(study, Run(tmp_path), squares.fingerprint), squares, 1) == 1


def test_nobody_but_the_director_writes_items():
    """Engines and the screen hold items too; what becomes of them they tell the director."""
    package = Path(storage.PACKAGE)
    written = []
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            flat = [t for target in targets for t in (target.elts if isinstance(target, ast.Tuple) else [target])]
            written += [
                (path.relative_to(package).as_posix(), ast.unparse(target))
                for target in flat
                if isinstance(target, ast.Attribute)
                and "item" in ast.unparse(target.value)
                and target.attr in Item.__slots__
            ]
    assert {path for path, _ in written} == {"schedule/director.py"}, written
    assert len(written) > 5


def test_a_trial_that_is_retried_says_so_in_its_item(tmp_path):
    plan = Director(make_study(trials=0), Run(tmp_path), "x")
    item = plan.next()
    plan.retried(item.key)
    plan.retried(item.key)
    result = TrialResult(trial=item.trial, fingerprint="x", status=Status.DIVERGED, epochs=1, restarts=3, moves=1)
    plan.conclude(item.key, result)
    assert (item.retries, item.moves, item.status) == (5, 1, Status.DIVERGED)
    plan.conclude(item.key, result)  # told twice, it counts once
    assert plan.done == 1
    plan.save()
    row = Results(plan.run.files).rows()[0]
    assert (row.name, row.retries, row.moves, row.status) == ("arms vanilla 0", 5, 1, Status.DIVERGED)
