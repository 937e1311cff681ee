"""Every kind of file has a format number, and one of a newer format is refused in one line."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from pilotstudy.cluster.messages import Starts
from pilotstudy.data import dataset
from pilotstudy.errors import DataError, NewerFormatError
from pilotstudy.runs import schemas
from pilotstudy.runs.folder import Run
from pilotstudy.runs.frozen import FrozenStudy
from pilotstudy.runs.layout import RunFiles, TrialFiles
from pilotstudy.runs.records import Proposal, TrialResult
from pilotstudy.runs.results import Results
from pilotstudy.runs.schemas import ModelPredictions, Predictions
from pilotstudy.schedule.director import Director
from pilotstudy.trial import checkpoint
from pilotstudy.trial.lifecycle import train_trial
from pilotstudy.trial.trainer import Trainer
from tests.support.command_line import refused
from tests.support.made_run import FINGERPRINT, made
from tests.support.pictures import image_folder
from tests.support.squares import make_trial


def newer_json(path: Path) -> None:
    path.write_text(json.dumps({"format": 99, "unheard": "of"}))


def newer_table(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({"pilotstudy": json.dumps({"version": 99})}), path)


def message(path: Path, newest: int) -> str:
    line = f"{path} was written by a newer pilotstudy (format 99; this one reads up to {newest}): upgrade pilotstudy"
    return f"^{line.replace('(', '[(]').replace(')', '[)]').replace('.', '[.]')}$"


@pytest.fixture
def own(tmp_path) -> Run:
    return made(tmp_path / "runs" / "made", points=20, seeds=[0], search=None, arms={"vanilla": {}, "dropout": {}})


def refuses(work: Callable[[], object], path: Path, newest: int) -> None:
    with pytest.raises(NewerFormatError, match=message(path, newest)) as error:
        work()
    assert error.value.exit_code == 2


def test_a_study(own, pilotstudy):
    newer_json(own.files.study)
    refuses(own.frozen, own.files.study, FrozenStudy.FORMAT)
    where = ("--runs-dir", own.files.folder.parent)
    for command in "results", "table", "status", "claims", "compare", "resume":
        refused(pilotstudy(command, "made", *where), 2, "study.json was written by a newer")
    code, out, _ = pilotstudy("list", *where)  # other runs can be read
    assert code == 0
    assert "of a newer pilotstudy" in out


def test_a_result(own):
    path = next(iter(own.files.results.iterdir()))
    newer_json(path)
    refuses(lambda: own.result(path.stem), path, TrialResult.FORMAT)
    path.write_text(json.dumps({"format": 99, **own.study().model_dump()}))
    own.files.trials.unlink()  # so that its results are read one by one
    refuses(lambda: Director(own.study(), own, FINGERPRINT).all_done(), path, TrialResult.FORMAT)


def test_a_result_that_could_be_read_otherwise(own):
    """What is new in it may be what matters."""
    path = next(iter(own.files.results.iterdir()))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    refuses(lambda: own.result(path.stem), path, TrialResult.FORMAT)


def test_the_table_of_trials(own, pilotstudy):
    newer_table(own.files.trials)
    refuses(lambda: Results(own.files).rows(), own.files.trials, schemas.FORMAT)
    refuses(lambda: Director(own.study(), own, FINGERPRINT), own.files.trials, schemas.FORMAT)
    refused(pilotstudy("status", "made", "--runs-dir", own.files.folder.parent), 2, "trials.parquet was written by a")


def test_epochs_and_predictions(own):
    key = own.files.results.glob("*.json").__next__().stem
    files = own.files.trial(key)
    newer_table(files.predictions)
    refuses(lambda: schemas.load_predictions(files.predictions), files.predictions, schemas.FORMAT)
    refuses(lambda: Results(own.files).predictions, files.predictions, schemas.FORMAT)
    newer_table(files.epochs)
    refuses(lambda: Results(own.files).epochs, files.epochs, schemas.FORMAT)


def test_gathered_epochs(own):
    schemas.save(own.files.all_epochs, Results(own.files).epochs)
    newer_table(own.files.all_epochs)
    refuses(lambda: Results(own.files).epochs, own.files.all_epochs, schemas.FORMAT)


def test_a_proposal(own):
    path = own.files.proposal("dropout", 0)
    path.parent.mkdir()
    newer_json(path)
    refuses(lambda: own.proposal("dropout", 0), path, Proposal.FORMAT)


def test_a_checkpoint_and_what_train_wrote(squares, tmp_path):
    files = TrialFiles.in_folder(tmp_path)
    trainer = Trainer(make_trial(), squares)
    torch.save({"format": 99} | trainer.state(), files.checkpoint)
    refuses(lambda: checkpoint.load(files.checkpoint), files.checkpoint, checkpoint.FORMAT)
    refuses(lambda: train_trial(make_trial(), squares, tmp_path), files.checkpoint, checkpoint.FORMAT)
    newer_json(files.result)
    refuses(lambda: train_trial(make_trial(), squares, tmp_path), files.result, TrialResult.FORMAT)


def test_prepared_data(tmp_path):
    name = str(image_folder(tmp_path / "own"))
    dataset.load_data(name)
    path = dataset.find(name).files.meta
    newer_json(path)
    refuses(lambda: dataset.load_data(name), path, dataset.FORMAT)
    path.write_text(json.dumps({"fingerprint": "of another time"}))
    assert dataset.load_data(name).fingerprint == json.loads(path.read_text())["fingerprint"]
    assert json.loads(path.read_text())["format"] == dataset.FORMAT


def test_the_count_of_starts(tmp_path):
    path = tmp_path / "starts.json"
    starts = Starts("session", "n1").again("n2", moved=True).again("n3", moved=False)
    assert Starts.from_json(starts.to_json().encode(), path) == Starts("session", "n3", moves=1, restarts=1)
    old = {"session": "s", "moves": 1, "restarts": 0, "node": "n"}
    assert Starts.from_json(json.dumps(old).encode(), path) == Starts("s", "n", 1, 0)
    refuses(lambda: Starts.from_json(b'{"format": 99}', path), path, Starts.FORMAT)
    for damaged in b"", b"[]", b'{"session": 3}':
        with pytest.raises(DataError, match="damaged"):
            Starts.from_json(damaged, path)


def test_predictions_that_are_missing_need_not_be_removed(tmp_path):
    path = RunFiles(tmp_path / "mine").trial("ab").predictions
    told = r"ab.parquet is missing: remove its trial's results/ab.json, and `pilotstudy resume mine.* makes both again$"
    with pytest.raises(DataError, match=told):
        schemas.load_predictions(path)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"torn")
    with pytest.raises(DataError, match=r"is damaged: remove it and its trial's results/ab.json"):
        schemas.load_predictions(path)


def test_predictions_of_versions_before_surprise(tmp_path):
    """Which were of the same format, or of format 1 without the draws' entropy; and that it is kept."""
    part = Predictions(
        np.arange(4), np.arange(4) % 2, np.ones((4, 2), np.float32), surprise=np.arange(4, dtype=np.float32)
    )
    path = tmp_path / "p.parquet"
    table = schemas.predictions_table({("last", "point"): ModelPredictions(part, part)})
    schemas.save(path, table)
    assert schemas.load_predictions(path)["last", "point"].test.surprise.tolist() == [0, 1, 2, 3]
    for lacking in ["surprise"], ["surprise", "expected_entropy"]:
        schemas.save(path, table.drop_columns(lacking))
        read = schemas.load_predictions(path)["last", "point"].test
        assert read.surprise is None
        assert np.array_equal(read.logits, part.logits)
    schemas.save(path, table.drop_columns(["logits"]))
    with pytest.raises(DataError, match="is damaged"):
        schemas.load_predictions(path)


