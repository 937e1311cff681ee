"""One trial from start to end: resume, train, checkpoint, evaluate, write."""

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from pilotstudy import __version__
from pilotstudy.arms.sampling import MC_SAMPLES
from pilotstudy.data.dataset import DataSet
from pilotstudy.errors import CaptureError, CheckpointError, DataError, DivergedError, InputError, StorageError
from pilotstudy.method.regulariser import Regulariser
from pilotstudy.metrics.scores import Array
from pilotstudy.runs import schemas
from pilotstudy.runs.evaluating import evaluate, reliability
from pilotstudy.runs.layout import TrialFiles
from pilotstudy.runs.records import Diagram, Place, Plain, Status, TrialResult
from pilotstudy.storage import storing, write
from pilotstudy.study.spec import Trial
from pilotstudy.trial import checkpoint, device
from pilotstudy.trial.predicting import are_finite, predict
from pilotstudy.trial.surprise import with_surprise
from pilotstudy.trial.trainer import EpochRecord, Trainer


class LiveTrial:
    """A trial under way. With files, one that was interrupted goes on from its last checkpoint to the same end, to the
    bit on a CPU. Call `advance` until `ended`, then `finish`. `test`: whether it predicts the test images in the end.
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
        test: bool = True,
    ):
        self.trial, self.data, self.files, self.test = trial, data, files, test
        self.diverged: int | None = None  # in this epoch
        self.trainer = Trainer(trial, data, where, threads, graph=graph)
        saved = checkpoint.load(files.checkpoint) if files else None
        if files and saved:
            try:
                self.trainer.restore(saved)
            except CheckpointError as error:
                raise CheckpointError(f"{files.checkpoint}: {error}") from error
            except (KeyError, TypeError, RuntimeError) as error:
                raise CheckpointError(f"{files.checkpoint} is damaged: delete it to start again") from error
        self.saver = checkpoint.Saver(files.checkpoint, checkpoint_seconds) if files else None

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to train."""
        return self.diverged is not None or self.trainer.done

    @property
    def seconds(self) -> float:
        """Of training, so far."""
        return sum(record["seconds"] for record in self.trainer.history)

    def advance(self) -> EpochRecord | None:
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

    def settle(self) -> None:
        """Waits for a checkpoint that is being written: a process that ends within torch aborts."""
        if self.saver:
            with contextlib.suppress(StorageError):
                self.saver.wait()

    def finish(self, place: Place | None = None, *, moves: int = 0, restarts: int = 0) -> TrialResult:
        """Evaluates, writes everything, and gives the result, which says where the trial ran and what it met."""
        if self.saver:
            self.saver.wait()
        result = self._result(place, moves, restarts)
        if self.files:
            schemas.save(self.files.epochs, schemas.epochs_table(self.trainer.history))
            write_result(self.files, result)  # last: all is there
        return result

    def _predictions(self) -> schemas.TrialPredictions:
        """None where it diverged; that may be seen only now, where images or draws take it beyond all numbers."""
        predictions = predict(self.trainer, test=self.test) if self.diverged is None else {}
        if are_finite(predictions):
            return with_surprise(self.trainer, predictions) if self.test else predictions
        self.diverged = self.trainer.epoch
        return {}

    def _result(self, place: Place | None, moves: int, restarts: int) -> TrialResult:
        trainer = self.trainer
        predictions = self._predictions()
        if predictions and self.files:
            schemas.save(self.files.predictions, schemas.predictions_table(predictions))
        last = predictions.get(("last", "point"))
        return TrialResult(
            version=__version__,
            trial=self.trial,
            fingerprint=self.data.fingerprint,
            tests={test.name: test.fingerprint for test in self.data.tests} if predictions and self.test else {},
            classes=self.data.classes,
            train_size=len(trainer.images.train_rows),
            parameters=parameters(trainer.regulariser),
            sampling=trainer.regulariser.sampling_cost(MC_SAMPLES)._asdict() if "mc" in trainer.modes else {},
            environment=environment(trainer.where),
            notes=tuple(trainer.notes),
            training_seconds=self.seconds,
            **(place._asdict() if place else {}),
            moves=moves,
            restarts=restarts,
            status=Status.FINISHED if self.diverged is None else Status.DIVERGED,
            epochs=trainer.epoch if self.diverged is None else self.diverged,
            best_epoch=trainer.best.epoch if self.diverged is None else None,
            evaluations=evaluate(predictions, soft_labels(self.data)),
            validation_reliability=reliability(last.validation) if last else (),
            reliability=tuple(
                Diagram(at, mode, reliability(pair.test)) for (at, mode), pair in predictions.items() if self.test
            ),
        )


def soft_labels(data: DataSet) -> dict[str, Array]:
    """Of the test sets that have such, by name."""
    return {test.name: test.soft_labels for test in data.tests if test.soft_labels is not None}


def environment(where: torch.device) -> dict[str, Plain]:
    """What a trial ran with."""
    return {
        "torch": torch.__version__,
        **device.describe(where).record(),
        "threads": torch.get_num_threads(),
    }


def write_result(files: TrialFiles, result: TrialResult) -> None:
    """Where there is a result, all other files of the trial are there, too."""
    write(files.result, result.to_json() + "\n")


def train_trial(
    trial: Trial,
    data: DataSet,
    folder: Path | None = None,
    *,
    where: torch.device | None = None,
    threads: int | None = None,
    checkpoint_seconds: float = 10.0,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
) -> TrialResult:
    """The trial's result, from the folder if it has ended there before. The options are those of `LiveTrial`."""
    files = TrialFiles.in_folder(folder) if folder else None
    if folder and files:
        with storing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        earlier = earlier_result(files, trial, data)
        if earlier:
            return earlier

    start = partial(LiveTrial, trial, data, files, where=where, threads=threads, checkpoint_seconds=checkpoint_seconds)
    under_way = start(graph=True)
    try:
        while not under_way.ended:
            try:
                record = under_way.advance()
            except CaptureError:
                under_way = start(graph=False)
                continue
            if record:
                on_epoch(record)
        under_way.save()
        return under_way.finish()
    finally:
        under_way.settle()


def parameters(regulariser: Regulariser) -> dict[str, int]:
    """How many numbers are trained: of the network, and of what the arm has beside it."""
    network, whole = (sum(p.numel() for p in part.parameters()) for part in (regulariser.innermost, regulariser))
    return {"network": network} | ({"arm": whole - network} if whole > network else {})


def earlier_result(files: TrialFiles, trial: Trial, data: DataSet) -> TrialResult | None:
    """The result of the same trial in this folder, if it has ended."""
    try:
        result = TrialResult.from_json(files.result.read_bytes(), files.result)
    except FileNotFoundError:
        return None
    except (OSError, DataError) as error:
        raise InputError(f"{files.result} cannot be read: choose another folder") from error
    tests = {test.name: test.fingerprint for test in data.tests}
    has_tests = result.status is Status.DIVERGED or result.tests == tests
    if (result.trial, result.fingerprint) != (trial, data.fingerprint) or not has_tests:
        raise InputError(f"{files.result.parent} holds another trial's result: choose another folder")
    return result
