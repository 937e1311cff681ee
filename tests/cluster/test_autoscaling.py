"""A cluster that scales from zero, by Ray's own autoscaler, with its pretended provider: nodes are processes here."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from ray.util import get_node_ip_address

from pilotstudy.runs.layout import RunFiles
from pilotstudy.runs.results import Results
from tests.support import small_study
from tests.support.drivers import drive, lines_until
from tests.support.nodes import Nodes
from tests.support.waiting import LONG, wait_for

pytestmark = pytest.mark.long
HEAD_ID = "fffffffffffffffffffffffffffffffffffffffffffffffffff00000"


def head_with_autoscaler(nodes: Nodes, folder: Path, version: str, most: int = 2, **kind: float) -> None:
    """A head that trains nothing, and up to `most` nodes of one kind when they are asked for."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    host = get_node_ip_address()
    worker = {"resources": kind, "node_config": {}, "min_workers": 0, "max_workers": most}
    empty = ("head_setup_commands", "worker_setup_commands", "setup_commands", "initialization_commands")
    empty += ("head_start_ray_commands", "worker_start_ray_commands", "cluster_synced_files")
    config = {
        "cluster_name": "pretended",
        "max_workers": most,
        "idle_timeout_minutes": 5,
        "provider": {
            # Its own name asks for a file that Ray's wheel leaves out; as an external provider it does not.
            "type": "external",
            "module": "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider",
            "head_node_id": HEAD_ID,
            "gcs_address": f"{host}:{port}",
            "launch_multiple": True,
        },
        "available_node_types": {
            "worker": worker,
            "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
        },
        "head_node_type": "ray.head.default",
        "auth": {},
        "docker": {},
        "file_mounts": {},
    } | {name: [] for name in empty}
    (folder / "cluster.yaml").write_text(json.dumps(config))
    nodes.environment |= {"AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_FAKE_CLUSTER": "1"}
    if version == "v2":
        nodes.environment |= {
            "RAY_enable_autoscaler_v2": "1",
            "RAY_CLOUD_INSTANCE_ID": HEAD_ID,
            "RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD_ID,
        }
    words = ("--num-cpus=0", f"--temp-dir={nodes.temp}", "--dashboard-port=0", "--dashboard-host=127.0.0.1")
    nodes.start("head", "--head", f"--port={port}", *words, f"--autoscaling-config={folder / 'cluster.yaml'}")
    nodes.address = f"{host}:{port}"
    for name in "RAY_OVERRIDE_NODE_ID_FOR_TESTING", "RAY_CLOUD_INSTANCE_ID":  # the head's own
        nodes.environment.pop(name, None)


@pytest.mark.parametrize("version", ["v2", "v1"])
def test_a_study_on_a_cluster_of_no_nodes_makes_it_grow(nodes, tmp_path, version):
    small_study.prepare(tmp_path)
    head_with_autoscaler(nodes, tmp_path, version, CPU=1)
    words = (
        "run",
        tmp_path / "chaos.toml",
        "--name",
        "far",
        "--runs-dir",
        tmp_path / "runs",
        "--address",
        nodes.address,
    )
    done = nodes.pilotstudy(*words, "--trials", "4", timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 trials, up to 12 at a time" in done.stderr
    assert "still runs, and costs what it costs: `ray down FILE`" in done.stderr
    run = RunFiles(tmp_path / "runs" / "far")
    trials = Results(run).trials.to_pylist()
    assert {row["status"] for row in trials} == {"finished"}
    where = {json.loads(path.read_text())["node"] for path in run.results.glob("*.json")}
    assert len(where) == 2  # both nodes that it may have were started, and used


def test_what_cannot_be_had_is_waited_for_with_a_line_and_then_given_up(nodes, tmp_path):
    head_with_autoscaler(nodes, tmp_path, "v2", most=0, CPU=1)
    process = drive(tmp_path, "pass", nodes.environment, address=nodes.address, minute=8, limits={"wait": 2})
    said, _ = process.communicate(timeout=LONG)
    lines = [line for line in said.splitlines() if line.startswith("waiting for a node")]
    assert len(lines) in (1, 2), said  # one, where the second minute was over before anyone looked
    assert "7 trials want 1 CPU each" in lines[0]
    assert "ended wait NotDoneError no node had room within 2 minutes" in said


def test_nodes_that_join_late_are_used(nodes, tmp_path):
    """A plain cluster, no autoscaler."""
    study = small_study.prepare(tmp_path)
    nodes.head("--num-cpus=0")
    nodes.worker("one", "--num-cpus=1")
    words = ["run", study, "--name", "far", "--runs-dir", tmp_path / "runs", "--address", nodes.address]
    command = [sys.executable, "-m", "pilotstudy", *map(str, words)]
    log = open(tmp_path / "far.log", "wb")  # noqa: SIM115
    run, said_so_far = RunFiles(tmp_path / "runs" / "far"), (tmp_path / "far.log").read_text
    with small_study.slowed(tmp_path):
        process = subprocess.Popen(command, env=nodes.environment, stdout=log, stderr=log)
        wait_for(lambda: list(run.checkpoints.glob("*.pt")), said_so_far, LONG, process=process)
        nodes.worker("two", "--num-cpus=1")
        wait_for(lambda: len(list(run.checkpoints.glob("*.pt"))) > 1, said_so_far, LONG, process=process)
    assert process.wait(LONG) == 0, said_so_far()
    said = said_so_far()
    assert "14 trials, 1 at a time" in said
    assert "2 trials at a time now: nodes have come" in said
    assert len({json.loads(path.read_text())["node"] for path in run.results.glob("*.json")}) == 2


def test_a_sick_node_is_left_alone_and_the_study_ends_elsewhere(nodes, tmp_path):
    small_study.prepare(tmp_path)
    nodes.head("--num-cpus=0")
    nodes.worker("well", "--num-cpus=1")
    nodes.environment["SICK"] = "1"
    nodes.worker("sick", "--num-cpus=1")
    del nodes.environment["SICK"]
    nodes.wait(3)
    change = "if os.environ.get('SICK'): raise RuntimeError('CUDA error: uncorrectable ECC error encountered')"
    given_up = "failed 3 trials in a row and gets no more: RuntimeError: CUDA error: uncorrectable ECC"
    with small_study.slowed(tmp_path):  # the study is not over before the sick node had its three trials
        process = drive(tmp_path, change, nodes.environment, address=nodes.address)
        said = lines_until(process, given_up)
    said += process.communicate(timeout=LONG)[0]
    assert "ended" in said.splitlines()[-1], said
    trials = Results(RunFiles(tmp_path / "run")).trials.to_pylist()
    assert len(trials) == 14
    assert {row["status"] for row in trials} == {"finished"}
