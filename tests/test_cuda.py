"""Trials on CUDA, on a pretended device that fails as a GPU would (see `pretended`)."""

import contextlib
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import make_data, make_trial
from pretended import CARD, Pretend, pretended
from torch.nn import functional as F

from pilotstudy import checkpoint, device, networks
from pilotstudy.arms import arms
from pilotstudy.errors import CaptureError, DeviceError
from pilotstudy.files import TrialFiles
from pilotstudy.method.augmentation import DataAugmentation
from pilotstudy.method.masks import MaskPrior
from pilotstudy.method.noise import Noise
from pilotstudy.method.pilot import Pilot
from pilotstudy.training import Trainer
from pilotstudy.trial import TrialRun, run

CUDA = torch.device("cuda")
SMALL = {"dgm_width": 8, "z": 2, "mask_schedule": "annealed", "mask_rate": 0.9}


@pytest.fixture(scope="module")
def data():
    return make_data(120)  # 60 to train with, in a batch of 32 and one of 28


def trial_of(arm: str, network: str = "mlp-512", **training):
    settings = {name: value for name, value in SMALL.items() if name in arms()[arm].settings.model_fields}
    made = make_trial(arm, network=network, **settings)
    return made.model_copy(update={"training": made.training.model_copy(update=training)})


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("network", ["mlp-512", "cnn"])
@pytest.mark.parametrize("arm", list(arms()))
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
        first = TrialRun(trial, data, TrialFiles.in_folder(tmp_path), where=CUDA, threads=1)
        first.advance()
        first.save()
        assert all(type(p) is Pretend and p.is_contiguous() for p in first.trainer.regulariser.parameters())
        result = run(trial, data, tmp_path, where=CUDA, threads=1)
    assert result["status"] == "finished"
    assert len(waited) == 4
    assert not any(waited), waited
    assert len(result["evaluations"]) == 8 * len(arms()[arm].modes)
    assert result["environment"]["device"] == "Pretended"
    assert result["environment"]["multiprocessors"] == 58
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
        model, scaling = trainer.regulariser.network.to("cpu"), trainer.scaling.to(torch.device("cpu"))
    assert {values.dtype for values in logits.values()} == {np.dtype("float32")}
    x = scaling(torch.from_numpy(data.train_images)[trainer.validation_rows])
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
        for p, state in moved.optimiser.state.items():
            assert state["exp_avg"].stride() == p.stride()
            assert state["exp_avg"].device.type == p.device.type == state["step"].device.type == second.type
        moved.train_epoch()
        for a, b in zip(whole.regulariser.parameters(), moved.regulariser.parameters(), strict=True):
            torch.testing.assert_close(a.cpu(), b.cpu(), rtol=1e-5, atol=1e-7)
        assert moved.notes == [f"went on on a {'CPU' if there == 'cpu' else 'GPU'} after epoch 1 on a "
                               f"{'GPU' if there == 'cpu' else 'CPU'}"]  # fmt: skip


# ---- dense masks: the same numbers as the lists of rows of a CPU ----


@pytest.fixture
def steady_noise(monkeypatch):
    """Every draw is the same number, so that it does not matter how many there are nor in which order."""
    monkeypatch.setattr(torch, "randn_like", lambda like: torch.full_like(like, 0.3))


@contextlib.contextmanager
def dense(regulariser):
    """The regulariser as on CUDA."""
    regulariser.mask_prior.dense = True
    yield
    regulariser.mask_prior.dense = False


