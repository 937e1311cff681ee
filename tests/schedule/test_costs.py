"""What a plan adds up, from costs that are given."""

from types import SimpleNamespace

import numpy as np
import pytest

from pilotstudy.schedule import plan, prices, timing
from pilotstudy.schedule.prices import Work
from pilotstudy.schedule.timing import Cost, Size
from pilotstudy.study import reading, spec
from pilotstudy.trial.trainer import Trainer
from tests.support.squares import make_data, make_trial

GPU = prices.Gpu("L4", "a machine", 1.0, None, 24, bandwidth=300, teraflops=30.0, launch=10.0)


def study(**changes) -> spec.Study:
    content = {
        "title": "made",
        "seeds": [0, 1, 2],
        "data": {"name": "cifar10", "validation": 60},
        "network": {"name": "mlp-512"},
        "training": {"epochs": 5, "batch_size": 32},
        "arms": {"vanilla": {}, "l2": {}, "dropout": {}},
        "search": {"arms": ["l2", "dropout"], "trials": 9, "confirm_seeds": 2},
    }
    return reading.validate_study(content | changes, "test")


def test_every_trial_is_counted_once():
    costs = {"vanilla": 10.0, "l2": 20.0, "dropout": 40.0}
    rows = {row["arm"]: row for row in plan.arm_rows(study(), lambda arm: Cost(0.5, costs[arm]))}
    phases = {arm: (row["arms"], row["search"], row["confirm"]) for arm, row in rows.items()}
    assert phases == {"vanilla": (3, 0, 0), "l2": (3, 4, 2), "dropout": (3, 4, 2)}
    assert {arm: row["seconds"] for arm, row in rows.items()} == {"vanilla": 30, "l2": 180, "dropout": 360}
    assert sum(sum(numbers) for numbers in phases.values()) == sum(plan.counts(study()).values())
    assert rows["l2"]["ms_a_step"] == 500


def test_a_confirmation_comes_after_the_longest_trial():
    rows = [
        {"seconds_a_trial": 50.0, "confirm": 0},
        {"seconds_a_trial": 20.0, "confirm": 2},
        {"seconds_a_trial": 30.0, "confirm": 1},
    ]
    assert plan.longest_chain(rows) == 80
    assert plan.longest_chain(rows[:1]) == 50


def test_a_trial_is_its_steps_its_validations_and_its_ending(monkeypatch):
    """Measuring takes 1 s a batch of validation images, fitting a temperature 0.5 s."""
    trainer = SimpleNamespace(
        trial=SimpleNamespace(training=SimpleNamespace(epochs=7)),
        modes=("point", "mc"),
        images=SimpleNamespace(validation_rows=[0]),
        validation_logits=lambda mode: [[0.0]],
        data=SimpleNamespace(train_labels=np.zeros(1, int)),
    )
    seconds = iter([1.0, 0.5])
    monkeypatch.setattr(timing, "timed", lambda work, where=None: next(seconds))
    monkeypatch.setattr(timing.registry, "evaluate", lambda *_: None)
    whole = Size(steps=700, validation=300, test=400, extra=200)  # which is predicted once, not twice
    part = Size(steps=8, validation=100, test=400, extra=200)
    found = timing.cost(trainer, whole, part, step=0.01, validation=2.0, predicting=4.0)
    training = 700 * 0.01
    validating = 7 * 3 * 2.0  # epochs, parts, seconds
    # Of the last and the best epoch: 3 + 5 parts, each predicted in all modes and measured twice in each of them; and a
    # temperature for each mode.
    ending = 2 * (8 * (4.0 + 2 * 2 * 1.0) + 3 * 2 * 0.5)
    assert found.trial == pytest.approx(training + validating + ending)
    assert found.step == 0.01


def test_a_short_epoch_knows_the_size_of_the_whole_trial():
    trainer = Trainer(make_trial(epochs=5), make_data())  # 180 images in batches of 32
    whole, part = timing.shorten(trainer, 3)
    assert whole == Size(steps=5 * 6, validation=60, test=120, extra=0)
    assert part == Size(steps=3, validation=60, test=120, extra=0)
    assert len(trainer.images.train_rows) == 96
    few = Trainer(make_trial(epochs=5), make_data())
    assert timing.shorten(few, 100)[1].steps == 6  # there are no more


def test_masks_are_counted_as_they_are_on_a_gpu():
    trainer = Trainer(make_trial("pilot-a-aug", epochs=1, dgm_width=8, z=2), make_data())
    assert not trainer.regulariser.mask_prior.dense
    timing.estimated(trainer, GPU)
    assert trainer.regulariser.mask_prior.dense


def test_no_number_of_machines_is_quicker_than_what_waits():
    rows = prices.machines(3600.0, 1000.0, 2.0)
    start = 60 * prices.START_MINUTES
    assert [row["seconds"] - start for row in rows] == [3600, 1800, 1000, 1000]
    hours = [number * (seconds + start) / 3600 for number, seconds in ((1, 3600), (2, 1800), (4, 1000), (8, 1000))]
    assert [row["dollars"] for row in rows] == pytest.approx([2.0 * each for each in hours])


def test_the_slower_of_host_and_device_decides():
    launches = Work(launches=1000)
    moves = Work(launches=10, bytes=24e9)  # 0.1 s at 80 % of 300 GB/s
    computes = Work(launches=10, flops=1.5e12)  # 0.1 s at half of 30 teraflops
    assert prices.step_seconds(GPU, launches) == pytest.approx(1000 * 10e-6)
    assert prices.step_seconds(GPU, launches, graph=True) == pytest.approx(1000 * prices.SHORTEST)
    assert prices.step_seconds(GPU, moves) == pytest.approx(0.1)
    assert prices.step_seconds(GPU, computes) == pytest.approx(0.1)
    both = Work(launches=5000, bytes=24e9, flops=1.5e12)
    assert prices.step_seconds(GPU, both) == pytest.approx(0.2)  # the host is done after 0.05 s
    waiting = Work(launches=1000, waits=1000)
    assert prices.step_seconds(GPU, waiting) == pytest.approx(1000 * (10e-6 + prices.WAIT))
