"""What a study would cost: timed on the right device, or estimated; in hours and dollars."""

import dataclasses
import json
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from conftest import make_data
from pretended import CARD, Graph, pretended

from pilotstudy import device, planning, prices, report, spec
from pilotstudy.errors import DeviceError, InputError

L4 = prices.GPUS["L4"]


class OnlyCounted:
    """Test images or labels of which nothing but their number may be known."""

    def __len__(self) -> int:
        return 5000


@pytest.fixture
def study(monkeypatch):
    data = dataclasses.replace(make_data(), test_images=OnlyCounted(), test_labels=OnlyCounted())
    monkeypatch.setattr(planning, "load", lambda *_: data)
    content = {
        "title": "squares",
        "seeds": [0, 1],
        "data": {"name": "squares", "validation": 60},
        "network": {"name": "mlp-512"},
        "training": {"epochs": 3, "batch_size": 32},
        "arms": {"vanilla": {}, "pilot-a-aug": {"dgm_width": 32, "z": 8}, "dropout": {}},
        "search": {"arms": ["dropout"], "trials": 4, "confirm_seeds": 2},
    }
    return spec.validate(content, "test")


@pytest.fixture
def l4():
    """A machine with an L4, as far as torch can tell."""
    with pretended(SimpleNamespace(**vars(CARD) | {"name": "NVIDIA L4"})) as gpu:
        yield gpu


def test_it_times_the_device_that_run_will_use(study, l4):
    one = study.model_copy(update={"arms": {"vanilla": {}}, "search": None})
    found = planning.plan(one, None, cpus=1)
    assert found["device"].startswith("CPU")  # a GPU is here, and was not asked for
    assert not l4.launches
    for share in 0.5, "auto":
        l4.launches.clear()
        found = planning.plan(one, None, cpus=1, share=share)
        assert found["device"].startswith("NVIDIA L4 (24 GiB, driver")
        assert "58 multiprocessors" in found["device"]
        assert found["gpu_memory_gib"] == (3 if share == 0.5 else 1.5)  # two trials of 1 GiB, each with CUDA's own
        assert l4.launches


def test_a_gpu_that_cannot_be_used_is_an_error(study, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match="cuda was asked for and cannot be used"):
        planning.plan(study, None, cpus=1, share=1.0)


def test_timings_wait_for_the_device(study, monkeypatch):
    order: list[str] = []
    monkeypatch.setattr(device, "synchronise", lambda where: order.append("wait"))
    planning.timed(lambda: order.append("work"), torch.device("cpu"))
    assert order == ["wait", "work", "wait"]
    order.clear()
    planning.plan(study, None, cpus=1)
    assert order  # what `plan` times goes through it


def test_one_machine_comes_first_and_sharing_a_gpu_is_no_speed_up(study):
    alone = planning.plan(study, None, cpus=1, share=1.0, gpu=L4, price=0.7)
    shared = planning.plan(study, None, cpus=1, share=0.25, gpu=L4, price=0.7)
    assert (alone["measured"], alone["concurrency"], shared["concurrency"]) == (False, 1, 4)
    assert shared["seconds"] == pytest.approx(alone["seconds"], rel=0.3)  # only metrics are timed
    assert any("4 trials share a GPU" in note and "no speed-up" in note for note in shared["notes"])
    rows = shared["machines"]
    assert [row["machines"] for row in rows] == [1, 2, 4, 8]
    assert all(row["dollars"] == pytest.approx(row["machines"] * row["seconds"] / 3600 * 0.7) for row in rows)
    assert [row["seconds"] for row in rows] == sorted((row["seconds"] for row in rows), reverse=True)
    text = report.plan_text(shared)
    assert "one machine with an L4: " in text
    assert " $ at 0.70 $ an hour (estimate, ±50 %)\n2 machines: " in text
    assert "5 min to start" in text
    json.dumps(shared)


def test_a_gpu_that_is_here_is_measured(study, l4):
    found = planning.plan(study.model_copy(update={"arms": {"vanilla": {}}, "search": None}), None, cpus=1, gpu=L4)
    assert found["measured"]
    assert l4.launches
    assert "estimate" not in report.plan_text(found)
    assert found["price"] == L4.price
    assert any("February 2026" in note for note in found["notes"])
    l4.launches.clear()
    found = planning.plan(study, None, cpus=1, gpu=prices.GPUS["T4"])
    assert not found["measured"]
    assert not l4.launches


