import os
from pathlib import Path

import numpy as np
import pytest
import torch

from pilotstudy.data.prepared import DataSet
from pilotstudy.spec import Trial, trial, validate

SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    os.environ["PILOTSTUDY_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    os.environ.pop("PILOTSTUDY_DATA", None)
    torch.set_num_threads(1)


@pytest.fixture
def shared_data() -> Path:
    if not (SHARED / "cifar10").is_dir():
        pytest.skip(f"no data in {SHARED}")
    return SHARED


@pytest.fixture
def double():
    """float64 by default, for comparisons with closed forms."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


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


@pytest.fixture(scope="session")
def squares() -> DataSet:
    return make_data()


def make_trial(arm: str = "vanilla", seed: int = 0, *, epochs: int = 2, network: str = "mlp-512", **settings) -> Trial:
    content = {
        "title": "squares",
        "data": {"name": "squares", "validation": 60},
        "network": {"name": network},
        "training": {"epochs": epochs, "batch_size": 32},
        "arms": {arm: settings},
    }
    return trial(validate(content, "test"), arm, seed)
