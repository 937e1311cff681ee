"""What belongs to points, to seeds and to both, where each is known; rows whose seeds are in another order."""

import numpy as np
import pytest

from pilotstudy.metrics import resampling
from pilotstudy.metrics.intervals import contrast, estimate
from pilotstudy.metrics.resampling import Sample


def of_points(values: np.ndarray, resamples: int = 2000, seed: int = 1) -> Sample:
    """The mean over points of [S, P] values, by seed and on resamples of the points."""
    seeds, points = values.shape
    weights = np.concatenate(list(resampling.resampled_weights(points, resamples, seed)))
    return Sample(tuple(range(seeds)), values.mean(1), (weights @ values.T).astype(float))


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_what_seeds_do_to_points_is_not_counted_as_the_points_own(seeds):
    """A point is hard for every seed (deviation 1) and harder for some than for others (deviation 2).

    The variance of the mean over seeds from both is (1 + 4 / S) / P; that from other points, with seeds without end,
    1 / P. The rest is in the deviation over seeds already.
    """
    random = np.random.default_rng(0)
    points = 300
    found = []
    for n in range(8):
        hard = random.normal(size=points)
        hard /= hard.std()
        values = hard + 2 * random.normal(size=(seeds, points))
        found.append(contrast([(1, of_points(values, seed=n))], ["s"]).points_variance * points)
    assert np.mean(found) == pytest.approx(1, rel=0.2)  # with that part it would be 3, 2.33 or 1.8


def test_the_parts_of_a_contrast_by_their_definition():
    """Resamples made of parts of a known variance: the points' own, and one that each seed has for itself."""
    random = np.random.default_rng(1)
    values = np.array([1.0, 2.0, 6.0])
    own, by_seed = random.normal(size=(40_000, 1)), 3 * random.normal(size=(40_000, 3))
    found = estimate([(values, values + own + by_seed)])
    assert found.points_variance == pytest.approx(1, rel=0.1)  # with the other part it would be 1 + 9 / 3
    assert found.of_seeds == ((pytest.approx(7 / 3), 2),)  # var(1, 2, 6) / 3
    assert found.seeds_variance == pytest.approx(7)
    alone = estimate([(values, values + by_seed)])
    assert alone.points_variance == pytest.approx(0, abs=0.1)
    assert alone.points_variance >= 0


def test_the_same_networks_in_another_order_do_not_differ():
    random = np.random.default_rng(2)
    values = random.normal(size=(4, 60))
    ours = of_points(values, 50)
    order = [2, 0, 3, 1]
    theirs = Sample(tuple(order), ours.values[order], ours.resampled[:, order])
    first = order[:3]
    resampled = np.column_stack([random.normal(size=50), ours.resampled[:, first]])
    fewer = Sample((7, *first), np.array([9.0, *ours.values[first]]), resampled)
    for other, seeds in (theirs, 4), (fewer, 3):
        found = contrast([(1, ours), (-1, other)], ["s", "s"])
        assert (found.value, found.low, found.high, found.p) == (0, 0, 0, 1)
        assert found.seeds == seeds


def test_a_contrast_has_the_seeds_of_its_smallest_group():
    random = np.random.default_rng(3)
    many, single = of_points(random.normal(size=(4, 50)), 50), of_points(random.normal(size=(1, 50)), 50)
    found = contrast([(1, many), (-1, single)], ["arms", "confirm"])
    assert found.seeds == 1
    assert found.deviation is None
