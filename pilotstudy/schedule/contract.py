"""What arms, networks and metrics must do, ours and those that users bring: the checks of `pilotstudy check`."""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray

from pilotstudy.arms.arm import Arm, Choice
from pilotstudy.arms.catalogue import all_arms, arm_named
from pilotstudy.arms.composing import composed
from pilotstudy.data.dataset import DataSet
from pilotstudy.errors import InputError
from pilotstudy.metrics import scores
from pilotstudy.metrics.computation import Points
from pilotstudy.metrics.registry import METRICS, Metric
from pilotstudy.networks.catalogue import networks_of
from pilotstudy.study.recipe import Training
from pilotstudy.study.spec import Data, NetworkChoice, Trial
from pilotstudy.trial import checkpoint
from pilotstudy.trial.trainer import Trainer

CLASSES, TRAIN, VALIDATION, TEST = 4, 96, 32, 32
CPU = torch.device("cpu")
AS_BEFORE = "the same"  # reason as of a rule before


class BrokenError(Exception):
    """A rule that is not kept, in words."""


@dataclass(frozen=True)
class Checked:
    """One rule held against one thing that was declared."""

    what: str
    rule: str
    says: str = ""  # why not; empty where it is kept

    def record(self) -> dict[str, str]:
        return {"what": self.what, "rule": self.rule, "state": "fails" if self.says else "ok", "says": self.says}


def check_module(module: str) -> list[Checked]:
    """Everything that a module has declared."""
    arms = [arm for arm in all_arms().values() if arm.source == module]
    metrics = [metric for metric in METRICS.values() if metric.source == module]
    return [
        *(checked for name in networks_of(module) for checked in check_network(name)),
        *(checked for arm in arms for checked in check_arm(arm)),
        *(checked for metric in metrics for checked in check_metric(metric)),
    ]


def check_network(name: str) -> list[Checked]:
    """It takes images and gives logits, and trains under our arms."""
    trainers: list[Trainer] = []

    def first() -> Trainer:
        if not trainers:
            trainers.append(trainer("vanilla", network=name))
        return trainers[0]

    def builds() -> None:
        images = torch.from_numpy(images_and_labels().test_images)
        expect(
            first().predict(images, torch.arange(TEST), "point").shape == (TEST, CLASSES),
            "its output must be [images, classes]",
        )

    def seeded() -> None:
        again = trainer("vanilla", network=name)
        expect(_equal(first(), again), "two networks of one seed differ: draw weights from torch's generator only")

    def others() -> None:
        ours = [list(each.regulariser.network.parameters()) for each in (first(), trainer("vanilla", name, seed=4))]
        same = all(torch.equal(one, other) for one, other in zip(*ours, strict=True))
        expect(not same, "networks of two seeds are equal: do not seed torch's generator, or fix the weights")

    def steady() -> None:
        x = next(first().images.all_inputs(TRAIN))
        once, again = (first().regulariser.predict(x) for _ in range(2))
        expect(torch.equal(once, again), "its predictions are random: draw only while `self.training`")

    def under(arm: str) -> Callable[[], None]:
        def trains() -> None:
            trainer(arm, network=name).train_epoch()

        return trains

    rules: dict[str, Callable[[], None]] = {"gives logits": builds, "the same weights for a seed": seeded}
    rules |= {"other weights for another seed": others, "point predictions are not random": steady}
    rules |= {f"trains with {arm}": under(arm) for arm in ("vanilla", "dropout", "add-a-aug", "pilot-a-aug")}
    return _checked(f"network {name}", rules)


def check_arm(arm: Arm) -> list[Checked]:
    """It trains, samples where it says so, resumes to the bit, and leaves initial weights and images alone.

    What acts on another arm does so around dropout.
    """
    if arm.wraps:
        arm = composed([arm, arm_named("dropout")])
    rules = {
        "defaults within the space": _defaults_in_space,
        "leaves the initial weights alone": _leaves_weights,
        "trains": _trains,
        "leaves the order of images alone": _leaves_order,
        "resumes to the bit": _resumes,
        "point predictions are not random": _predicts,
    }
    if "mc" in arm.modes:
        rules["samples"] = _samples
    return _checked(f"arm {arm.name}", {rule: partial(check, arm) for rule, check in rules.items()})


def _defaults_in_space(arm: Arm) -> None:
    values = arm.settings().model_dump()
    for name, choice in arm.space.items():
        inside = values[name] in choice.options if isinstance(choice, Choice) else _within(choice, values[name])
        expect(inside, f"the default {name} = {values[name]!r} is outside its space")
        ends = choice.options if isinstance(choice, Choice) else (choice.low, choice.high)
        for end in ends:
            value = int(end) if not isinstance(choice, Choice) and choice.whole else end
            arm.settings.model_validate(values | {name: value})


def _leaves_weights(arm: Arm) -> None:
    ours, vanilla = trainer(arm.name), trainer("vanilla")
    if arm.network:
        return  # its network is another
    expect(_network_equal(ours, vanilla), "the network's weights are not those of the seed: leave them as given")


def _leaves_order(arm: Arm) -> None:
    ours, vanilla = trainer(arm.name), trainer("vanilla")
    vanilla.images.set_aside(ours.regulariser.held_out, vanilla.trial.seed)
    ours.train_epoch()
    vanilla.train_epoch()
    first, second = (next(iter(each.batches()))[0] for each in (ours, vanilla))
    expect(torch.equal(first, second), "it changes the images, or their order, for later epochs")


