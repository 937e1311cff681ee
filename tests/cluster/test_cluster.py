"""A real Ray cluster of several nodes on one machine."""

import json
import os
import subprocess
import sys
from collections import Counter
from importlib import metadata

import pytest

from pilotstudy.runs.layout import RunFiles
from pilotstudy.runs.results import Results
from tests.support import small_study
from tests.support.drivers import at_once, look
from tests.support.nodes import TOKEN
from tests.support.waiting import LONG, wait_for

pytestmark = pytest.mark.long


def test_a_study_goes_on_while_nodes_go_and_come(nodes, tmp_path):
    """Bit-identical to a local run, every trial once, and it says how often a trial moved."""
    small_study.prepare(tmp_path)
    assert small_study.start(tmp_path, "local").wait(LONG) == 0
    nodes.head("--num-cpus=0")
    for name in "one", "two":
        nodes.worker(name, "--num-cpus=1")
    nodes.wait(3)
    words = ("run", str(tmp_path / "chaos.toml"), "--name", "far", "--runs-dir", str(tmp_path / "runs"))
    command = [sys.executable, "-m", "pilotstudy", *words, "--address", nodes.address]
    log = open(tmp_path / "far.log", "wb")  # noqa: SIM115
    run = RunFiles(tmp_path / "runs" / "far")
    with small_study.slowed(tmp_path):
        process = subprocess.Popen(command, env=nodes.environment, stdout=log, stderr=log)
        wait_for(
            lambda: list(run.results.glob("*.json")) and len(list(run.checkpoints.glob("*.pt"))) == 2,
            (tmp_path / "far.log").read_text,
            seconds=LONG,
            process=process,
        )
        nodes.kill("one")
        nodes.worker("three", "--num-cpus=1")
    assert process.wait(LONG) == 0, (tmp_path / "far.log").read_text()
    local, far = (small_study.results(tmp_path, name) for name in ("local", "far"))
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
    small_study.prepare(tmp_path)
    nodes.head("--num-cpus=2")
    server = nodes.job_server()
    there = ("--address", server)
    words = ("submit", tmp_path / "chaos.toml", "--name", "sent", "--runs-dir", tmp_path / "runs", *there)
    words = (*words, "--no-install")  # they are there; Ray would copy the whole virtual environment first
    wrong = nodes.pilotstudy("jobs", *there, RAY_AUTH_TOKEN="f" * 32)
    assert wrong.returncode == 2
    assert "refuses the token" in wrong.stderr
    assert wrong.stderr.count("\n") == 1
    results = tmp_path / "runs" / "sent" / "results"
    with small_study.slowed(tmp_path):
        sent = nodes.pilotstudy(*words, "--set", "training.epochs=61")
        assert (sent.returncode, sent.stdout) == (0, "sent\n"), sent.stderr
        wait_for(lambda: list(results.glob("*.json")), lambda: nodes.pilotstudy("logs", "sent", *there).stdout)
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
    small_study.prepare(tmp_path)
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
    small_study.prepare(tmp_path)
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
