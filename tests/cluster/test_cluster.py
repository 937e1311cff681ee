"""A real Ray cluster of several nodes on one machine."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib import metadata
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import chaos
from test_ray import at_once, look

from pilotstudy.files import RunFiles
from pilotstudy.results import Results

pytestmark = pytest.mark.long
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
        deadline = time.monotonic() + 120  # one after another: two cores cannot start several at once in time
        while "will now block forever" not in (text := (self.folder / f"{name}.log").read_text()):
            assert started.poll() is None, text
            assert time.monotonic() < deadline, text
            time.sleep(0.2)

    def head(self, *words: str) -> None:
        ports = ("--port=0", f"--temp-dir={self.temp}", "--dashboard-port=0", "--dashboard-host=127.0.0.1")
        self.start("head", "--head", *ports, *words)
        self.address = re.search(r"--address='([\d.:]+)'", (self.folder / "head.log").read_text())[1]

    def worker(self, name: str, *words: str, **options) -> None:
        self.start(name, f"--address={self.address}", *words, **options)

    def kill(self, name: str) -> None:
        """-9, and everything below it: a node that is gone."""
        process = self.processes.pop(name)
        for pid in [*chaos.descendants(process.pid), process.pid]:
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
        subprocess.run([sys.executable, "-c", script], env=self.environment, check=True, timeout=90)

    def job_server(self) -> str:
        script = f"import ray; c = ray.init('{self.address}', logging_level='ERROR'); print('at', c.dashboard_url)"
        done = subprocess.run(
            [sys.executable, "-c", script], env=self.environment, check=True, timeout=90, capture_output=True, text=True
        )
        return "http://" + re.search(r"at (\S+)", done.stdout)[1]

    def pilotstudy(self, *words: object, timeout: float = 240, **changes) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pilotstudy", *map(str, words)]
        return subprocess.run(
            command, env=self.environment | changes, capture_output=True, text=True, check=False, timeout=timeout
        )


@pytest.fixture
def nodes(tmp_path):
    made = Nodes(tmp_path, TOKEN)
    yield made
    made.end()


def test_a_study_goes_on_while_nodes_go_and_come(nodes, tmp_path):
    """Bit-identical to a local run, every trial once, and it says how often a trial moved."""
    chaos.prepare(tmp_path)
    assert chaos.start(tmp_path, "local").wait(200) == 0
    nodes.head("--num-cpus=0")
    for name in "one", "two":
        nodes.worker(name, "--num-cpus=1")
    nodes.wait(3)
    words = ("run", str(tmp_path / "chaos.toml"), "--name", "far", "--runs-dir", str(tmp_path / "runs"))
    command = [sys.executable, "-m", "pilotstudy", *words, "--address", nodes.address]
    log = open(tmp_path / "far.log", "wb")  # noqa: SIM115
    process = subprocess.Popen(command, env=nodes.environment, stdout=log, stderr=log)
    run = RunFiles(tmp_path / "runs" / "far")
    deadline = time.monotonic() + 120
    while not (list(run.results.glob("*.json")) and len(list(run.checkpoints.glob("*.pt"))) == 2):
        assert process.poll() is None, (tmp_path / "far.log").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    nodes.kill("one")
    nodes.worker("three", "--num-cpus=1")
    assert process.wait(200) == 0, (tmp_path / "far.log").read_text()
    local, far = (chaos.results(tmp_path, name) for name in ("local", "far"))
    fixed = {row["key"] for row in Results(run).trials.to_pylist() if row["phase"] == "arms"}
    assert len(fixed) == 6
    for key in fixed:
        assert far[key] == local[key]
    trials = Results(run).trials.to_pylist()
    assert len(trials) == 14
    assert {row["status"] for row in trials} == {"finished"}
    assert len({(row["phase"], row["arm"], row["number"]) for row in trials}) == 14
    assert sum(row["moves"] for row in trials) >= 1
    assert "after their node was lost" in (tmp_path / "far.log").read_text()
    assert all(row["retries"] == 0 for row in trials)


def test_eight_trials_at_once_on_two_nodes_with_a_gpu_each(nodes, tmp_path):
    nodes.head("--num-cpus=0")
    for name in "one", "two":
        nodes.worker(name, "--num-cpus=4", "--num-gpus=1")
    nodes.wait(3)
    seen = look(tmp_path, 8, 8, nodes.environment, address=nodes.address)
    assert at_once(seen) == 8
    by_node = Counter(node for *_, node in seen)
    assert sorted(by_node.values()) == [4, 4]
    assert all(len(ids) == 1 for ids, *_ in seen)


def test_jobs_with_a_token(nodes, tmp_path):
    chaos.prepare(tmp_path)
    nodes.head("--num-cpus=2")
    server = nodes.job_server()
    there = ("--address", server)
    words = ("submit", tmp_path / "chaos.toml", "--name", "sent", "--runs-dir", tmp_path / "runs", *there)
    words = (*words, "--no-install")  # they are there; Ray would copy the whole virtual environment first
    wrong = nodes.pilotstudy("jobs", *there, RAY_AUTH_TOKEN="f" * 32)
    assert wrong.returncode == 2
    assert "refuses the token" in wrong.stderr
    assert wrong.stderr.count("\n") == 1
    sent = nodes.pilotstudy(*words, "--set", "training.epochs=61")
    assert (sent.returncode, sent.stdout) == (0, "sent\n"), sent.stderr
    results = tmp_path / "runs" / "sent" / "results"
    deadline = time.monotonic() + 120
    while not list(results.glob("*.json")):
        assert time.monotonic() < deadline, nodes.pilotstudy("logs", "sent", *there).stdout
        time.sleep(0.2)
    assert nodes.pilotstudy(*words).returncode == 2  # it is at work
    assert nodes.pilotstudy("stop", "sent", *there).returncode == 0
    assert json.loads(nodes.pilotstudy("jobs", "--json", *there).stdout)[0]["state"] == "STOPPED"
    done = len(list(results.glob("*.json")))
    assert nodes.pilotstudy("resume", "sent", *there).returncode == 0
    followed = nodes.pilotstudy("logs", "sent", "--follow", *there)
    assert followed.returncode == 0, followed.stdout
    assert f"{done} of 14" in followed.stdout or "were there already" in followed.stdout
    assert len(list(results.glob("*.json"))) == 12
    assert json.loads(nodes.pilotstudy("status", "sent", "--json", *there).stdout)["state"] == "SUCCEEDED"
    frozen = json.loads((tmp_path / "runs" / "sent" / "study.json").read_text())
    assert frozen["study"]["training"]["epochs"] == 61
    for path in [*(tmp_path / "runs").rglob("*"), *tmp_path.glob("*.log")]:
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes()


def test_a_folder_that_not_all_nodes_see_is_refused(nodes, tmp_path):
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("a node with a file system of its own takes root and `unshare`")
    chaos.prepare(tmp_path)
    runs = tmp_path / "runs"
    runs.mkdir()
    nodes.head("--num-cpus=1")
    hide = f'mount -t tmpfs none {runs} && exec "$@"'
    nodes.worker("blind", "--num-cpus=1", wrap=("unshare", "-m", "bash", "-c", hide, "--"))
    nodes.wait(2)
    words = ("run", tmp_path / "chaos.toml", "--name", "far", "--runs-dir", runs, "--address", nodes.address)
    done = nodes.pilotstudy(*words)
    assert done.returncode == 2
    assert "1 of 2 nodes do not see" in done.stderr
    assert not list((runs / "far").glob("results/*"))


@pytest.mark.download
def test_a_cluster_needs_only_ray(nodes, tmp_path):
    """What we need is installed by the job itself. Downloads some GB and takes minutes."""
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", bare], check=True)
    subprocess.run([bare / "bin" / "pip", "install", "-q", f"ray[default]=={metadata.version('ray')}"], check=True)
    chaos.prepare(tmp_path)
    nodes.ray = bare / "bin" / "ray"
    nodes.head("--num-cpus=2")
    there = ("--address", nodes.job_server())
    words = ("submit", tmp_path / "chaos.toml", "--name", "sent", "--runs-dir", tmp_path / "runs", *there)
    sent = nodes.pilotstudy(*words, "--trials", "0", "--epochs", "2")
    assert sent.returncode == 0, sent.stderr
    followed = nodes.pilotstudy("logs", "sent", "--follow", *there, timeout=1500)
    assert followed.returncode == 0, followed.stdout + followed.stderr
    assert len(list((tmp_path / "runs" / "sent" / "results").glob("*.json"))) == 6
    assert not list((bare / "lib").glob("python*/site-packages/torch"))  # it had none, and has none