def both(regulariser, x, y, seed: int):
    """Loss, terms, gradients, running moments and sampled probabilities, with lists of rows and dense."""
    outcomes = []
    start = {name: value.clone() for name, value in regulariser.state_dict().items() if torch.is_tensor(value)}
    for as_dense in False, True:
        regulariser.load_state_dict(start, strict=False)
        with dense(regulariser) if as_dense else contextlib.nullcontext():
            torch.manual_seed(seed)
            regulariser.zero_grad()
            regulariser.train()
            loss = regulariser.loss(x, y)
            loss.total.backward()
            torch.manual_seed(seed)
            sampled = regulariser.predict(x, samples=3)
        gradients = {
            name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in regulariser.named_parameters()
        }
        terms = {name: float(value) / max(float(count), 1e-12) for name, (value, count) in loss.terms.items()}
        buffers = {name: value.clone() for name, value in regulariser.named_buffers()}
        outcomes.append((loss.total.detach(), loss.cross_entropy.detach(), terms, gradients, buffers, sampled))
    return outcomes


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("kind", ["a-aug", "x-aug"])
@pytest.mark.parametrize("network", ["mlp", "cnn"])
def test_dense_pilot_is_pilot(network, kind, normalise, double, steady_noise):
    torch.manual_seed(0)
    net = networks.mlp((3, 8, 8), 4, hidden=(12, 9)) if network == "mlp" else networks.cnn((3, 8, 8), 4)
    x, y = torch.randn(24, 3, 8, 8), torch.arange(24) % 4
    pilot = Pilot(net, net.layers, x[:1], mask=kind, mask_rate=0.7, dgm_width=8, z=3, normalise=normalise)
    for seed in range(2):  # the second step starts from moments that have begun
        rows, same = both(pilot, x, y, seed)
        assert set(rows[2]) == set(same[2])
        torch.testing.assert_close(rows, same, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("stop_gradient", [False, True])
@pytest.mark.parametrize("kind", ["add", "sub"])
@pytest.mark.parametrize("mask", ["a-aug", "x-aug"])
def test_dense_noise_is_noise(mask, kind, stop_gradient, double, steady_noise):
    torch.manual_seed(0)
    net = networks.cnn((3, 8, 8), 4)
    x, y = torch.randn(24, 3, 8, 8), torch.arange(24) % 4
    noise = Noise(net, net.layers, x[:1], kind=kind, mask=mask, stop_gradient=stop_gradient)
    rows, same = both(noise, x, y, 0)
    torch.testing.assert_close(rows, same, rtol=1e-12, atol=1e-12)


def test_dense_augmentation_is_augmentation(double, monkeypatch):
    torch.manual_seed(0)
    images, chosen = torch.rand(20, 3, 8, 8), torch.rand(3, 20) < 0.4
    augmentation = DataAugmentation(torch.nn.Flatten(), mean=torch.zeros(3), deviation=torch.ones(3))
    monkeypatch.setattr(augmentation, "_shift", lambda images: (images + 0.1).clamp(0, 1))
    monkeypatch.setattr(augmentation, "_angles", lambda n, like: torch.full((n,), 0.2))
    rows, same = augmentation._by_rows(images.clone(), chosen), augmentation._dense(images.clone(), chosen)
    torch.testing.assert_close(rows, same, rtol=1e-12, atol=1e-12)
    assert not torch.equal(rows, images)


def test_a_dense_mask_with_nothing_masked_changes_nothing(double, steady_noise):
    torch.manual_seed(0)
    net = networks.mlp((1, 4, 4), 3, hidden=(5,))
    x, y = torch.randn(8, 1, 4, 4), torch.arange(8) % 3
    pilot = Pilot(net, net.layers, x[:1], mask_rate=1.0, mask_schedule="annealed", dgm_width=4, z=2)
    with dense(pilot):
        loss = pilot.loss(x, y)
        loss.total.backward()
    torch.testing.assert_close(loss.total.detach(), F.cross_entropy(net(x), y).detach(), rtol=1e-14, atol=0)
    assert not any(p.grad.any() for p in pilot.dgm.parameters())
    assert not pilot.normaliser.started
    assert not pilot.normaliser.mean.any()


def test_dense_masks_follow_the_law():
    """A rate on the device (as a captured step has it) draws what a number does."""
    torch.manual_seed(0)
    prior, n = MaskPrior("a-aug", [7, 5, 3]), 30_000
    for rate in 0.0, 0.3, 1.0:
        mask = prior._dense(prior._draw_layers(n, torch.tensor(rate), "cpu"))
        share = mask.seen.mean(0)
        assert (share - rate / 3).abs().max() <= 4 * (rate / 3 * (1 - rate / 3) / n) ** 0.5
        assert torch.equal(mask.weights, mask.seen.sum(1))
        assert mask.weights.max() <= 1
        drop = MaskPrior("a-drop", [7, 5, 3]).draw(n, torch.tensor(rate)).seen.mean().item()
        assert drop == pytest.approx(rate, abs=4 * (rate * (1 - rate) / (15 * n)) ** 0.5 + 1e-5)


# ---- CUDA graphs ----


@pytest.mark.parametrize(
    "arm", ["vanilla", "pilot-a-aug", "pilot-a-drop", "add-a-aug", "dropout", "data-aug", "batchnorm"]
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
        result = run(trial, data, tmp_path, where=CUDA)
    assert result["status"] == "finished"
    assert result["notes"] == ["steps were ordinary ones: capturing them as a CUDA graph failed"]
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


# ---- a device that cannot be used ----


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


def test_a_share_is_measured_on_the_device(data):
    from pilotstudy.cluster.capacity import peak_and_memory, share_for

    with pretended() as gpu:
        peak, memory = peak_and_memory([trial_of("vanilla"), trial_of("pilot-a-aug", "cnn")], data)
        assert gpu.launches["convolution"] > 0
    assert (peak, memory) == (2**30, 24 * 2**30)
    assert share_for(peak, memory) == 1 / 8
