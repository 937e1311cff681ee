"""How long the statistics of a large study take: 20 arms × 5 seeds × 10,000 test points, 2,000 resamples.

python tests/bench/evidence.py
"""

import time

import numpy as np

from pilotstudy.metrics import registry, resampling, scores
from pilotstudy.metrics.intervals import contrast, holm
from pilotstudy.metrics.resampling import Sample


def main() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 10, 10_000)
    runs = []
    for _ in range(100):
        logits = random.normal(size=(10_000, 10)).astype(np.float32)
        logits[np.arange(10_000), labels] += 1
        runs.append(scores.log_probabilities(logits))
    since = time.perf_counter()
    values, resampled = resampling.resample(runs, labels, ("accuracy", "nll", "ece"))
    middle = time.perf_counter()
    for name in values:
        arms = [
            Sample(tuple(range(5)), values[name][5 * arm : 5 * arm + 5], resampled[name][:, 5 * arm : 5 * arm + 5])
            for arm in range(20)
        ]
        found = [contrast([(1, arm), (-1, arms[0])], ["arms", "arms"]) for arm in arms[1:]]
        holm([one.p for one in found])
    end = time.perf_counter()
    print(f"figures and resamples {middle - since:.1f} s, 57 differences {end - middle:.1f} s")
    since = time.perf_counter()
    resampling.resample(runs, labels, registry.resampled_metrics())
    print(f"all {len(registry.resampled_metrics())} metrics {time.perf_counter() - since:.1f} s")


if __name__ == "__main__":
    main()
