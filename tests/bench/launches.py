"""What one training step asks of a GPU, for each arm: kernels launched, and times that the host waits for them.

    python tests/bench/launches.py [--network cnn] [--before FOLDER] [--json]

Counted on the tests' pretended device, no GPU needed. `--before`: another checkout of this project, such as
`git worktree add /tmp/before 3494726` (version 0.1.0, whose first line on CUDA is mended here, so that it counts).
A captured step (`training.cuda_graph`) is one launch of a graph, and those that put the batch into it.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def count(network: str) -> dict[str, dict[str, int]]:
    """By arm; the package is whichever comes first on the path."""
    import numpy as np
    import torch
    from pretended import pretended

    from pilotstudy.arms.catalogue import all_arms
    from pilotstudy.data.dataset import DataSet
    from pilotstudy.study.budget import fixed_trial
    from pilotstudy.study.reading import validate_study
    from pilotstudy.study.spec import Training
    from pilotstudy.trial import scaling
    from pilotstudy.trial.trainer import Trainer

    torch.set_num_threads(1)
    scale = scaling.Scaling.__call__
    scaling.Scaling.__call__ = lambda self, pixels: scale(self.to(pixels.device), pixels)  # 0.1.0 forgot to
    images = np.random.default_rng(0).integers(0, 256, (394, 3, 32, 32), dtype=np.uint8)
    labels = np.arange(394) % 10
    data = DataSet("noise", tuple("0123456789"), "", images, labels, images[:10], labels[:10])
    rows = {}
    for arm in all_arms():
        steps = {"batch_size": 64, "epochs": 1}
        content = {"title": "launches", "data": {"name": "noise", "validation": 10}, "network": {"name": network}}
        row = {}
        for graph in (False, True) if "cuda_graph" in Training.model_fields else (False,):
            content |= {"training": steps | ({"cuda_graph": True} if graph else {}), "arms": {arm: {}}}
            with pretended() as gpu:
                trial = fixed_trial(validate_study(content, "bench"), arm, 0)
                trainer = Trainer(trial, data, torch.device("cuda"), 1)
                trainer.regulariser.train()
                *first, last = list(trainer.batches())
                step = trainer.graph if graph else trainer.step
                for batch in first:
                    step(*batch)
                gpu.launches.clear()
                gpu.waits.clear()
                step(*last)
                row["captured" if graph else "launches"] = sum(gpu.launches.values()) + graph
                if not graph:
                    row["waits"] = sum(gpu.waits.values())
        rows[arm] = row
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="cnn", choices=["cnn", "mlp-512", "mlp-1024"])
    parser.add_argument("--before", type=Path, help="another checkout, to compare with")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--count", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.count:
        print(json.dumps(count(options.network)))
        return

    def of(checkout: Path) -> dict[str, dict[str, int]]:
        command = [sys.executable, __file__, "--count", "--network", options.network]
        path = os.pathsep.join(map(str, (checkout, TESTS / "support")))
        done = subprocess.run(
            command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=True
        )
        found: dict[str, dict[str, int]] = json.loads(done.stdout.splitlines()[-1])
        return found

    now = of(TESTS.parent)
    before = of(options.before.resolve()) if options.before else {}
    rows = [
        {"arm": arm}
        | ({f"{name}_before": before[arm][name] for name in ("launches", "waits")} if arm in before else {})
        | row
        for arm, row in now.items()
    ]
    if options.json:
        print(json.dumps(rows))
        return
    print("  ".join(f"{name:>20}" for name in rows[0]))
    for row in rows:
        print("  ".join(f"{value:>20}" for value in row.values()))


if __name__ == "__main__":
    main()
