"""Writes run folders without training: real plans and real files, with invented predictions.

    python tests/support/made_run.py FOLDER [--trials 3000] [--epochs 30]
    python tests/support/made_run.py FOLDER --broad

The numbers look like those of a study (vanilla over-confident, Pilot less so, noise that differs by seed), so that
tables, claims and pages can be tried on runs of any size within seconds.
"""

import argparse
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from pilotstudy.arms.arm import Choice
from pilotstudy.arms.catalogue import all_arms, arm_named
from pilotstudy.metrics.registry import METRICS, evaluate_epoch
from pilotstudy.runs import schemas
from pilotstudy.runs.evaluating import evaluate, reliability
from pilotstudy.runs.folder import Run
from pilotstudy.runs.frozen import FrozenTest
from pilotstudy.runs.records import Diagram, Evaluation, Proposal, Status, TrialResult
from pilotstudy.runs.results import gather_epochs
from pilotstudy.runs.schemas import ModelPredictions, Predictions
from pilotstudy.schedule.director import Director
from pilotstudy.schedule.item import Item
from pilotstudy.storage import write
from pilotstudy.study import reading, spec
from pilotstudy.study.looks import Looks
from pilotstudy.study.resources import Location

FINGERPRINT = "ab" * 32
# How much too sure of itself an arm is at its last epoch, and how good.
SHARPNESS = {"vanilla": 3.0, "dropout": 1.4, "l2": 2.6, "pilot-a-aug": 1.3, "pilot-a-drop": 1.0, "batchnorm": 3.2}
SKILL = {"pilot-a-aug": 0.1, "pilot-a-drop": -0.6, "data-aug": 0.05}


def content(**changes: Any) -> dict[str, Any]:
    """A small study of the paper's kind, with `changes` on top."""
    return {
        "name": "made",
        "title": "Made up",
        "seeds": [0, 1, 2],
        "data": {"name": "cifar10", "validation": 50},
        "network": {"name": "mlp-512"},
        "training": {"epochs": 6},
        "arms": {"vanilla": {}, "pilot-a-aug": {}, "dropout": {}, "l2": {}},
        "search": {"arms": ["pilot-a-aug", "dropout"], "trials": 8, "confirm_seeds": 3},
        "claims": [{"says": "Pilot a-aug has a lower NLL than vanilla", "holds": "nll: pilot-a-aug < vanilla"}],
    } | changes


