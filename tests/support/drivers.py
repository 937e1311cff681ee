"""Drivers of studies with one thing in them changed, as scripts of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support import small_study
from tests.support.places import ROOT
from tests.support.waiting import LONG

# The study's driver with one thing in it changed, as a script: what is patched here is patched in the actors too.
DRIVER = """
import json, os, sys, time
from pathlib import Path
import ray
from pilotstudy.cluster import capacity, engine
from pilotstudy.data.dataset import load_data
from pilotstudy.runs.folder import Run
from pilotstudy.schedule.director import Director
from pilotstudy.schedule.screen import Screen
from pilotstudy.study.reading import read_study
from pilotstudy.study.resources import Limits
from pilotstudy.trial import checkpoint

class Changed(engine.TrialActor):
    def _step(self):
        {change}
        return super()._step()

if __name__ == "__main__":
    study, folder, options = read_study(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
    engine.TrialActor = Changed
    run, data = Run(folder), load_data(study.data.name)
    run.files.folder.mkdir(parents=True, exist_ok=True)
    director = Director(study, run, data.fingerprint)
    capacity.MINUTE = options.pop("minute", 60)
    gpus, limits = options.pop("gpus", 0), Limits(**options.pop("limits", {{}}))
    with engine.connected(options.pop("address", None), run.files.log, **options), engine.terminal() as out:
        placement = capacity.placed(study.resources, gpus, director.total)
        print("at once", placement.concurrency, "each", placement.gpus, file=out)
        with Screen(director, out) as screen:
            ended = engine.execute(director, data, placement, screen, limits)
            print("ended", ended.stopping, type(ended.error).__name__, ended.error, file=out)
"""


def drive(folder: Path, change: str, environment: dict[str, str] | None = None, **options) -> subprocess.Popen[str]:
    if not (folder / "chaos.toml").exists():
        small_study.prepare(folder)
    (folder / "driver.py").write_text(DRIVER.format(change=change))
    words = [
        sys.executable,
        str(folder / "driver.py"),
        str(folder / "chaos.toml"),
        str(folder / "run"),
        json.dumps(options),
    ]
    here = (environment or dict(os.environ)) | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(words, env=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def lines_until(process: subprocess.Popen[str], expected: str) -> str:
    """What a driver says, up to and with the line that has this in it."""
    lines = []
    while not any(expected in line for line in lines):
        lines.append(process.stdout.readline())
        assert lines[-1], "".join(lines)
    return "".join(lines)


LOOKING = """
import json, sys, time
from pathlib import Path
import ray
from tests.support.plans import CONTENT
from pilotstudy.cluster import capacity, engine
from pilotstudy.cluster.messages import Report
from pilotstudy.data.dataset import DataSet
from pilotstudy.runs.folder import Run
from pilotstudy.runs.layout import RunFiles
from pilotstudy.runs.records import Status, TrialResult
from pilotstudy.schedule.director import Director
from pilotstudy.schedule.screen import Screen
from pilotstudy.storage import write
from pilotstudy.study.reading import validate_study
from pilotstudy.study.resources import Resources

class Looking(engine.TrialActor):
    def _step(self):
        since, started = time.time(), Path(self.work.folder).parent / "started"
        started.joinpath(self.work.key).touch()
        while len(list(started.iterdir())) < int(started.with_name("expected").read_text()):
            time.sleep(0.05)
        time.sleep(2)  # so that one too many would be seen
        node = ray.get_runtime_context().get_node_id()
        seen = [ray.get_gpu_ids(), since, time.time(), node]
        files = RunFiles(Path(self.work.folder)).trial(self.work.key)
        result = TrialResult(trial=self.work.trial, fingerprint="x", status=Status.FINISHED, epochs=1)
        text = json.dumps(result.content() | {"seen": seen})
        write(files.result, text)
        return Report(record={"epoch": 1}, ending=result.status, result=text)

if __name__ == "__main__":
    folder, trials, expected, options = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
    engine.TrialActor = Looking
    run = Run(folder / "run")
    run.files.folder.mkdir()
    (folder / "started").mkdir()
    (folder / "expected").write_text(str(expected))
    study = validate_study(CONTENT | {"seeds": list(range(trials)), "arms": {"vanilla": {}}, "search": None}, "test")
    director = Director(study, run, "x")
    address = options.pop("address", None)
    with engine.connected(address, run.files.log, **options), engine.terminal() as out:
        placement = capacity.placed(Resources(), 0.25)
        assert placement.concurrency == expected, placement
        engine.execute(director, DataSet("x", (), "", *[[]] * 4), placement, Screen(director, out, True))
        try:
            capacity.placed(Resources(), 2)
        except Exception as error:
            print(error)
"""


def look(folder: Path, trials: int, expected: int, environment: dict[str, str] | None = None, **options) -> list:
    """Trials at 0.25 of a GPU that tell which GPU they see, when, and on which node. The first `expected` wait
    for each other, so they must all have room at once.
    """
    (folder / "looking.py").write_text(LOOKING)
    command = [sys.executable, str(folder / "looking.py"), str(folder), str(trials), str(expected), json.dumps(options)]
    here = (environment or dict(os.environ)) | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONG, env=here)
    assert done.returncode == 0, done.stderr
    assert "asks for 1 CPUs and 2 GPUs" in done.stdout
    return [json.loads(path.read_text())["seen"] for path in (folder / "run" / "results").glob("*.json")]


def at_once(seen: list) -> int:
    return max(sum(start <= moment < end for _, start, end, _ in seen) for _, moment, _, _ in seen)
