"""Small data that is learnt in an epoch or two, and trials on it."""

import numpy as np

from pilotstudy.data.dataset import DataSet
from pilotstudy.study.budget import fixed_trial
from pilotstudy.study.reading import validate_study
from pilotstudy.study.spec import Trial


def make_data(n: int = 240, classes: int = 3, shape: tuple[int, int, int] = (1, 8, 8), seed: int = 0) -> DataSet:
    """Classes that differ by where a bright square lies, with noise: learnable in an epoch or two."""
    random = np.random.default_rng(seed)

    def draw(n: int):
        labels = np.arange(n) % classes
        images = random.integers(0, 120, (n, *shape), dtype=np.uint8)
        for k in range(classes):
            images[labels == k, :, 2 * k : 2 * k + 2, 2 * k : 2 * k + 2] += 120
        return images, labels.astype(np.int64)

    train, test = draw(n), draw(n // 2)
    return DataSet("squares", tuple("abc"[:classes]), f"squares-{seed}", *train, *test)


def make_trial(arm: str = "vanilla", seed: int = 0, *, epochs: int = 2, network: str = "mlp-512", **settings) -> Trial:
    content = {
        "title": "squares",
        "data": {"name": "squares", "validation": 60},
        "network": {"name": network},
        "training": {"epochs": epochs, "batch_size": 32},
        "arms": {"row": {"method": arm.split("+"), **settings}},
    }
    return fixed_trial(validate_study(content, "test"), "row", seed)
