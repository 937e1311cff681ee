"""What GPUs cost, and how long a step takes on them."""

import pytest

from pilotstudy.errors import InputError
from pilotstudy.schedule import prices

L4 = prices.GPUS["L4"]


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
