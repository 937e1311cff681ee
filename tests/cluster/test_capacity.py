"""How much of a GPU a trial gets, and how many run at once."""

from dataclasses import replace

import pytest

from pilotstudy.study.resources import Resources
from tests.support.cuda_trials import trial_of
from tests.support.pretended import pretended
from tests.support.squares import make_data


def test_small_shares_are_spread_over_all_gpus():
    from pilotstudy.cluster.capacity import MOST_ON_A_GPU, Placement, concurrency, share_for, spread

    four = [{"CPU": 8.0, "GPU": 4.0}]
    assert spread(1 / 93, four, 1, 1000) == 1 / 2  # eight trials: two on each
    assert spread(0.25, [{"CPU": 96.0, "GPU": 8.0}], 1, 1000) == 0.25
    assert spread(0.125, [{"CPU": 96.0, "GPU": 8.0}], 1, 8) == 1.0  # eight trials in all: one on each
    assert spread(0.25, [{"CPU": 4.0, "GPU": 1.0}] * 4, 1, 1000) == 0.25
    assert spread(0.25, [{"CPU": 2.0, "GPU": 4.0}], 1, 1000) == 1.0
    assert (spread(0, four, 1, 9), spread(1, four, 1, 9), spread(0.5, [], 1, 9)) == (0, 1, 0.5)
    gib = 2**30
    assert share_for(0.7 * gib, 80 * gib) == 1 / MOST_ON_A_GPU
    assert share_for(0.7 * gib, 4 * gib) == 1 / 2  # its context counts
    assert share_for(30 * gib, 24 * gib) == 1
    grown = Placement(Resources(), gpus=0.25, autoscaled=True)
    assert concurrency(grown, [], 10) == 10
    assert concurrency(grown, [], 1000) == 64
    assert concurrency(replace(grown, resources=Resources(concurrency=8)), [{"CPU": 64.0, "GPU": 64.0}], 1000) == 8
    assert concurrency(Placement(Resources(), gpus=0.25), [{"CPU": 4.0, "GPU": 1.0}], 1000) == 4


@pytest.fixture(scope="module")
def data():
    return make_data(120)  # 60 to train with, in a batch of 32 and one of 28


def test_a_share_is_measured_on_the_device(data):
    from pilotstudy.cluster.capacity import peak_and_memory, share_for

    with pretended() as gpu:
        peak, memory = peak_and_memory([trial_of("vanilla"), trial_of("pilot-a-aug", "cnn")], data)
        assert gpu.launches["convolution"] > 0
    assert (peak, memory) == (2**30, 24 * 2**30)
    assert share_for(peak, memory) == 1 / 8
