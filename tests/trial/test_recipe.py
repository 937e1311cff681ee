"""The recipe: optimisers, schedules, augmentation, averages and when to stop, each against an independent reference."""

import copy
import inspect
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pilotstudy.arms.arm import Inputs
from pilotstudy.errors import InputError
from pilotstudy.study.recipe import OPTIMISERS, Average, Schedule, Training
from pilotstudy.trial import checkpoint
from pilotstudy.trial.augmenting import Augmenting, flipped_and_cropped
from pilotstudy.trial.averaging import Averaging
from pilotstudy.trial.images import TrialImages
from pilotstudy.trial.lifecycle import LiveTrial
from pilotstudy.trial.optimising import CLASSES, why_not_captured
from pilotstudy.trial.rates import factor_at
from pilotstudy.trial.trainer import Best, Trainer
from tests.support.squares import make_trial

CPU = torch.device("cpu")


def with_recipe(arm="vanilla", *, epochs=2, data=(), **recipe):
    trial = make_trial(arm, **({"dgm_width": 8, "z": 2} if arm.startswith("pilot") else {}))
    training = Training.model_validate({"epochs": epochs, "batch_size": 32} | recipe)
    changed = trial.data.model_validate(trial.data.model_dump() | dict(data))
    return trial.model_copy(update={"training": training, "data": changed})


def schedule(**options) -> Schedule:
    return Schedule.model_validate(options)


# Schedules


def rates_of_torch(make, steps: int) -> list[float]:
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = make(optimiser)
    rates = []
    for _ in range(steps):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (schedule(name="cosine"), lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 40)),
        (schedule(name="cosine", final=0.1), lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 40, 0.1)),
        (schedule(name="linear", final=0.2), lambda o: torch.optim.lr_scheduler.LinearLR(o, 1.0, 0.2, 40)),
        (schedule(name="step", factor=0.3), lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [20, 30], 0.3)),
        (schedule(name="constant"), lambda o: torch.optim.lr_scheduler.ConstantLR(o, 1.0)),
    ],
)
def test_schedules_are_torchs(ours, theirs):
    """Four epochs of ten steps."""
    assert [factor_at(ours, step / 10, 4) for step in range(40)] == pytest.approx(rates_of_torch(theirs, 40))


def test_one_cycle_is_torchs_up_to_its_counting():
    """torch reaches the end with its last step, we with the end of it."""
    rates = rates_of_torch(lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 1.0, total_steps=1001), 1000)
    ours = [factor_at(schedule(name="one-cycle"), step / 250, 4) for step in range(1000)]
    assert np.abs(np.subtract(ours, rates)).max() < 5e-3
    assert ours[0] == pytest.approx(0.04)
    assert max(ours) == pytest.approx(1.0, abs=1e-4)


@given(st.sampled_from(["constant", "cosine", "linear", "step"]), st.floats(0, 3), st.floats(0, 10))
def test_a_rate_grows_in_warm_up_and_never_afterwards(name, warmup, done):
    chosen = schedule(name=name, warmup=warmup)
    now, later = factor_at(chosen, done, 10), factor_at(chosen, min(10.0, done + 0.1), 10)
    assert 0 <= now <= 1
    if done + 0.1 < warmup:
        assert later > now
    elif done >= warmup:
        assert later <= now + 1e-12
    if done < warmup:
        assert now == pytest.approx(done / warmup)


# Optimisers


@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers_and_their_options_are_torchs(name, squares):
    known = inspect.signature(CLASSES[name]).parameters
    for option, default in OPTIMISERS[name].items():
        if (name, option) != ("sgd", "momentum"):  # ours is not 0
            assert known[option].default == default
    trainer = Trainer(with_recipe(optimiser=name, learning_rate=1e-3), squares, CPU, 1)
    assert math.isfinite(trainer.train_epoch()["train_loss"])


NUMBERS = st.floats(0, 3) | st.sampled_from([0.0, 1.0, 2.0])


@given(st.data())
def test_options_that_torch_refuses_are_refused_when_a_recipe_is_read(data):
    name = data.draw(st.sampled_from(sorted(OPTIMISERS)))
    values = {bool: st.booleans(), float: NUMBERS, tuple: st.tuples(NUMBERS, NUMBERS)}
    of_options = {option: values[type(default)] for option, default in OPTIMISERS[name].items()}
    options = data.draw(st.fixed_dictionaries({}, optional=of_options))
    try:
        CLASSES[name]([torch.nn.Parameter(torch.zeros(2))], lr=0.1, **(DEFAULTS.get(name, {}) | options))
    except ValueError:
        with pytest.raises(ValueError, match=name):
            Training.model_validate({"epochs": 1, "optimiser": {"name": name, **options}})
    else:
        Training.model_validate({"epochs": 1, "optimiser": {"name": name, **options}})


