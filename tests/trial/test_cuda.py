"""Trials on CUDA, on a pretended device that fails as a GPU would (see `pretended`)."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pilotstudy.arms.catalogue import arm_named
from pilotstudy.errors import DeviceError
from pilotstudy.runs.layout import TrialFiles
from pilotstudy.runs.records import Status
from pilotstudy.trial import checkpoint, device
from pilotstudy.trial.lifecycle import LiveTrial, train_trial
from pilotstudy.trial.trainer import Trainer
from tests.support.arms import TRAINABLE
from tests.support.cuda_trials import CUDA, trial_of
from tests.support.pretended import CARD, Pretend, pretended
from tests.support.squares import make_data


@pytest.fixture(scope="module")
def data():
    return make_data(120)  # 60 to train with, in a batch of 32 and one of 28


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("network", ["mlp-512", "cnn"])
@pytest.mark.parametrize("arm", TRAINABLE)
def test_a_whole_trial(arm, network, precision, data, tmp_path, monkeypatch):
    """Built, trained, validated, sampled, saved, restored, finished; and the host never waits within a step."""
    waited, step = [], Trainer.step

    def watched(self, x, y):
        before = gpu.waits.copy()
        done = step(self, x, y)
        waited.append(gpu.waits - before)
        return done

    monkeypatch.setattr(Trainer, "step", watched)
    trial = trial_of(arm, network, precision=precision)
    with pretended() as gpu:
        first = LiveTrial(trial, data, TrialFiles.in_folder(tmp_path), where=CUDA, threads=1)
        first.advance()
        first.save()
        assert all(type(p) is Pretend and p.is_contiguous() for p in first.trainer.regulariser.parameters())
        result = train_trial(trial, data, tmp_path, where=CUDA, threads=1)
    assert result.status is Status.FINISHED
    assert len(waited) == 4
    assert not any(waited), waited
    assert len(result.evaluations) == 8 * len(arm_named(arm).modes)
    assert result.environment["device"] == "Pretended"
    assert result.environment["multiprocessors"] == 58
    saved = checkpoint.load(TrialFiles.in_folder(tmp_path).checkpoint)
    assert saved["epoch"] == 2
    assert saved["device"] == "cuda"


def test_an_epoch_reads_back_once(data):
    with pretended() as gpu:
        trainer = Trainer(trial_of("pilot-a-aug"), data, CUDA, 1)
        gpu.waits.clear()
        trainer.train_epoch()
    kinds = {what for what, _ in gpu.waits}
    assert kinds == {"host to device", "device to host", "tolist"}, gpu.waits
    # The order of the images and the rows to validate go there; the means and the validation logits come back.
    assert sum(gpu.waits.values()) == 4, gpu.waits


def test_a_mix_of_devices_fails_as_on_a_gpu(data):
    with pretended():
        here, there = torch.ones(3), torch.ones(3, device="cuda")
        with pytest.raises(RuntimeError, match="same device"):
            here + there
        assert (there + torch.tensor(1.0)).device.type == "cuda"  # a number may come from anywhere
        with pytest.raises(TypeError, match="numpy"):
            there.numpy()
        trainer = Trainer(trial_of("vanilla"), data, CUDA, 1)
        with pytest.raises(RuntimeError, match="same device"):
            trainer.regulariser.loss(torch.zeros(4, 1, 8, 8), torch.zeros(4, dtype=torch.long))


def test_predictions_are_float32_and_outside_autocast(data):
    trial = trial_of("pilot-a-aug", precision="bf16")
    with pretended():
        trainer = Trainer(trial, data, CUDA, 1)
        trainer.train_epoch()
        logits = {mode: trainer.validation_logits(mode) for mode in ("point", "mc")}
        model, scaling = trainer.regulariser.network.to("cpu"), trainer.images.scaling.to(torch.device("cpu"))
    assert {values.dtype for values in logits.values()} == {np.dtype("float32")}
    x = scaling(torch.from_numpy(data.train_images)[trainer.images.validation_rows])
    model.eval()
    with torch.no_grad():
        expected = model(x).numpy()
    np.testing.assert_allclose(logits["point"], expected, atol=1e-5)  # bf16 would be off by some 1e-2


@pytest.mark.parametrize("there", ["cuda", "cpu"])
@pytest.mark.parametrize("network", ["mlp-512", "cnn"])
def test_a_trial_goes_on_on_the_other_device(network, there, data, tmp_path):
    """The optimiser's moments are as they were, and the next step is the one that the first device would have made."""
    trial = trial_of("l2", network)  # draws nothing at random
    files = TrialFiles.in_folder(tmp_path)
    first, second = (CUDA, torch.device("cpu")) if there == "cpu" else (torch.device("cpu"), CUDA)
    with pretended():
        whole = Trainer(trial, data, first, 1)
        whole.train_epoch()
        checkpoint.save(files.checkpoint, whole.state())
        whole.train_epoch()
        moved = Trainer(trial, data, second, 1)
        moved.restore(checkpoint.load(files.checkpoint))
        for p, state in moved.optimiser.optimisers[0].state.items():
            assert state["exp_avg"].stride() == p.stride()
            assert state["exp_avg"].device.type == p.device.type == state["step"].device.type == second.type
        moved.train_epoch()
        for a, b in zip(whole.regulariser.parameters(), moved.regulariser.parameters(), strict=True):
            torch.testing.assert_close(a.cpu(), b.cpu(), rtol=1e-5, atol=1e-7)
        assert moved.notes == [f"went on on a {'CPU' if there == 'cpu' else 'GPU'} after epoch 1 on a "
                               f"{'GPU' if there == 'cpu' else 'CPU'}"]  # fmt: skip


def test_a_gpu_that_cannot_be_used_is_named_never_replaced(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.2")
    monkeypatch.setattr(device, "nvidia_driver", lambda: "550.90.07")
    monkeypatch.setattr(device, "nvidia_cards", lambda: ["Tesla T4"])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with pytest.raises(DeviceError, match=r"Tesla T4 with driver 550.*CUDA 13.2, which needs NVIDIA's driver 580"):
        device.choose("cuda")
    monkeypatch.setattr(device, "nvidia_driver", lambda: None)
    with pytest.raises(DeviceError, match="no NVIDIA driver"):
        device.choose("cuda")
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(DeviceError, match="without CUDA"):
        device.choose("cuda:0")
    assert device.choose("auto") == torch.device("cpu")
    with pretended():
        with pytest.raises(DeviceError, match="no device 'cuda:3'"):
            device.choose("cuda:3")
        assert str(device.describe(CUDA)).startswith("Pretended (24 GiB, driver")
        assert device.unsupported(CUDA) == ""
    with pretended(SimpleNamespace(**vars(CARD) | {"name": "P100", "major": 6, "minor": 0})):
        assert "older than any" in device.unsupported(CUDA)