def test_predictions_by_epoch_and_mode(tmp_path):
    """Whatever order they were stored in; and a split that is missing is not taken for the other."""
    random = np.random.default_rng(0)

    def part(n: int) -> Predictions:
        return Predictions(np.arange(n), random.integers(0, 3, n), random.normal(size=(n, 3)).astype(np.float32))

    models = [("best", "mc"), ("last", "point"), ("last", "mc")]
    pairs = {model: ModelPredictions(part(5), part(7)) for model in models}
    path = tmp_path / "p.parquet"
    table = schemas.predictions_table(pairs)
    parts = [table.slice(start, n) for start, n in ((0, 5), (5, 7), (12, 5), (17, 7), (24, 5), (29, 7))]
    schemas.save(path, pa.concat_tables(reversed(parts)))
    loaded = schemas.load_predictions(path)
    assert loaded.keys() == pairs.keys()
    for model, pair in pairs.items():
        for split in "validation", "test":
            ours, theirs = getattr(loaded[model], split), getattr(pair, split)
            assert np.array_equal(ours.logits, theirs.logits)
            assert np.array_equal(ours.labels, theirs.labels)
    schemas.save(path, table.slice(0, table.num_rows - 7))
    with pytest.raises(DataError, match="lacks the predictions of a split"):
        schemas.load_predictions(path)
