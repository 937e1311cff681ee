"""What Ray costs: the time of a study's trial phase against the ideal, for short trials.

    python tests/bench/overhead.py [--trials 16] [--seconds 1] [--json]

Trials that only wait, two at a time, through the same engine as every study. The trial phase lasts from handing the
first trial to Ray Tune, the start of the actors included, to the end of the last; then Tune takes its actors down.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from pathlib import Path

from pilotstudy.cluster import engine
from pilotstudy.cluster.capacity import Placement
from pilotstudy.data.dataset import load_data
from pilotstudy.runs.folder import Run
from pilotstudy.schedule.director import Director
from pilotstudy.schedule.screen import Screen
from pilotstudy.study.reading import validate_study
from pilotstudy.study.resources import Resources


def make_study(trials: int):
    return validate_study(
        {
            "title": "overhead",
            "seeds": list(range(trials)),
            "data": {"name": "fashion", "validation": 100, "train_size": 10},
            "network": {"name": "mlp-512"},
            "training": {"epochs": 1},
            "arms": {"vanilla": {}},
        },
        "bench",
    )


class Waiting(engine.TrialActor):
    """Waits in place of training, and writes a small result."""

    def _step(self):
        from pilotstudy.cluster.messages import Report
        from pilotstudy.runs.layout import RunFiles
        from pilotstudy.runs.records import Status, TrialResult
        from pilotstudy.storage import write

        time.sleep(float(os.environ["BENCH_SECONDS"]))
        files = RunFiles(Path(self.work.folder)).trial(self.work.key)
        result = TrialResult(trial=self.work.trial, fingerprint="", status=Status.FINISHED, epochs=1).to_json()
        write(files.result, result)
        return Report(record={"epoch": 1}, ending=Status.FINISHED, result=result)


class Timed(Screen):
    def __init__(self, *args):
        super().__init__(*args)
        self.times: list[float] = []
        self.memory: list[float] = []

    def ended(self, item):
        self.times.append(time.monotonic())
        self.memory.append(int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20)
        super().ended(item)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ["BENCH_SECONDS"] = str(options.seconds)
    engine.TrialActor = Waiting
    data = load_data("fashion")
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder) / "run")
        run.files.folder.mkdir()
        director = Director(make_study(options.trials), run, data.fingerprint)
        with engine.connected(None, run.files.log), engine.terminal() as out:
            screen = Timed(director, out, True)
            started = time.monotonic()
            engine.execute(director, data, Placement(Resources(), concurrency=2), screen)
            fit = time.monotonic() - started
        files = sum(path.is_file() for path in run.files.folder.rglob("*"))
    ideal = options.trials * options.seconds / 2
    tenth = max(1, options.trials // 10)
    times = screen.times
    found = {
        "trials": options.trials,
        "seconds": options.seconds,
        "trial phase / ideal": (times[-1] - started) / ideal,
        "with taking the actors down / ideal": fit / ideal,
        "after the first / ideal": (times[-1] - times[0]) / (ideal - options.seconds) if options.trials > 2 else None,
        "time a trial, last tenth / second tenth": (times[-1] - times[-1 - tenth]) / (times[2 * tenth] - times[tenth]),
        "driver memory, MiB, second tenth and end": [screen.memory[tenth], screen.memory[-1]],
        "driver peak, MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "files a trial": files / options.trials,
    }
    print(json.dumps(found) if options.json else "\n".join(f"{name}: {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
