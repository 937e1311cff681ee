"""One trial's life: killed, resumed, diverged, done already."""

import json
import subprocess
import sys

import numpy as np
import pytest

from pilotstudy.errors import DivergedError, InputError, StorageError
from pilotstudy.runs.layout import TrialFiles
from pilotstudy.runs.records import Status
from pilotstudy.trial.lifecycle import train_trial
from pilotstudy.trial.trainer import Trainer
from tests.support.squares import make_trial
from tests.support.waiting import wait_for


def test_a_killed_process_resumes_to_the_same_bits(tmp_path):
    """kill -9 somewhere in an epoch; the command line then goes on."""
    options = {"training.epochs": 4, "data.train_size": 300, "data.validation": 200}
    script = (
        "import sys; from pathlib import Path\n"
        "from pilotstudy.data.dataset import load_data; from pilotstudy.trial.lifecycle import train_trial\n"
        "from pilotstudy.study.budget import fixed_trial; from pilotstudy.study.reading import read_study\n"
        f"trial = fixed_trial(read_study('quickstart', {options}), 'data-aug', 0)\n"
        "train_trial(trial, load_data('fashion'), Path(sys.argv[1]), threads=1, checkpoint_seconds=0)\n"
    )
    files = TrialFiles.in_folder(tmp_path / "a")
    process = subprocess.Popen([sys.executable, "-c", script, tmp_path / "a"])
    wait_for(files.checkpoint.exists, "a checkpoint", process=process)
    process.kill()
    process.wait()
    assert not files.result.exists()
    command = [sys.executable, "-m", "pilotstudy", "train", "quickstart", "--arm", "data-aug", "--json"]
    command += ["--epochs", "4", "--train-size", "300", "--set", "data.validation=200", "--threads", "1", "-o"]
    results = []
    for name in "a", "b":
        done = subprocess.run([*command, tmp_path / name], capture_output=True, text=True, check=True)
        results.append(json.loads(done.stdout))
        assert ("epoch 1/4" in done.stderr) == (name == "b")
    assert results[0]["evaluations"] == results[1]["evaluations"]


def test_a_loss_that_is_not_finite_ends_the_trial(squares, tmp_path):
    trial = make_trial("vanilla")
    trial = trial.model_copy(update={"training": trial.training.model_copy(update={"learning_rate": 1e30})})
    with pytest.raises(DivergedError, match="epoch 1"):
        Trainer(trial, squares).train_epoch()
    result = train_trial(trial, squares, tmp_path)
    assert (result.status, result.epochs, result.evaluations) == (Status.DIVERGED, 1, ())
    assert "NaN" not in TrialFiles.in_folder(tmp_path).result.read_text()
    assert train_trial(trial, squares, tmp_path) == result


def test_predictions_that_are_not_finite_end_the_trial_as_diverged(squares, tmp_path):
    """A network that is sure of every image beyond all numbers leaves laplace no curvature."""
    trial = make_trial("laplace")
    trial = trial.model_copy(update={"training": trial.training.model_copy(update={"learning_rate": 1e5})})
    assert np.isfinite(Trainer(trial, squares).train_epoch()["validation_nll"])
    result = train_trial(trial, squares, tmp_path)
    assert (result.status, result.epochs, result.evaluations) == (Status.DIVERGED, 2, ())
    assert not TrialFiles.in_folder(tmp_path).predictions.exists()
    assert train_trial(trial, squares, tmp_path) == result


def test_a_result_is_not_made_twice_nor_overwritten(squares, tmp_path):
    first = train_trial(make_trial(), squares, tmp_path)

    def fail(record):
        raise AssertionError("trained again")

    assert train_trial(make_trial(), squares, tmp_path, on_epoch=fail) == first
    with pytest.raises(InputError, match="holds another trial's result"):
        train_trial(make_trial(seed=1), squares, tmp_path)


def test_a_folder_that_cannot_be_made(squares, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        train_trial(make_trial(epochs=1), squares, tmp_path / "file" / "folder")
