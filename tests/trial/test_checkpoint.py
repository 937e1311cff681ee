import pickle
import subprocess
import sys
import threading

import pytest
import torch

from pilotstudy.errors import CheckpointError
from pilotstudy.runs.layout import TrialFiles
from pilotstudy.trial import checkpoint
from pilotstudy.trial.lifecycle import train_trial
from pilotstudy.trial.trainer import Trainer
from tests.support.squares import make_data, make_trial


def test_checkpoints_of_others_are_refused(squares, tmp_path):
    files = TrialFiles.in_folder(tmp_path)
    trainer = Trainer(make_trial("dropout"), squares)
    trainer.train_epoch()
    checkpoint.save(files.checkpoint, trainer.state())
    before = files.checkpoint.read_bytes()
    with pytest.raises(CheckpointError, match=r"of another trial \(dropout, seed 0; this one differs in arm"):
        train_trial(make_trial("vanilla"), squares, tmp_path)
    with pytest.raises(CheckpointError, match="of other data"):
        train_trial(make_trial("dropout"), make_data(seed=1), tmp_path)
    assert files.checkpoint.read_bytes() == before
    files.checkpoint.write_bytes(before[: len(before) // 2])
    with pytest.raises(CheckpointError, match="damaged"):
        train_trial(make_trial("dropout"), squares, tmp_path)


def test_a_pickle_in_a_checkpoint_is_not_run(squares, tmp_path):
    files = TrialFiles.in_folder(tmp_path)

    class Bomb:
        def __reduce__(self):
            return open, (str(tmp_path / "boom"), "w")

    torch.save({"format": 1, "model": Bomb()}, files.checkpoint)
    with pytest.raises(CheckpointError, match="more than tensors"):
        train_trial(make_trial(), squares, tmp_path)
    files.checkpoint.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(CheckpointError):
        train_trial(make_trial(), squares, tmp_path)
    assert not (tmp_path / "boom").exists()


def test_a_full_disk_loses_nothing(tmp_path):
    """A file size limit stands in for a full disk: the same failing write, half-way through."""
    files = TrialFiles.in_folder(tmp_path)
    checkpoint.save(files.checkpoint, {"weights": torch.zeros(10)})
    script = (
        "import resource, sys, torch; from pathlib import Path; from pilotstudy.trial import checkpoint\n"
        "from pilotstudy.errors import StorageError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "try: checkpoint.save(Path(sys.argv[1]), {'weights': torch.zeros(100_000)})\n"
        "except StorageError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, files.checkpoint], capture_output=True, text=True, check=True)
    assert "cannot write" in done.stdout
    assert checkpoint.load(files.checkpoint)["weights"].shape == (10,)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_saving_costs_at_most_a_twentieth_of_the_time(tmp_path, monkeypatch):
    """The next save waits 20 times as long as the last took, copying included; it is written beside the training."""
    now, may_end, seen = [1000.0], threading.Event(), []

    def slow(path, content):
        assert may_end.wait(120)
        seen.append(content["weights"].clone())

    monkeypatch.setattr(checkpoint, "save", slow)
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])
    saver = checkpoint.Saver(tmp_path / "c.pt", 0.0)
    weights = torch.zeros(10)
    for number in range(3):
        assert saver.due()
        saver.save({"weights": weights})
        weights += 1  # goes on at once; what is written is what it was
        assert not saver.due()
        assert len(seen) == number  # it is still being written
        now[0] += 0.05
        may_end.set()
        saver.wait()
        may_end.clear()
        now[0] += 20 * 0.05 - 0.001
        assert not saver.due()
        now[0] += 0.002
    assert [int(w[0]) for w in seen] == [0, 1, 2]