def test_a_captured_step_is_timed_as_such(study, l4):
    """Steps are captured in the first, short epoch, and replayed in the one that is timed."""
    graphed = study.model_copy(update={"training": study.training.model_copy(update={"cuda_graph": True})})
    with mock.patch.object(Graph, "replay") as replay:
        planning.plan(graphed, None, cpus=1, share=1.0)
    assert replay.call_count >= len(study.arms) * 5


def test_operations_are_counted():
    a, b = torch.randn(8, 4), torch.randn(4, 2)
    work = planning.counted(lambda: (a @ b).t().relu_().sum().item())
    assert (work.launches, work.waits, work.flops) == (3, 1, 2 * 8 * 4 * 2)  # mm, relu_, sum; a view is none
    assert work.bytes == 4 * (8 * 4 + 4 * 2 + 16) + 4 * (16 + 16) + 4 * (16 + 1) + 4
    weights = torch.nn.Parameter(torch.randn(1000))
    adam = torch.optim.Adam([weights], fused=True)
    weights.grad = torch.randn(1000)
    adam.step()
    assert planning.counted(adam.step).bytes == pytest.approx(28 * 1000, rel=0.2)
    images = torch.zeros(50_000, 100)
    rows = torch.arange(10)
    assert planning.counted(lambda: images.index_select(0, rows)).bytes < 10_000  # not all that it could read


def test_the_model_of_a_step():
    small = prices.Work(launches=45, bytes=50e6, flops=1e9)
    pilot = prices.Work(launches=400, waits=4, bytes=600e6, flops=3e9)
    assert 0.2e-3 < prices.step_seconds(prices.GPUS["A100"], small) < 0.4e-3  # bound by launches
    assert 2.5e-3 < prices.step_seconds(L4, pilot) < 4e-3
    graph = {name: prices.step_seconds(gpu, pilot, graph=True) for name, gpu in prices.GPUS.items()}
    assert graph["T4"] > graph["L4"] > graph["A10G"] > graph["A100"] >= graph["H100"]  # by what the card can do
    assert prices.step_seconds(L4, pilot) > graph["L4"]
    assert small.less(prices.Work(launches=15), 3).launches == 10


@pytest.mark.parametrize(
    ("card", "name"),
    [
        ("NVIDIA L4", "L4"),
        ("Tesla T4", "T4"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA RTX A6000", "A6000"),
        ("NVIDIA L40S", None),
        ("NVIDIA A10", None),
    ],
)
def test_cards_by_their_names(card, name):
    assert [gpu.name for gpu in prices.GPUS.values() if gpu.is_card(card)] == [name] * (name is not None)


def test_prices():
    assert prices.price_of("0.7") == 0.7
    assert prices.price_of("l4") == L4.price
    assert prices.price_of("L4-spot") == L4.spot
    for wrong in "0", "-1", "nan", "inf", "free", "A6000-spot", "L5":
        with pytest.raises(InputError, match="give dollars an hour"):
            prices.price_of(wrong)
    with pytest.raises(InputError, match="no longer runs on it"):
        prices.find("V100")
    with pytest.raises(InputError, match="did you mean 'H100'"):
        prices.find("h1000")


@pytest.mark.parametrize(
    ("given", "share"),
    [("1", 1), (1, 1), ("0.25", 0.25), (0.5, 0.5), ("1/3", 1 / 3), (1 / 3, 1 / 3), ("0", 0), ("auto", "auto")],
)
def test_shares_of_a_gpu(given, share):
    assert spec.share_of_gpu(given) == share


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (2, "trains on one GPU"),
        ("8", "trains on one GPU"),
        *((wrong, "give 1, 1/k") for wrong in (0.3, -1, "x", "1/0", True)),
    ],
)
def test_other_shares_are_refused_with_the_reason(given, why):
    with pytest.raises(ValueError, match=why):
        spec.share_of_gpu(given)
    with pytest.raises(InputError, match=rf"resources.gpus_per_trial = .*{why}"):
        spec.load("quickstart", {"resources.gpus_per_trial": given})