class Maker:
    def __init__(
        self,
        folder: Path,
        study: spec.Study,
        *,
        points: int = 300,
        classes: tuple[str, ...] = (),
        skill=None,
        looks: Looks | None = None,
        tests: Mapping[str, FrozenTest] | None = None,
    ):
        self.run = Run(folder)
        self.run.files.folder.mkdir(parents=True)
        self.study, self.points = study, points
        self.classes = classes or tuple("0123456789")
        self.skill = SKILL if skill is None else skill
        self.director = Director(study, self.run, FINGERPRINT, looks)
        random = np.random.default_rng(0)
        self.labels = random.integers(0, len(self.classes), points)
        self.difficulty = random.normal(size=(points, len(self.classes)))
        self.tests = tests or {}
        self.run.freeze(study, Location(), FINGERPRINT, looks, self.tests)

    def look_again(self, looks: Looks) -> None:
        """Plans the next look, as a run does."""
        self.run.keep_looks(looks)
        self.director = Director(self.study, self.run, FINGERPRINT, looks)

    def make(self, most: int = 1_000_000, status: str = "finished", *, keep: bool = True) -> Run:
        """Ends at most `most` trials with this status. `keep`: with their predictions."""
        for _ in range(most):
            item = self.director.next()
            if isinstance(item, str):
                break
            self.conclude(item, self.finish(item, keep) if status == "finished" else self.give_up(item, Status(status)))
        self.director.save()
        return self.run

    def conclude(self, item: Item, result: TrialResult) -> None:
        write_quickly(self.run.files.trial(item.key).result, result.to_json(indent=None).encode())
        self.director.conclude(item.key, result)

    def give_up(self, item: Item, status: Status) -> TrialResult:
        error, traceback = "no <luck> today", "Traceback: <b>line 1</b>"
        return TrialResult(trial=item.trial, fingerprint=FINGERPRINT, status=status, error=error, traceback=traceback)

    def logits(self, item: Item, mode: str, quality: float) -> np.ndarray:
        seed = zlib.crc32(f"{item.name} {item.trial.seed} {mode}".encode())  # the key depends on our code
        random = np.random.default_rng(seed)
        own = 0.3 * random.normal() * 0.1 + self.skill.get(item.arm, 0.0)
        logits = self.difficulty + 0.6 * random.normal(size=self.difficulty.shape)
        logits[np.arange(self.points), self.labels] += 1.4 + own + quality
        sharp = SHARPNESS.get(item.arm, 2.0) if mode == "point" else 1.0
        return (logits * sharp).astype(np.float32)

    def extra(self, logits: np.ndarray, mode: str) -> dict[str, Predictions]:
        """Of the further test sets: the same images, the less of their own class left the stronger; or none of it."""
        found = {}
        for name, test in self.tests.items():
            random = np.random.default_rng(zlib.crc32(name.encode()))
            points = random.permutation(self.points)[: test.images]
            shifted = logits[points].copy()
            own = np.arange(len(points)), self.labels[points]
            shifted[own] -= 0.5 * test.strength if test.kind == "shift" else 5
            labels = self.labels[points] if test.kind == "shift" else np.full(len(points), -1)
            entropy = random.random(len(points)).astype(np.float32) if mode == "mc" else None
            found[name] = Predictions(points, labels, shifted, entropy)
        return found

    def finish(self, item: Item, keep: bool) -> TrialResult:
        random = np.random.default_rng(zlib.crc32(f"{item.name} {item.trial.seed}".encode()))
        epochs = self.study.training.epochs
        quality = 0.0 if item.phase != "search" else float(0.2 * random.normal())
        predictions = {}
        for mode in arm_named(item.arm).modes if keep else ("point",):
            for at in "last", "best":
                logits = self.logits(item, mode, quality) * (1.0 if at == "last" else 0.6)
                part = Predictions(np.arange(self.points), self.labels, logits)
                nothing = Predictions(part.rows[:0], part.labels[:0], part.logits[:0])
                test = part if item.predicts_test else nothing
                extra = self.extra(logits, mode) if item.predicts_test and at == "last" else {}
                predictions[at, mode] = ModelPredictions(part, test, extra)
        last = predictions["last", "point"]
        files = self.run.files.trial(item.key)
        history = schemas.epochs_table(self.history(item, epochs, random))
        if keep:
            schemas.save(files.predictions, schemas.predictions_table(predictions))
            schemas.save(files.epochs, history)
            evaluations = evaluate(predictions)
        else:  # thousands of trials: one evaluation each, and no waiting for the disk
            files.epochs.parent.mkdir(exist_ok=True)
            pq.write_table(history, files.epochs)
            figures = dict.fromkeys(METRICS, 0.0) | evaluate_epoch(last.validation.logits, self.labels)
            evaluations = (Evaluation("last", "point", "validation", False, 1.0, self.points, figures),)
        shown = predictions if keep and item.predicts_test else {}
        return TrialResult(
            version="0.1.0",
            trial=item.trial,
            fingerprint=FINGERPRINT,
            tests={name: test.fingerprint for name, test in self.tests.items()} if item.predicts_test else {},
            classes=self.classes,
            train_size=1000,
            parameters={"network": 1000},
            environment={"torch": "2", "device": "cpu", "threads": 1},
            training_seconds=float(random.uniform(5, 20)),
            status=Status.FINISHED,
            epochs=epochs,
            best_epoch=max(1, epochs // 2),
            evaluations=evaluations,
            validation_reliability=reliability(last.validation),
            reliability=tuple(Diagram(at, mode, reliability(pair.test)) for (at, mode), pair in shown.items()),
        )

    def history(self, item: Item, epochs: int, random: np.random.Generator) -> list[dict[str, float]]:
        t = np.arange(1, epochs + 1)
        over = SHARPNESS.get(item.arm, 2.0) - 1
        nll = 1.6 * np.exp(-t / 4) + 0.8 + 0.03 * over * t + 0.02 * random.normal(size=epochs)
        found = []
        for k in range(epochs):
            record = {
                "epoch": k + 1,
                "train_loss": float(2 * np.exp(-t[k] / 5)),
                "validation_accuracy": float(0.6 - 0.4 * np.exp(-t[k] / 3)),
                "validation_nll": float(nll[k]),
                "validation_ece": float(0.02 + 0.01 * over * t[k]),
                "validation_brier": 0.5,
                "validation_entropy": float(1 / over if over else 1),
                "seconds": 1.0,
                "images_per_second": 1000.0,
            }
            if item.arm.startswith("pilot"):
                record |= {"reconstruction": -50.0 + t[k], "kl": 10.0 / t[k], "hyperprior": -3.0, "gradient_norm": 90.0}
                record |= {f"imputation_error_{layer}": 1 / (layer + 1) + 1 / t[k] for layer in range(3)}
            found.append(record)
        return found


def write_quickly(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


def made(folder: Path, *, points: int = 300, most: int = 1_000_000, **changes: Any) -> Run:
    return Maker(folder, reading.validate_study(content(**changes), "made"), points=points).make(most)


def large(folder: Path, trials: int = 3000, epochs: int = 30) -> Run:
    """A run with a long search: only the arms and the confirmation keep predictions."""
    search = {"arms": ["pilot-a-aug", "dropout"], "trials": trials - 6 - 6, "confirm_seeds": 3}
    changed = content(training={"epochs": epochs}, search=search, arms={"vanilla": {}, "pilot-a-aug": {}}, seeds=[0, 1])
    maker = Maker(folder, reading.validate_study(changed, "large"), points=1000)
    # Optuna need not be asked thousands of times: what it would propose is drawn at random here.
    random = np.random.default_rng(0)
    each = search["trials"] // 2
    for arm in search["arms"]:
        for number in range(each):
            settings = dict(maker.study.arms[arm])
            for name, space in arm_named(arm).space.items():
                if isinstance(space, Choice):
                    settings[name] = space.options[random.integers(len(space.options))]
                else:
                    value = (
                        np.exp(random.uniform(np.log(space.low), np.log(space.high)))
                        if space.log
                        else random.uniform(space.low, space.high)
                    )
                    settings[name] = round(value) if space.whole else float(value)
            write_quickly(maker.run.files.proposal(arm, number), Proposal(settings).to_json().encode())
    maker.director = Director(maker.study, maker.run, FINGERPRINT)
    while not isinstance(item := maker.director.next(), str):
        maker.conclude(item, maker.finish(item, item.phase != "search"))
    maker.director.save()
    gather_epochs(maker.run.files, {item.key for item in maker.director.items})
    return maker.run


FAMILIES = "noise", "blur", "contrast", "brightness", "jpeg", "pixelate"


def corrupted(images: int, families: Sequence[str] = FAMILIES, strengths: int = 5) -> dict[str, FrozenTest]:
    """Corruptions of the test images, and a set of images of something else."""
    found = {}
    for family in families:
        for strength in range(1, strengths + 1):
            print_of = f"{zlib.crc32(family.encode()):08x}{strength}"
            found[f"{family}-{strength}"] = FrozenTest("shift", print_of, images, True, family, strength)
    return found | {"svhn": FrozenTest("ood", "cd" * 32, images)}


def broad(folder: Path, points: int = 500, arms: Sequence[str] = (), **changes: Any) -> Run:
    """A run of every arm (or of some), at three seeds, with corruptions and images of something else; no search."""
    arms = arms or [name for name, arm in all_arms().items() if not arm.wraps]
    own = {"arms": {name: {} for name in arms}, "search": None} | changes
    tests = corrupted(points)
    return Maker(folder, reading.validate_study(content(**own), "made"), points=points, tests=tests).make()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=3000)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--broad", action="store_true", help="every arm, with further test sets")
    options = parser.parse_args()
    run = broad(options.folder) if options.broad else large(options.folder, options.trials, options.epochs)
    write(run.files.folder / "made", "by tests/support/made_run.py\n")


if __name__ == "__main__":
    main()
