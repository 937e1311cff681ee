"""One trial from start to end: resume, train, checkpoint, evaluate, write."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pilotstudy import __version__, checkpoint, tables
from pilotstudy.data.prepared import DataSet
from pilotstudy.errors import CheckpointError, DivergedError, InputError
from pilotstudy.evaluation import evaluate, predict, reliability
from pilotstudy.files import TrialFiles, storing, write
from pilotstudy.spec import Trial
from pilotstudy.training import Trainer

CHECKPOINT_SECONDS = 10.0

OnEpoch = Callable[[dict[str, float]], None]


def run(
    trial: Trial,
    data: DataSet,
    folder: Path | None = None,
    *,
    where: torch.device | None = None,
    threads: int | None = None,
    on_epoch: OnEpoch = lambda record: None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> dict[str, Any]:
    """The trial's result. With a folder it is written there, and a trial that was interrupted goes on from its last
    checkpoint to the same end, to the bit on a CPU; one that has ended is not repeated.
    """
    files = TrialFiles(folder) if folder else None
    if files:
        with storing(files.folder):
            files.folder.mkdir(parents=True, exist_ok=True)
        ended = earlier_result(files, trial, data)
        if ended:
            return ended
    trainer = Trainer(trial, data, where, threads)
    saved = checkpoint.load(files.checkpoint) if files else None
    if saved:
        assert files
        try:
            trainer.restore(saved)
        except CheckpointError as error:
            raise CheckpointError(f"{files.checkpoint}: {error}") from error
        except (KeyError, TypeError, RuntimeError) as error:
            raise CheckpointError(f"{files.checkpoint} is damaged: delete it to start anew") from error
    result: dict[str, Any] = {
        "version": __version__,
        "trial": trial.model_dump(),
        "fingerprint": data.fingerprint,
        "classes": list(data.classes),
        "train_size": len(trainer.train_rows),
        "parameters": {
            name: sum(p.numel() for p in module.parameters())
            for name, module in trainer.regulariser.named_children()
            if any(True for _ in module.parameters())
        },
        "environment": {
            "torch": torch.__version__,
            "device": torch.cuda.get_device_name(trainer.where) if trainer.where.type == "cuda" else "cpu",
            "threads": torch.get_num_threads(),
        },
    }
    last_saved = time.monotonic()
    try:
        while trainer.epoch < trial.training.epochs:
            on_epoch(trainer.train_epoch())
            ended_now = trainer.epoch == trial.training.epochs
            if files and (ended_now or time.monotonic() - last_saved >= checkpoint_seconds):
                checkpoint.save(files.checkpoint, trainer.state())
                last_saved = time.monotonic()
        result |= {"status": "finished", "epochs": trainer.epoch, "best_epoch": trainer.best.epoch}
        predictions = predict(trainer)
        result["evaluations"] = evaluate(predictions)
        result["reliability"] = [
            {"at": some.at, "mode": some.mode, "bins": reliability(some)}
            for some in predictions
            if some.split == "test"
        ]
        if files:
            tables.save(files.predictions, tables.predictions(predictions))
    except DivergedError as error:
        result |= {"status": "diverged", "epochs": error.epoch, "evaluations": []}
    result["training_seconds"] = sum(record["seconds"] for record in trainer.history)
    if files:
        tables.save(files.epochs, tables.epochs(trainer.history))
        write(files.result, json.dumps(result, indent=1, allow_nan=False) + "\n")  # last: it says that all is there
    return result


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
        raise InputError(f"{files.folder} holds another trial's result: choose another folder")
    return result
