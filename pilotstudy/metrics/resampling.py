"""Metrics on resamples of the test points (bootstrap), the same resamples for every row and seed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilotstudy.metrics.computation import Fitted, Points
from pilotstudy.metrics.registry import METRICS
from pilotstudy.metrics.scores import Array, Labels

RESAMPLES = 2000
CHUNK = 250  # resamples at a time: 10 MB of weights for 10,000 points


def resampled_weights(points: int, resamples: int, seed: int) -> Iterator[NDArray[np.float32]]:
    """How often each point is in each resample, divided by their number, a chunk [≤ CHUNK, points] at a time."""
    random = np.random.default_rng(seed)
    for start in range(0, resamples, CHUNK):
        rows = min(CHUNK, resamples - start)
        drawn = random.integers(0, points, (rows, points), dtype=np.int32) + points * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * points).reshape(rows, points)
        yield (counts / points).astype(np.float32)


@dataclass(frozen=True)
class Sample:
    """A metric of one row: by seed on the test points [S], and on resamples of them [B, S].

    `floors`: the noise floor of each network [S]; None where the metric has none.
    """

    seeds: tuple[int, ...]
    values: Array
    resampled: Array
    floors: Array | None = None

    def less_floors(self) -> "Sample":
        """The same with each network's noise floor taken off."""
        if self.floors is None:
            return self
        return Sample(self.seeds, self.values - self.floors, self.resampled - self.floors)


def resample(
    log_probabilities: Sequence[Array],
    labels: Labels,
    names: Sequence[str],
    resamples: int = RESAMPLES,
    seed: int = 0,
    fits: Sequence[Fitted] = (),
) -> tuple[dict[str, Array], dict[str, Array]]:
    """For each metric: its values for each of the predictions [R], and on resamples of the points [B, R].

    `fits`: of each of the predictions; needed by some metrics only. Validation points are not resampled.
    """
    if not names:
        return {}, {}
    values: dict[str, list[float]] = {name: [] for name in names}
    resampled: dict[str, list[Array]] = {name: [] for name in names}
    weights = np.concatenate(list(resampled_weights(len(labels), resamples, seed)))
    for place, log_p in enumerate(log_probabilities):  # one at a time: the columns of all would take gigabytes
        points = Points(log_p, labels, fitted=fits[place] if fits else None)
        blocks = [METRICS[name].columns(points).astype(np.float32) for name in names]
        columns = np.concatenate(blocks, 1)
        ends = np.cumsum([block.shape[1] for block in blocks])[:-1]
        means, resampled_means = columns.mean(0, dtype=np.float64), weights @ columns
        of_points, of_resamples = np.split(means, ends), np.split(resampled_means, ends, axis=1)
        for name, own_means, own_resampled in zip(names, of_points, of_resamples, strict=True):
            values[name].append(float(METRICS[name].figure(own_means)))
            resampled[name].append(METRICS[name].figure(own_resampled.astype(np.float64)))
    return (
        {name: np.array(by_prediction) for name, by_prediction in values.items()},
        {name: np.stack(by_prediction, 1) for name, by_prediction in resampled.items()},
    )
