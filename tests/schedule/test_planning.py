"""What a study would cost: timed on the right device, or estimated; in hours and dollars."""

import dataclasses
import json
from types import SimpleNamespace
from unittest import mock

import pytest
import torch

from pilotstudy.errors import DeviceError
from pilotstudy.report import plain
from pilotstudy.schedule import plan, prices, timing
from pilotstudy.study import reading
from pilotstudy.trial import device
from tests.support.pretended import CARD, Graph, pretended
from tests.support.squares import make_data

L4 = prices.GPUS["L4"]


class OnlyCounted:
    """Test images or labels of which nothing but their number may be known."""

    def __len__(self) -> int:
        return 5000


def sharing(study, share: float):
    """The study with so much of a GPU for each trial."""
    return study.model_copy(update={"resources": study.resources.changed({"gpus_per_trial": share})})


@pytest.fixture
def study(monkeypatch):
    data = dataclasses.replace(make_data(), test_images=OnlyCounted(), test_labels=OnlyCounted())
    monkeypatch.setattr(plan, "load_study_data", lambda *_: data)
    content = {
        "title": "squares",
        "seeds": [0, 1],
        "data": {"name": "squares", "validation": 60},
        "network": {"name": "mlp-512"},
        "training": {"epochs": 3, "batch_size": 32},
        "arms": {"vanilla": {}, "pilot-a-aug": {"dgm_width": 32, "z": 8}, "dropout": {}},
        "search": {"arms": ["dropout"], "trials": 4, "confirm_seeds": 2},
    }
    return reading.validate_study(content, "test")


@pytest.fixture
def l4():
    """A machine with an L4, as far as torch can tell."""
    with pretended(SimpleNamespace(**vars(CARD) | {"name": "NVIDIA L4"})) as gpu:
        yield gpu


def test_it_times_the_device_that_run_will_use(study, l4):
    one = study.model_copy(update={"arms": {"vanilla": {}}, "search": None})
    found = plan.plan_study(one, None)
    assert found["device"].startswith("CPU")  # a GPU is here, and was not asked for
    assert not l4.launches
    for share in 0.5, "auto":
        l4.launches.clear()
        found = plan.plan_study(sharing(one, share), None)
        assert found["device"].startswith("NVIDIA L4 (24 GiB, driver")
        assert "58 multiprocessors" in found["device"]
        assert found["gpu_memory_gib"] == (3 if share == 0.5 else 1.5)  # two trials of 1 GiB, each with CUDA's own
        assert l4.launches


def test_a_gpu_that_cannot_be_used_is_an_error(study, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match="cuda was asked for and cannot be used"):
        plan.plan_study(sharing(study, 1.0), None)


def test_timings_wait_for_the_device(study, monkeypatch):
    order: list[str] = []
    monkeypatch.setattr(device, "synchronise", lambda where: order.append("wait"))
    timing.timed(lambda: order.append("work"), torch.device("cpu"))
    assert order == ["wait", "work", "wait"]
    order.clear()
    plan.plan_study(study, None)
    assert order  # what `plan` times goes through it


def test_one_machine_comes_first_and_sharing_a_gpu_is_no_speed_up(study, monkeypatch):
    monkeypatch.setattr(timing, "timed", lambda work, where=None: 0.01)  # else the machine's load decides
    alone = plan.plan_study(sharing(study, 1.0), None, gpu=L4, price=0.7)
    shared = plan.plan_study(sharing(study, 0.25), None, gpu=L4, price=0.7)
    assert (alone["measured"], alone["concurrency"], shared["concurrency"]) == (False, 1, 4)
    assert shared["seconds"] == pytest.approx(alone["seconds"])
    assert any("4 trials share a GPU" in note and "no speed-up" in note for note in shared["notes"])
    rows = shared["machines"]
    assert [row["machines"] for row in rows] == [1, 2, 4, 8]
    assert all(row["dollars"] == pytest.approx(row["machines"] * row["seconds"] / 3600 * 0.7) for row in rows)
    assert [row["seconds"] for row in rows] == sorted((row["seconds"] for row in rows), reverse=True)
    text = plain.plan_text(shared)
    assert "one machine with an L4: " in text
    assert " $ at 0.70 $ an hour (estimate, ±50 %)\n2 machines: " in text
    assert "5 min to start" in text
    json.dumps(shared)


def test_a_gpu_that_is_here_is_measured(study, l4):
    found = plan.plan_study(study.model_copy(update={"arms": {"vanilla": {}}, "search": None}), None, gpu=L4)
    assert found["measured"]
    assert l4.launches
    assert "estimate" not in plain.plan_text(found)
    assert found["price"] == L4.price
    assert any("February 2026" in note for note in found["notes"])
    l4.launches.clear()
    found = plan.plan_study(study, None, gpu=prices.GPUS["T4"])
    assert not found["measured"]
    assert not l4.launches


def test_a_captured_step_is_timed_as_such(study, l4):
    """Steps are captured in the first, short epoch, and replayed in the one that is timed."""
    graphed = study.model_copy(update={"training": study.training.model_copy(update={"cuda_graph": True})})
    with mock.patch.object(Graph, "replay") as replay:
        plan.plan_study(sharing(graphed, 1.0), None)
    assert replay.call_count >= len(study.arms) * 5


def test_operations_are_counted():
    a, b = torch.randn(8, 4), torch.randn(4, 2)
    work = timing.counted(lambda: (a @ b).t().relu_().sum().item())
    assert (work.launches, work.waits, work.flops) == (3, 1, 2 * 8 * 4 * 2)  # mm, relu_, sum; a view is none
    assert work.bytes == 4 * (8 * 4 + 4 * 2 + 16) + 4 * (16 + 16) + 4 * (16 + 1) + 4
    weights = torch.nn.Parameter(torch.randn(1000))
    adam = torch.optim.Adam([weights], fused=True)
    weights.grad = torch.randn(1000)
    adam.step()
    assert timing.counted(adam.step).bytes == pytest.approx(28 * 1000, rel=0.2)
    images = torch.zeros(50_000, 100)
    rows = torch.arange(10)
    assert timing.counted(lambda: images.index_select(0, rows)).bytes < 10_000  # not all that it could read