DEFAULTS = {"sgd": {"momentum": 0.9}}  # of ours that are not torch's


def by_hand(trial, data, make, schedule_to=None):
    """The same training, written out with torch alone."""
    trainer = Trainer(trial, data, CPU, 1)
    optimiser = make(trainer.regulariser.network)
    steps = math.ceil(len(trainer.images.train_rows) / trial.training.batch_size)
    trainer.regulariser.train()
    for epoch in range(trial.training.epochs):
        trainer.epoch = epoch
        for step, (x, y) in enumerate(trainer.batches()):
            if schedule_to:
                optimiser.param_groups[0]["lr"] = schedule_to(epoch + step / steps)
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(trainer.regulariser.network(x), y).backward()
            if trial.training.gradient_clip:
                torch.nn.utils.clip_grad_norm_(trainer.regulariser.network.parameters(), trial.training.gradient_clip)
            optimiser.step()
    return trainer.regulariser.network


def test_sgd_with_decay_clipping_and_a_schedule_is_what_it_says(squares):
    recipe = {"learning_rate": 0.1, "optimiser": {"name": "sgd", "momentum": 0.8, "nesterov": True}}
    trial = with_recipe(**recipe, schedule="linear", weight_decay=0.01, gradient_clip=0.5)
    trainer = Trainer(trial, squares, CPU, 1)
    for _ in range(2):
        trainer.train_epoch()

    def make(network):
        weights = [p for p in network.parameters() if p.ndim > 1]
        others = [p for p in network.parameters() if p.ndim <= 1]
        groups = [{"params": weights, "weight_decay": 0.01}, {"params": others}]
        return Both(torch.optim.SGD(groups, lr=0.1, momentum=0.8, nesterov=True))

    class Both:
        """Sets the rate of both groups."""

        def __init__(self, optimiser):
            self.optimiser, self.param_groups = optimiser, [self]

        def __setitem__(self, key, value):
            for group in self.optimiser.param_groups:
                group[key] = value

        def __getattr__(self, name):
            return getattr(self.optimiser, name)

    expected = by_hand(trial, squares, make, lambda done: 0.1 * (1 - done / 2))
    for ours, theirs in zip(trainer.regulariser.network.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("arm", ["pilot-a-aug", "passes+pilot-a-aug", "passes+pilot-star"])
def test_a_dgm_keeps_its_own_adam_and_rate_on_the_same_schedule(arm, squares):
    recipe = {"optimiser": "sgd", "learning_rate": 0.5, "schedule": "cosine", "weight_decay": 0.1}
    trainer = Trainer(with_recipe(arm, gradient_clip=1e-9, **recipe), squares, CPU, 1)
    first, second = trainer.optimiser.optimisers
    assert isinstance(first, torch.optim.SGD)
    assert isinstance(second, torch.optim.Adam)
    trainer.train_epoch()
    factor = first.param_groups[0]["lr"] / 0.5
    assert [group["lr"] for group in second.param_groups] == pytest.approx([1e-3 * factor])
    assert all(group["weight_decay"] == 0 for group in second.param_groups)
    assert first.param_groups[0]["lr"] < 0.5
    dgm = [p for name, p in trainer.regulariser.named_parameters() if "dgm." in name]
    assert {id(p) for group in second.param_groups for p in group["params"]} == set(map(id, dgm))
    assert torch.nn.utils.get_total_norm([p.grad for p in dgm if p.grad is not None]) > 1e-3  # not the recipe's clip


def test_the_recipes_decay_adds_to_that_of_l2(squares):
    trial = with_recipe("l2", weight_decay=0.25)
    trial = trial.model_copy(update={"settings": {"weight_decay": 0.5}})
    groups = Trainer(trial, squares, CPU, 1).optimiser.param_groups
    decays = {p.ndim > 1: group["weight_decay"] for group in groups for p in group["params"]}
    assert decays == {True: 0.75, False: 0.0}


def test_a_decay_that_the_optimiser_does_not_have_is_refused(squares):
    trial = with_recipe("l2", optimiser="rprop")
    with pytest.raises(InputError, match=r"training\.optimiser: rprop has no weight decay"):
        Trainer(trial, squares, CPU, 1)
    without = trial.model_copy(update={"settings": {"weight_decay": 0.0}})
    assert Trainer(without, squares, CPU, 1).optimiser.param_groups[0]["lr"] == 1e-3


def test_what_can_be_captured():
    recipe = Training.model_validate
    assert not why_not_captured(recipe({"epochs": 1, "schedule": "cosine"}))
    assert not why_not_captured(recipe({"epochs": 1, "optimiser": "sgd"}))
    assert "sgd with a schedule" in why_not_captured(recipe({"epochs": 1, "optimiser": "sgd", "schedule": "cosine"}))
    assert "rmsprop" in why_not_captured(recipe({"epochs": 1, "optimiser": "rmsprop"}))


# Averages


def test_ema_is_the_recursion(squares):
    model = torch.nn.Linear(3, 2)
    averaging = Averaging(Average.model_validate({"name": "ema", "decay": 0.5}), model)
    expected = None
    for step in range(6):
        with torch.no_grad():
            model.weight += step
        averaging.after_step()
        decay = min(0.5, (1 + step) / (10 + step))
        now = model.weight.detach().clone()
        expected = now if expected is None else decay * expected + (1 - decay) * now
    before = model.weight.detach().clone()
    with averaging.used():
        torch.testing.assert_close(model.weight, expected)
    assert torch.equal(model.weight, before)


def test_swa_is_the_mean_of_the_last_epochs_and_its_norms_are_fitted(squares):
    trial = with_recipe("batchnorm", epochs=5, average={"name": "swa", "start": 0.5})
    trainer = Trainer(trial, squares, CPU, 1)
    seen = []
    for _ in range(5):
        trainer.train_epoch()
        seen.append(copy.deepcopy(trainer.regulariser.network.state_dict()))
    with trainer.averaging.used():
        averaged = copy.deepcopy(trainer.regulariser.network)
    mean = torch.stack([state["layer1.weight"] for state in seen[2:]]).mean(0)
    torch.testing.assert_close(averaged.layer1.weight.detach(), mean)
    inputs = torch.cat(list(trainer.images.all_inputs(1000)))
    before_norm = averaged.layer1(averaged.flatten(inputs)).detach()
    torch.testing.assert_close(averaged.layer1_norm.running_mean, before_norm.mean(0), rtol=1e-4, atol=1e-5)
    assert trainer.regulariser.network.layer1_norm.momentum == 0.1


def test_what_is_evaluated_and_kept_is_the_average(squares):
    live = LiveTrial(with_recipe(epochs=3, average={"name": "ema", "decay": 0.9}), squares, where=CPU, threads=1)
    while not live.ended:
        live.advance()
    plain = live.trainer.validation_logits("point")
    with live.trainer.averaging.used():
        averaged = live.trainer.validation_logits("point")
    assert not np.allclose(plain, averaged)
    result = live.finish()
    nll = next(
        e.figures["nll"] for e in result.evaluations if (e.at, e.split, e.scaled) == ("last", "validation", False)
    )
    assert nll == pytest.approx(live.trainer.history[-1]["validation_nll"], rel=1e-6)
    assert np.array_equal(live.trainer.validation_logits("point"), plain)


# Augmentation, subsets, patience


def test_augmentation_is_the_same_for_every_arm_and_another_in_every_epoch(squares):
    one, two = (
        Trainer(with_recipe(arm, augmentation="flips-and-crops"), squares, CPU, 1) for arm in ("vanilla", "dropout")
    )
    torch.rand(3)  # what else was drawn
    first, second = next(one.batches())[0], next(two.batches())[0]
    assert torch.equal(first, second)
    plain = Trainer(with_recipe(), squares, CPU, 1)
    assert not torch.equal(first, next(plain.batches())[0])
    before = torch.get_rng_state()
    next(one.batches())
    assert torch.equal(before, torch.get_rng_state())
    two.epoch = 1
    assert not torch.equal(first, next(two.batches())[0])


def test_crops_are_shifts_of_the_image_or_its_mirror():
    torch.manual_seed(0)
    x = torch.rand(64, 2, 16, 16)
    black = torch.tensor([-1.0, -2.0]).view(1, 2, 1, 1)
    cropped = flipped_and_cropped(x, black)
    padded = black.expand(64, 2, 20, 20).clone()
    padded[:, :, 2:18, 2:18] = x
    mirrored = black.expand(64, 2, 20, 20).clone()
    mirrored[:, :, 2:18, 2:18] = x.flip(-1)
    found = set()
    for n in range(64):
        places = [
            (m, i, j)
            for m, source in enumerate((padded, mirrored))
            for i in range(5)
            for j in range(5)
            if torch.allclose(source[n, :, i : i + 16, j : j + 16], cropped[n], atol=1e-6)
        ]
        assert len(places) == 1
        found.add(places[0])
    assert len(found) > 25


def test_the_papers_augmentation_is_that_of_its_arm():
    inputs = Inputs(torch.zeros(1, 3, 8, 8), torch.zeros(3), torch.ones(3))
    augmenting = Augmenting("paper", inputs, CPU)
    x = torch.rand(200, 3, 8, 8)
    changed = (augmenting(x, 0, 0, 0) != x).flatten(1).any(1).float().mean()
    assert 0.15 < changed < 0.4  # 1 − 0.9³


def test_a_subset_by_seed_leaves_validation_alone(squares):
    settings = with_recipe(data={"train_size": 30, "train_subset": "by-seed"}).data
    images = [TrialImages(settings, squares, CPU, seed) for seed in (0, 1)]
    assert torch.equal(images[0].validation_rows, images[1].validation_rows)
    assert not torch.equal(images[0].train_rows, images[1].train_rows)
    for each in images:
        assert np.bincount(squares.train_labels[each.train_rows]).tolist() == [10, 10, 10]
        assert not set(each.train_rows.tolist()) & set(each.validation_rows.tolist())


def test_patience_ends_training(squares):
    live = LiveTrial(with_recipe(epochs=50, learning_rate=3.0, patience=2), squares, where=CPU, threads=1)
    while not live.ended:
        live.advance()
    if live.diverged is None:
        assert live.trainer.epoch < 50
        assert live.trainer.epoch == live.trainer.best.epoch + 2
        assert live.finish().epochs == live.trainer.epoch


@pytest.mark.parametrize("start", [0.0, 0.29, 0.5, 0.75])
def test_with_swa_patience_counts_from_its_start(start, squares):
    trial = with_recipe(epochs=100, patience=1, average={"name": "swa", "start": start})
    live = LiveTrial(trial, squares, where=CPU, threads=1)
    live.trainer.best = Best(1, 0.0)  # nothing is better
    while not live.ended:
        live.advance()
    first = next(epoch for epoch in range(1, 101) if epoch / 100 > start)
    assert (live.trainer.epoch, live.trainer.averaging.count) == (max(first, 2), max(first, 2) - first + 1)


RECIPES = [
    {"optimiser": {"name": "sgd", "nesterov": True}, "schedule": {"name": "cosine", "warmup": 1}, "average": "ema"},
    {"optimiser": "adamw", "weight_decay": 0.1, "schedule": "one-cycle", "augmentation": "paper", "gradient_clip": 1.0},
    {"optimiser": "rmsprop", "average": {"name": "swa", "start": 0.2}, "augmentation": "flips-and-crops"},
]


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("arm", ["batchnorm", "pilot-a-aug"])
def test_every_recipe_resumes_to_the_bit(recipe, arm, squares, tmp_path):
    trial = with_recipe(arm, epochs=4, data={"train_size": 60, "train_subset": "by-seed"}, **recipe)
    whole = Trainer(trial, squares, CPU, 1)
    for _ in range(4):
        whole.train_epoch()
    first = Trainer(trial, squares, CPU, 1)
    for _ in range(2):
        first.train_epoch()
    checkpoint.save(tmp_path / "c.pt", first.state())
    resumed = Trainer(trial, squares, CPU, 1)
    resumed.restore(checkpoint.load(tmp_path / "c.pt"))
    for _ in range(2):
        resumed.train_epoch()
    timing = ("seconds", "images_per_second")
    for ours, theirs in zip(whole.history, resumed.history, strict=True):
        assert {k: v for k, v in ours.items() if k not in timing} == {
            k: v for k, v in theirs.items() if k not in timing
        }
    with whole.averaging.used(), resumed.averaging.used():
        assert np.array_equal(
            *(each.predict_images(each.data.test_images, "point").logits for each in (whole, resumed))
        )
