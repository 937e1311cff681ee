"""When checkpoints are written, what is in them, and what is told of those that cannot be used."""

import threading

import pytest
import torch

from pilotstudy.errors import CheckpointError, StorageError
from pilotstudy.trial import checkpoint


def test_a_checkpoint_is_of_when_it_was_given(tmp_path, monkeypatch):
    """Training goes on while it is written."""
    go_on = threading.Event()
    save = checkpoint.save
    monkeypatch.setattr(checkpoint, "save", lambda *words: go_on.wait(60) and save(*words))
    saver = checkpoint.Saver(tmp_path / "c.pt", 0.0)
    weights = torch.zeros(3)
    saver.save({"model": {"weights": weights}})
    weights.fill_(1.0)
    assert not saver.due()  # one at a time
    go_on.set()
    saver.wait()
    assert checkpoint.load(tmp_path / "c.pt")["model"]["weights"].tolist() == [0, 0, 0]


@pytest.mark.parametrize(("seconds", "took", "after"), [(10.0, 0.1, 10.0), (10.0, 2.0, 40.0), (0.0, 0.5, 10.0)])
def test_checkpoints_cost_a_twentieth_of_the_time_at_most(tmp_path, monkeypatch, seconds, took, after):
    clock = [100.0]
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(checkpoint, "save", lambda *_: clock.__setitem__(0, clock[0] + took))
    saver = checkpoint.Saver(tmp_path / "c.pt", seconds)
    saver.save({})
    saver.wait()
    ended = clock[0]
    clock[0] = ended + after - 0.01
    assert not saver.due()
    clock[0] = ended + after + 0.01
    assert saver.due()


def test_a_checkpoint_that_could_not_be_written_is_told_once(tmp_path):
    (tmp_path / "file").write_text("in the way")
    saver = checkpoint.Saver(tmp_path / "file" / "c.pt", 0.0)
    saver.save({"weights": torch.zeros(1)})
    with pytest.raises(StorageError, match="cannot write"):
        saver.wait()
    saver.wait()
    saver.save({"weights": torch.zeros(1)})
    saver._thread.join()
    with pytest.raises(StorageError, match="cannot write"):
        saver.due()


def test_a_checkpoint_of_another_version_is_refused(tmp_path):
    for content in {"format": checkpoint.FORMAT - 1, "epoch": 1}, {"epoch": 1}, [1, 2]:
        torch.save(content, tmp_path / "c.pt")
        with pytest.raises(CheckpointError, match="not a checkpoint of this version"):
            checkpoint.load(tmp_path / "c.pt")