def _trains(arm: Arm) -> None:
    trained = trainer(arm.name)
    before = copy.deepcopy(dict(trained.regulariser.network.named_parameters()))
    record = trained.train_epoch()
    expect(math.isfinite(record["train_loss"]), "its loss is not finite")
    after = dict(trained.regulariser.network.named_parameters())
    expect(any(not torch.equal(before[name], after[name]) for name in before), "the network learns nothing")


def _resumes(arm: Arm) -> None:
    whole = trainer(arm.name)
    whole.train_epoch()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "checkpoint.pt"
        checkpoint.save(file, whole.state())
        state = checkpoint.load(file)
    whole.train_epoch()
    resumed = trainer(arm.name)
    assert state is not None
    resumed.restore(state)
    resumed.train_epoch()
    why = "keep what changes in parameters or buffers, and draw from torch's generator only"
    expect(_equal(whole, resumed), f"after a checkpoint it goes on differently: {why}")


def _predicts(arm: Arm) -> None:
    trained = trainer(arm.name)
    trained.train_epoch()
    x = next(trained.images.all_inputs(TRAIN))
    first, second = (trained.regulariser.predict(x) for _ in range(2))
    expect(torch.equal(first, second), "its point predictions are random")


def _samples(arm: Arm) -> None:
    trained = trainer(arm.name)
    while not trained.done:
        trained.train_epoch()
    trained.prepare_sampling()
    sampled = trained.validation_logits("mc")
    expect(bool(np.isfinite(sampled).all()), "its sampled predictions are not finite")
    differ = not np.allclose(sampled, scores.log_probabilities(trained.validation_logits("point")), atol=1e-7)
    expect(differ, "it says that its predictions can be sampled, and they do not vary")


def check_metric(metric: Metric) -> list[Checked]:
    """It gives a number for each point, which does not depend on the others' order."""
    random = np.random.default_rng(0)
    log_p, labels = scores.log_probabilities(random.normal(size=(50, 5)) * 2), random.integers(0, 5, 50)

    def columns(order: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(metric.columns(Points(log_p[order], labels[order])), float)

    whole = np.arange(50)

    def numbers() -> None:
        given = columns(whole)
        expect(len(given) == 50, f"it must give a value for each of 50 points, [50], not {list(given.shape)}")
        expect(bool(np.isfinite(given).all()), "it gives values that are not finite")

    def bounded() -> None:
        low, high = metric.bounds
        value = metric.value(Points(log_p, labels))
        expect(low <= value <= high, f"{value:.4g} is outside its bounds {low:g} to {high:g}")

    def orderly() -> None:
        order = random.permutation(50)
        expect(bool(np.allclose(columns(order), columns(whole)[order])), "a point's value depends on where it stands")

    rules = {"a number for each point": numbers, "within its bounds": bounded, "no matter the order": orderly}
    return _checked(f"metric {metric.name}", rules)


def expect(kept: bool, otherwise: str) -> None:
    if not kept:
        raise BrokenError(otherwise)


def _within(choice: object, value: float) -> bool:
    low, high = getattr(choice, "low", -math.inf), getattr(choice, "high", math.inf)
    return bool(low <= value <= high)


def _checked(what: str, rules: dict[str, Callable[[], None]]) -> list[Checked]:
    return list(_each(what, rules))


def _each(what: str, rules: dict[str, Callable[[], None]]) -> Iterator[Checked]:
    """Each rule; where several fail for one reason, it is told once."""
    told: set[str] = set()
    for rule, check in rules.items():
        says = _broken(check)
        yield Checked(what, rule, AS_BEFORE if says and says in told else says)
        told.add(says)


def _broken(check: Callable[[], None]) -> str:
    """Why a rule is not kept; empty where it is."""
    try:
        with torch.random.fork_rng(devices=[]):
            check()
    except (BrokenError, InputError) as error:
        return " ".join(str(error).split())
    except Exception as error:  # whatever a user's code may raise
        return " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return ""


def images_and_labels() -> DataSet:
    """Small pictures, bright in a place that depends on their class."""
    random = np.random.default_rng(0)
    labels = np.arange(TRAIN + VALIDATION + TEST) % CLASSES
    images = random.integers(0, 120, (len(labels), 3, 32, 32)).astype(np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[:, 8 * label : 8 * label + 8, 8:24] += 100
    cut = TRAIN + VALIDATION
    classes = tuple(f"class {k}" for k in range(CLASSES))
    return DataSet("made up", classes, "made up", images[:cut], labels[:cut], images[cut:], labels[cut:])


def trainer(arm: str, network: str | None = None, seed: int = 3) -> Trainer:
    """Of a small trial, on the CPU."""
    small = {"name": "mlp", "options": {"hidden": [32, 16]}}
    trial = Trial(
        arm=arm,
        settings=arm_named(arm).settings().model_dump(),
        seed=seed,
        data=Data.model_validate({"name": "made up", "validation": VALIDATION}),
        network=NetworkChoice.model_validate(network or small),
        training=Training.model_validate({"epochs": 2, "batch_size": 32}),
    )
    return Trainer(trial, images_and_labels(), CPU)


def _equal(one: Trainer, other: Trainer) -> bool:
    ours, theirs = one.regulariser.state_dict(), other.regulariser.state_dict()
    return ours.keys() == theirs.keys() and all(
        torch.equal(torch.as_tensor(value), torch.as_tensor(theirs[name])) for name, value in ours.items()
    )


def _network_equal(one: Trainer, other: Trainer) -> bool:
    ours, theirs = (dict(each.regulariser.innermost.named_parameters()) for each in (one, other))
    return all(name in ours and torch.equal(ours[name], value) for name, value in theirs.items())
