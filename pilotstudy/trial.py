"""One trial from start to end: resume, train, checkpoint, evaluate, write."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pilotstudy import __version__, checkpoint, device, tables
from pilotstudy.data.prepared import DataSet
from pilotstudy.errors import CaptureError, CheckpointError, DivergedError, InputError
from pilotstudy.evaluation import evaluate, predict, reliability
from pilotstudy.files import TrialFiles, storing, write
from pilotstudy.spec import Trial
from pilotstudy.training import Trainer


class TrialRun:
    """A trial under way. With files, one that was interrupted goes on from its last checkpoint to the same end, to the
    bit on a CPU. Call `advance` until `ended`, then `finish`.
    """

    def __init__(
        self,
        trial: Trial,
        data: DataSet,
        files: TrialFiles | None = None,
        *,
        where: torch.device | None = None,
        threads: int | None = None,
        checkpoint_seconds: float = 10.0,
        graph: bool = True,
    ):
        self.trial, self.data, self.files = trial, data, files
        self.diverged: int | None = None
        self.trainer = Trainer(trial, data, where, threads, graph=graph)
        saved = checkpoint.load(files.checkpoint) if files else None
        if files and saved:
            try:
                self.trainer.restore(saved)
            except CheckpointError as error:
                raise CheckpointError(f"{files.checkpoint}: {error}") from error
            except (KeyError, TypeError, RuntimeError) as error:
                raise CheckpointError(f"{files.checkpoint} is damaged: delete it to start anew") from error
        self.saver = checkpoint.Saver(files.checkpoint, checkpoint_seconds) if files else None

    @property
    def ended(self) -> bool:
        return self.diverged is not None or self.trainer.epoch >= self.trial.training.epochs

    def advance(self) -> dict[str, float] | None:
        """Trains one epoch and gives its record, or None if it diverged."""
        try:
            record = self.trainer.train_epoch()
        except DivergedError as error:
            self.diverged = error.epoch
            return None
        if self.saver and not self.ended and self.saver.due():
            self.saver.save(self.trainer.state())
        return record

    def save(self) -> None:
        """A checkpoint of how it stands, on disk when this returns."""
        if self.saver and self.diverged is None:
            self.saver.save(self.trainer.state())
            self.saver.wait()

    def finish(self, more: dict[str, Any] | None = None) -> dict[str, Any]:
        """Evaluates, writes everything, and gives the result, with `more` in it."""
        trainer, files = self.trainer, self.files
        if self.saver:
            self.saver.wait()
        result: dict[str, Any] = {
            "version": __version__,
            "trial": self.trial.model_dump(),
            "fingerprint": self.data.fingerprint,
            "classes": list(self.data.classes),
            "train_size": len(trainer.train_rows),
            "parameters": {
                name: sum(p.numel() for p in module.parameters())
                for name, module in trainer.regulariser.named_children()
                if any(True for _ in module.parameters())
            },
            "environment": {
                "torch": torch.__version__,
                **device.describe(trainer.where).record(),
                "threads": torch.get_num_threads(),
            },
            "notes": trainer.notes,
            "training_seconds": sum(record["seconds"] for record in trainer.history),
            **(more or {}),
        }
        if self.diverged is not None:
            result |= {"status": "diverged", "epochs": self.diverged, "evaluations": []}
        else:
            predictions = predict(trainer)
            validation = next(some for some in predictions if (some.at, some.mode) == ("last", "point"))
            tests = (some for some in predictions if some.split == "test")
            result |= {
                "status": "finished",
                "epochs": trainer.epoch,
                "best_epoch": trainer.best.epoch,
                "evaluations": evaluate(predictions),
                "validation_reliability": reliability(validation),
                "reliability": [{"at": some.at, "mode": some.mode, "bins": reliability(some)} for some in tests],
            }
            if files:
                tables.save(files.predictions, tables.predictions(predictions))
        if files:
            tables.save(files.epochs, tables.epochs(trainer.history))
            write(files.result, json.dumps(result, indent=1, allow_nan=False) + "\n")  # last: all is there
        return result


def run(
    trial: Trial,
    data: DataSet,
    folder: Path | None = None,
    *,
    on_epoch: Callable[[dict[str, float]], None] = lambda record: None,
    **options: Any,
) -> dict[str, Any]:
    """The trial's result, from the folder if it has ended there before. `options` are `TrialRun`'s."""
    files = TrialFiles.in_folder(folder) if folder else None
    if folder and files:
        with storing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        earlier = earlier_result(files, trial, data)
        if earlier:
            return earlier
    under_way = TrialRun(trial, data, files, **options)
    while not under_way.ended:
        try:
            record = under_way.advance()
        except CaptureError:
            under_way = TrialRun(trial, data, files, **options, graph=False)
            continue
        if record:
            on_epoch(record)
    under_way.save()
    return under_way.finish()


def earlier_result(files: TrialFiles, trial: Trial, data: DataSet) -> dict[str, Any] | None:
    """The result of the same trial in this folder, if it has ended."""
    try:
        result: dict[str, Any] = json.loads(files.result.read_text())
        theirs = result["trial"], result["fingerprint"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{files.result} cannot be read: choose another folder") from error
    if theirs != (trial.model_dump(), data.fingerprint):
        raise InputError(f"{files.result.parent} holds another trial's result: choose another folder")
    return result
