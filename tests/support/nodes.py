"""Nodes of a real Ray cluster, as processes of this machine."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support import small_study
from tests.support.waiting import LONG, wait_for

TOKEN = "0123456789abcdef0123456789abcdef"


class Nodes:
    """Nodes of one cluster, each a process group of its own, ended by its pid and nothing else."""

    def __init__(self, folder: Path, token: str):
        self.folder = folder
        self.temp = tempfile.mkdtemp(prefix="nodes-", dir="/tmp")  # short: it holds sockets
        self.environment = os.environ | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": token,
            "RAY_raylet_start_wait_time_s": "110",
        }
        self.processes: dict[str, subprocess.Popen] = {}
        self.address = ""
        self.ray = Path(sys.executable).with_name("ray")

    def start(self, name: str, *words: str, wrap: tuple[str, ...] = ()) -> None:
        command = [
            *wrap,
            str(self.ray),
            "start",
            "--block",
            "--disable-usage-stats",
            *words,
        ]
        log = open(self.folder / f"{name}.log", "wb")  # noqa: SIM115
        # As in an activated environment: a job's `python` is the one that Ray runs in.
        environment = self.environment | {"PATH": f"{self.ray.parent}:{os.environ['PATH']}"}
        started = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        self.processes[name] = started
        said = (self.folder / f"{name}.log").read_text
        # One after another: two cores cannot start several at once in time.
        wait_for(lambda: "will now block forever" in said(), lambda: f"node {name}: {said()}", LONG, process=started)

    def head(self, *words: str) -> None:
        ports = ("--port=0", f"--temp-dir={self.temp}", "--dashboard-port=0", "--dashboard-host=127.0.0.1")
        self.start("head", "--head", *ports, *words)
        self.address = re.search(r"--address='([\d.:]+)'", (self.folder / "head.log").read_text())[1]

    def worker(self, name: str, *words: str, **options) -> None:
        self.start(name, f"--address={self.address}", *words, **options)

    def kill(self, name: str) -> None:
        """-9, and everything below it: a node that is gone."""
        process = self.processes.pop(name)
        for pid in [*small_study.descendants(process.pid), process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def end(self) -> None:
        for name in list(self.processes):
            self.kill(name)
        shutil.rmtree(self.temp, ignore_errors=True)

    def wait(self, number: int) -> None:
        """Until so many nodes are alive."""
        script = f"import ray; ray.init('{self.address}', logging_level='ERROR', log_to_driver=False)\nimport time\n"
        script += f"while sum(n['Alive'] for n in ray.nodes()) != {number}: time.sleep(0.3)\n"
        subprocess.run([sys.executable, "-c", script], env=self.environment, check=True, timeout=LONG)

    def job_server(self) -> str:
        script = f"import ray; c = ray.init('{self.address}', logging_level='ERROR'); print('at', c.dashboard_url)"
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=self.environment,
            check=True,
            timeout=LONG,
            capture_output=True,
            text=True,
        )
        return "http://" + re.search(r"at (\S+)", done.stdout)[1]

    def pilotstudy(self, *words: object, timeout: float = LONG, **changes) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pilotstudy", *map(str, words)]
        return subprocess.run(
            command, env=self.environment | changes, capture_output=True, text=True, check=False, timeout=timeout
        )
