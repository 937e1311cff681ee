"""How fast one trial trains, as ratios measured in one run: one thread, batches of 128, 32×32 images.

    python tests/bench/speed.py [--rounds 15] [--json]

Everything that is compared takes turns, round by round, and a ratio is the median over rounds: single timings drift.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from pilotstudy.data.dataset import DataSet
from pilotstudy.networks import catalogue
from pilotstudy.study.budget import fixed_trial
from pilotstudy.study.reading import validate_study
from pilotstudy.trial.trainer import Trainer

IMAGES, BATCH = 128 * 16, 128


def make_data() -> DataSet:
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (IMAGES + 10, 3, 32, 32), dtype=np.uint8)
    labels = np.arange(len(images)) % 10
    return DataSet("noise", tuple("0123456789"), "", images, labels, images[:1000], labels[:1000])


def make_trainer(network: str, arm: str, data: DataSet) -> Trainer:
    content = {
        "title": "speed",
        "data": {"name": "noise", "validation": 10, "scaling": "standardised"},
        "network": {"name": network},
        "training": {"epochs": 10_000, "batch_size": BATCH},
        "arms": {arm: {}},
    }
    return Trainer(fixed_trial(validate_study(content, "bench"), arm, 0), data, torch.device("cpu"), threads=1)


class Pictures(Dataset):
    """As torchvision's CIFAR10: an array of images, each made a PIL image and transformed when asked for."""

    def __init__(self, data: DataSet):
        self.images = np.ascontiguousarray(data.train_images[:IMAGES].transpose(0, 2, 3, 1))
        self.labels = data.train_labels[:IMAGES].tolist()
        normalise = transforms.Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
        self.transform = transforms.Compose([transforms.ToTensor(), normalise])

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.transform(Image.fromarray(self.images[index])), self.labels[index]


def ours(network: str, arm: str, data: DataSet) -> Callable[[], float]:
    """An epoch as `pilotstudy train` runs it, without the validation."""
    trainer = make_trainer(network, arm, data)
    return lambda: trainer.train_epoch()["seconds"]


def compute_limit(network: str, data: DataSet) -> Callable[[], float]:
    """The same steps on tensors that are batched already."""
    trainer = make_trainer(network, "vanilla", data)
    batches = list(trainer.batches())

    def epoch() -> float:
        started = time.perf_counter()
        for x, y in batches:
            loss = trainer.regulariser.loss(x, y)
            trainer.optimiser.zero_grad()
            loss.total.backward()
            trainer.optimiser.step()
        return time.perf_counter() - started

    return epoch


def products_only(data: DataSet) -> Callable[[], float]:
    """Nothing but the matrix products of mlp-1024's layers, forward and backward: no float32 loop can be faster."""
    sizes = [(3072, 1024), (1024, 1024), (1024, 10)]
    layers = [(torch.randn(BATCH, i), torch.randn(o, i), torch.randn(BATCH, o)) for i, o in sizes]

    def epoch() -> float:
        started = time.perf_counter()
        for _ in range(IMAGES // BATCH):
            for number, (x, weight, gradient) in enumerate(layers):
                torch.mm(x, weight.t())
                torch.mm(gradient.t(), x)
                if number:  # the input needs no gradient
                    torch.mm(gradient, weight)
        return time.perf_counter() - started

    return epoch


def usual_loop(network: str, data: DataSet) -> Callable[[], float]:
    """A torchvision data set in a DataLoader without workers, and Adam as it comes."""
    model = catalogue.build_network(network, (3, 32, 32), 10)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(Pictures(data), BATCH, shuffle=True)

    def epoch() -> float:
        started = time.perf_counter()
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        return time.perf_counter() - started

    return epoch


def prediction(network: str, arm: str, data: DataSet, mode: str) -> Callable[[], float]:
    trainer = make_trainer(network, arm, data)
    trainer.train_epoch()

    def run() -> float:
        started = time.perf_counter()
        trainer.predict_images(trainer.data.test_images, mode)
        return time.perf_counter() - started

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = make_data()
    # (name, what it is measured against, bound, whether the ratio must be at least or at most the bound)
    rows = []
    for network in "mlp-1024", "cnn":
        rows += [
            (f"{network}: vanilla speed / compute limit", "limit", "vanilla", ">=", 0.9),
            (f"{network}: vanilla speed / usual loop", "usual", "vanilla", ">=", 2.2 if network == "mlp-1024" else 1.5),
            *(
                [(f"{network}: products alone / usual loop", "usual", "products", ">=", None)]
                if "mlp" in network
                else []
            ),
            (f"{network}: Pilot a-aug step / vanilla step", "a-aug", "vanilla", "<=", 2.5 if network != "cnn" else 4.5),
            (
                f"{network}: Pilot a-drop step / vanilla step",
                "a-drop",
                "vanilla",
                "<=",
                4 if network != "cnn" else None,
            ),
            (f"{network}: Monte Carlo a-aug / point prediction", "mc", "point", "<=", 12),
            (f"{network}: Monte Carlo dropout / point prediction", "mc-dropout", "point", "<=", None),
            (f"{network}: Monte Carlo a-drop / point prediction", "mc-drop", "point", "<=", None),
        ]
    results = []
    for network in "mlp-1024", "cnn":
        timers = {
            "limit": compute_limit(network, data),
            "vanilla": ours(network, "vanilla", data),
            "usual": usual_loop(network, data),
            "products": products_only(data),
            "a-aug": ours(network, "pilot-a-aug", data),
            "a-drop": ours(network, "pilot-a-drop", data),
            "point": prediction(network, "pilot-a-aug", data, "point"),
            "mc": prediction(network, "pilot-a-aug", data, "mc"),
            "mc-dropout": prediction(network, "dropout", data, "mc"),
            "mc-drop": prediction(network, "pilot-a-drop", data, "mc"),
        }
        for timer in timers.values():
            timer()
        seconds = [{name: timer() for name, timer in timers.items()} for _ in range(options.rounds)]
        for title, above, below, sign, bound in rows:
            if title.startswith(network):
                ratios = sorted(s[above] / s[below] for s in seconds)
                median = statistics.median(ratios)
                verdict = "" if bound is None else ("holds" if (median >= bound) == (sign == ">=") else "FAILS")
                wanted = "" if bound is None else f"{sign} {bound}"
                quartiles = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
                results.append(
                    {"ratio": title, "median": median, "quartiles": quartiles, "wanted": wanted, "": verdict}
                )
                if not options.json:
                    print(f"{title:48} {median:6.2f}  ({quartiles[0]:.2f} to {quartiles[1]:.2f})  {wanted:7} {verdict}")
    if options.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
