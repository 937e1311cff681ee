"""`pilotstudy doctor --address`."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from pilotstudy.cluster.nodes import Kind, kinds, overview
from pilotstudy.schedule import doctor
from pilotstudy.storage import place, write
from tests.support.pretended import CARD, pretended
from tests.support.stores import s3
from tests.support.waiting import LONG


def node(number: int, labels: dict | None = None, **resources: float) -> dict:
    found = {name.replace("__", ":"): value for name, value in resources.items()}
    return {"NodeID": f"n{number}", "Resources": found, "Labels": labels or {}}


def test_nodes_by_kind():
    l4 = {"CPU": 4.0, "GPU": 1.0, "accelerator_type__L4": 1.0, "memory": 1e10}
    nodes = [node(0), node(1, **l4), node(2, CPU=8.0), node(3, **l4 | {"memory": 2e10})]
    found = kinds(nodes)
    assert found == {Kind(4, 1, "L4"): ["n1", "n3"], Kind(8, 0, ""): ["n2"], Kind(0, 0, ""): ["n0"]}
    assert list(map(str, found)) == ["4 CPUs, 1 GPU L4", "8 CPUs", "0 CPUs"]
    assert Kind.of(node(0, {"ray.io/accelerator-type": "A100"}, CPU=1.0, GPU=8.0)) == Kind(1, 8, "A100")
    assert overview(nodes, None)[0]["found"].startswith("4 nodes, 16 CPUs, 2 GPUs, Ray ")


def test_an_autoscaler_without_gpus_is_said():
    cluster, gpus = overview([node(0)], "starting: 1 × gpu")
    assert (cluster["state"], gpus["state"]) == ("works", "missing")
    assert "starting: 1 × gpu" in gpus["found"]
    assert len(overview([node(0), node(1, CPU=4.0, GPU=1.0)], "no node is starting")) == 1
    assert len(overview([node(0, CPU=4.0)], None)) == 1  # nobody will start any


def test_one_node():
    rows = {row["what"]: row for row in doctor.node(gpu=False, trains=True)}
    assert list(rows) == ["device", "vanilla", "pilot-a-aug"]
    assert "ms a step" in rows["pilot-a-aug"]["found"]
    assert {row["state"] for row in rows.values()} == {"works"}
    assert doctor.node(gpu=False, trains=False)[0]["found"] == "takes no trials"


def test_a_gpu_that_does_not_work_is_a_row_that_fails(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (row,) = doctor.node(gpu=True, trains=True)
    assert row["state"] == "fails"
    assert "cuda was asked for and cannot be used" in row["found"]


def test_a_gpu_is_named_with_its_driver_and_multiprocessors(monkeypatch):
    monkeypatch.setattr("pilotstudy.trial.device.nvidia_driver", lambda: "580.95")
    monkeypatch.setattr("torch.version.cuda", "13.2")
    monkeypatch.setattr("pilotstudy.schedule.timing.STEPS", 2)
    with pretended() as gpu:
        device, vanilla, pilot = doctor.node(gpu=True, trains=True)
        assert device["found"].startswith("Pretended (24 GiB, driver 580.95, 58 multiprocessors), torch ")
        assert {row["state"] for row in (vanilla, pilot)} == {"works"}
        assert gpu.launches
        (row,) = doctor.cuda()
        assert row["found"] == "Pretended (24 GiB, driver 580.95, 58 multiprocessors), CUDA 13.2"
    with pretended(SimpleNamespace(**vars(CARD) | {"name": "P100", "major": 6, "minor": 0})):
        for row in doctor.node(gpu=True, trains=True)[0], doctor.cuda()[0]:
            assert row["state"] == "fails"
            assert "older than any" in row["what to do"]
    (row,) = doctor.cuda()
    if not torch.cuda.is_available():
        assert row["state"] == "missing"
        assert "NVIDIA" in row["found"] or "CUDA" in row["found"]  # why not


def test_the_runs_folder(tmp_path):
    assert doctor.storage(str(tmp_path / "runs"))["state"] == "works"
    assert not list((tmp_path / "runs").iterdir())
    (tmp_path / "file").write_text("")
    assert doctor.storage(str(tmp_path / "file" / "runs"))["state"] == "fails"
    elsewhere = doctor.storage(str(tmp_path), mark=".of-the-driver")
    assert elsewhere["state"] == "fails"
    assert "not the one that the driver writes to" in elsewhere["found"]


def test_the_runs_folder_on_an_object_store(monkeypatch):
    with s3() as values:
        for name, value in values.items():
            monkeypatch.setenv(name, value)
        place("s3://examined").fs.mkdir("examined")
        assert doctor.storage("s3://examined/runs")["state"] == "works"
        write(place("s3://examined/runs/.mark"), "")
        assert doctor.storage("s3://examined/runs", mark=".mark")["state"] == "works"
        assert [path.name for path in place("s3://examined/runs").iterdir()] == [".mark"]
        missing = doctor.storage("s3://nobodys/runs")
        assert missing["state"] == "fails"
        assert "bucket does not exist" in missing["found"]


@pytest.mark.long
def test_a_cluster_is_examined_through_both_ways_in(nodes, tmp_path):
    nodes.head("--num-cpus=0")
    nodes.worker("cpu", "--num-cpus=2")
    nodes.wait(2)
    words = ("--runs-dir", tmp_path / "runs", "--json")
    done = nodes.pilotstudy("doctor", "--address", nodes.address, *words)
    assert done.returncode == 0, done.stderr
    rows = {row["what"]: row for row in json.loads(done.stdout)}
    assert "ms a step" in rows["2 CPUs: vanilla"]["found"]
    assert "ms a step" in rows["2 CPUs: pilot-a-aug"]["found"]
    assert rows["2 CPUs: runs folder"]["state"] == rows["0 CPUs: runs folder"]["state"] == "works"
    assert not list((tmp_path / "runs").iterdir())
    nodes.worker("gpu", "--num-cpus=1", "--num-gpus=1")  # Ray's word for it: there is none
    nodes.wait(3)
    done = nodes.pilotstudy("doctor", "--address", nodes.job_server(), "--no-install", *words)
    assert done.returncode == 1, done.stderr
    rows = {row["what"]: row for row in json.loads(done.stdout)}
    assert rows["2 CPUs: device"]["state"] == "works"
    if not torch.cuda.is_available():
        assert rows["1 CPU, 1 GPU: device"]["state"] == "fails"
        assert "cannot be used" in rows["1 CPU, 1 GPU: device"]["found"]
    script = (
        "import ray, sys, json\nfrom pilotstudy.cluster import nodes\nnodes.START_SECONDS = 15\n"
        "ask = nodes.ask\n"
        "def busy(*words):\n"
        "    holder = ray.remote(num_gpus=1)(type('Holder', (), {'ready': lambda self: 1})).remote()\n"
        "    ray.get(holder.ready.remote())\n"
        "    return ask(*words)\n"
        "wait = ray.wait\n"
        "def impatient(refs, num_returns=1, timeout=None):\n"
        "    if timeout == 15:\n"  # all but the one that cannot start get the time that they need
        "        num_returns, timeout = num_returns - 1, 120\n"
        "    return wait(refs, num_returns=num_returns, timeout=timeout)\n"
        "ray.wait = impatient\n"
        "nodes.ask = busy\nprint(json.dumps(nodes.examine(sys.argv[1])))"
    )
    command = [sys.executable, "-c", script, nodes.address]
    done = subprocess.run(command, env=nodes.environment, capture_output=True, text=True, check=True, timeout=LONG)
    rows = {row["what"]: row for row in json.loads(done.stdout.splitlines()[-1])}
    assert rows["1 CPU, 1 GPU: start"]["state"] == "fails"
    assert "within 15 s" in rows["1 CPU, 1 GPU: start"]["found"]
    assert rows["2 CPUs: device"]["state"] == "works"
