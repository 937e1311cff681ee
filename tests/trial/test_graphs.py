"""CUDA graphs, on the pretended device."""

import warnings

import numpy as np
import pytest
import torch

from pilotstudy.arms.catalogue import all_arms
from pilotstudy.errors import CaptureError
from pilotstudy.method.pilot import Pilot
from pilotstudy.runs.records import Status
from pilotstudy.trial import checkpoint
from pilotstudy.trial.lifecycle import train_trial
from pilotstudy.trial.trainer import Trainer
from tests.support.cuda_trials import CUDA, trial_of
from tests.support.pretended import pretended
from tests.support.squares import make_data


@pytest.fixture(scope="module")
def data():
    return make_data(120)  # 60 to train with, in a batch of 32 and one of 28


BAYESIAN = ["concrete-dropout", "gaussian-dropout", "variational-dropout", "mfvi", "swag", "laplace"]
MODERN = [arm.name for arm in all_arms().values() if arm.group == "modern"]


@pytest.mark.parametrize(
    "arm",
    [
        *("vanilla", "pilot-a-aug", "pilot-a-drop", "pilot-held-out", "passes+pilot-held-out", "add-a-aug", "dropout"),
        *("data-aug", "batchnorm", *MODERN, *BAYESIAN),
    ],
)
def test_a_captured_step_is_a_step(arm, data):
    """To the bit, over batches of two sizes and a rate that changes: what is replayed is what would have been done."""
    outcomes = []
    for graph in True, False:
        trial = trial_of(arm, cuda_graph=graph, batch_size=10, epochs=2)
        with pretended(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's: that some steps of the warm-up are not captured
            trainer = Trainer(trial, make_data(123), CUDA, 1)  # 63 to train with: a last batch of 3
            records = [trainer.train_epoch() for _ in range(2)]
            trainer.prepare_sampling()
            logits = trainer.validation_logits(trainer.modes[-1])
            if graph:
                assert trainer.graph.graph.steps
        outcomes.append(([{k: v for k, v in r.items() if "second" not in k} for r in records], logits))
    assert outcomes[0][0] == outcomes[1][0]
    assert np.array_equal(outcomes[0][1], outcomes[1][1])


def test_a_step_that_cannot_be_captured_is_an_ordinary_one_and_a_note_says_so(data, monkeypatch, tmp_path):
    clip = Pilot.clip_gradients
    monkeypatch.setattr(Pilot, "clip_gradients", lambda self: (clip(self), self.dgm.decoder[0].bias.sum().item())[0])
    trial = trial_of("pilot-a-aug", cuda_graph=True, batch_size=10)
    with pretended() as gpu:
        trainer = Trainer(trial, data, CUDA, 1)
        with pytest.raises(CaptureError, match="not permitted when stream is capturing"):
            trainer.train_epoch()
        result = train_trial(trial, data, tmp_path, where=CUDA)
    assert result.status is Status.FINISHED
    assert result.notes == ("steps were ordinary ones: capturing them as a CUDA graph failed",)
    assert any(what == "item" for what, _ in gpu.waits)


def test_a_captured_step_is_one_launch_and_resumes_without_a_gpu(data, tmp_path):
    trial = trial_of("pilot-a-aug", cuda_graph=True, batch_size=10)
    with pretended() as gpu:
        trainer = Trainer(trial, data, CUDA, 1)
        trainer.train_epoch()
        x, y = next(iter(trainer.batches()))
        gpu.launches.clear()
        trainer.graph(x, y)
        assert sum(gpu.launches.values()) == 3  # the batch goes in, and the rate
        checkpoint.save(tmp_path / "c.pt", trainer.state())
    there = Trainer(trial, data, torch.device("cpu"), 1)
    there.restore(checkpoint.load(tmp_path / "c.pt"))
    there.train_epoch()
    assert there.notes == ["went on on a CPU after epoch 1 on a GPU"]
    assert Trainer(trial, data, torch.device("cpu"), 1).notes == ["cuda_graph has no effect: the trial runs on a CPU"]
