"""Pilot's effect on real images: vanilla against Pilot a-aug, as ratios of the test figures at the last epoch.

    python tests/bench/effect.py --data-dir ../shared/data

CIFAR-10, mlp-512, 10,000 training images, 25 epochs, inputs standardised, seeds 0 and 1: about 6 minutes on 2 cores.
"""

import argparse
from pathlib import Path

from pilotstudy.console import message
from pilotstudy.data.dataset import load_data
from pilotstudy.report.plain import table
from pilotstudy.study import budget, reading
from pilotstudy.trial.lifecycle import train_trial

SETTINGS = {
    "data.train_size": 10_000,
    "data.scaling": "standardised",
    "training.epochs": 25,
    "arms.pilot-a-aug.mask_rate": 0.5,
    "arms.pilot-a-aug.dgm_width": 256,
    "arms.pilot-a-aug.normalise": True,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    options = parser.parse_args()
    study = reading.read_study("cifar-mlp-small", SETTINGS)
    data = load_data("cifar10", options.data_dir)
    rows = []
    for seed in options.seeds:
        figures = {}
        for arm in "vanilla", "pilot-a-aug":
            message(f"{arm}, seed {seed}")
            result = train_trial(budget.fixed_trial(study, arm, seed), data)
            figures[arm] = next(
                each.figures
                for each in result.evaluations
                if (each.at, each.mode, each.split, each.scaled) == ("last", "point", "test", False)
            )
            rows.append({"seed": seed, "arm": arm} | {name: figures[arm][name] for name in ("accuracy", "nll", "ece")})
        vanilla, pilot = figures.values()
        ratios = {name: pilot[name] / vanilla[name] for name in ("nll", "ece")}
        rows.append({"seed": seed, "arm": "ratio", "accuracy": pilot["accuracy"] - vanilla["accuracy"], **ratios})
    print(table(rows))
    print("accuracy in a row `ratio` is the difference; wanted: at least -0.02, and ratios of at most 0.6")


if __name__ == "__main__":
    main()
