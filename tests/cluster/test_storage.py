"""Runs on an object store, over HTTP, against a server that the test starts."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from made_run import Maker, content
from test_cli import pilotstudy  # noqa: F401

from pilotstudy import claims, files, locking, spec
from pilotstudy.dashboard import data
from pilotstudy.errors import InputError, RunLockedError
from pilotstudy.results import Results
from pilotstudy.runs import Run

sys.path.insert(0, str(Path(__file__).parent))
import chaos

pytest.importorskip("moto.server")
pytest.importorskip("gcp_storage_emulator")


@contextmanager
def s3():
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    server.stop()


@contextmanager
def gs():
    from gcp_storage_emulator.server import create_server

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = create_server("127.0.0.1", port, in_memory=True)
    server.start()
    yield {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}", "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}
    server.stop()


@pytest.fixture(scope="module", params=[s3, gs], ids=["s3", "gs"])
def bucket(request):
    with request.param() as values, pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, value)
        place = files.place(f"{request.param.__name__}://studies/runs")
        place.fs.mkdir("studies")
        yield str(place)


def test_a_run_on_a_store_reads_as_one_on_a_disk(bucket, tmp_path, pilotstudy):  # noqa: F811
    study = spec.validate(content(), "made")
    here = Maker(tmp_path / "made", study, points=80).make()
    there = Maker(files.place(bucket) / "made", study, points=80)
    there.run.files.folder.mkdir(parents=True, exist_ok=True)
    remote = there.make()
    assert Results(remote.files).trials == Results(here.files).trials
    assert Results(remote.files).epochs == Results(here.files).epochs
    assert claims.judge_all(remote) == claims.judge_all(here)
    pages = [data.page_data(run) for run in (here, remote)]
    for page in pages:
        page["made"].pop("started")
        page["run"].pop("since")
    assert pages[0] == pages[1]
    where = ("--runs-dir", bucket)
    assert [row["run"] for row in json.loads(pilotstudy("list", "--json", *where)[1])] == ["made"]
    assert "HOLDS" in pilotstudy("claims", f"{bucket}/made")[1]
    assert "Vanilla" in pilotstudy("table", "made", *where)[1]
    assert pilotstudy("dashboard", "made", *where)[1].strip() == f"{bucket}/made/dashboard.html"
    assert pilotstudy("results", "nope", *where)[0] == 2


def test_the_lease_keeps_a_second_process_out_and_ends_with_silence(bucket, monkeypatch):
    path = files.place(bucket) / "leased" / "lock"
    with locking.lock_of(path).held():
        assert locking.lock_of(path).taken()
        with pytest.raises(RunLockedError, match=f"process {os.getpid()} on"), locking.lock_of(path).held():
            pass
    assert not path.exists()
    path.write_text(json.dumps({"pid": 1, "host": "gone", "heard": time.time() - 1000, "lease": "x"}))
    assert not locking.lock_of(path).taken()
    with locking.lock_of(path).held():  # left by a crash
        assert "gone" not in locking.lock_of(path).holder()


def test_a_store_that_is_not_there_is_one_line(bucket, pilotstudy, monkeypatch):  # noqa: F811
    code, _, err = pilotstudy("list", "--runs-dir", "nonsense://x")
    assert code == 2
    assert err.count("\n") == 1
    with pytest.raises(InputError):
        files.place("nonsense://x")


@pytest.mark.long
def test_a_study_on_a_store_survives_and_ends_as_on_a_disk(bucket, tmp_path):
    chaos.prepare(tmp_path)
    local = chaos.start(tmp_path, "local")
    words = [sys.executable, "-m", "pilotstudy", "run", str(tmp_path / "chaos.toml"), "--name", "far", "-q"]
    command = [*words, "--concurrency", "1", "--runs-dir", bucket]
    assert local.wait(200) == 0
    run = Run(files.place(bucket) / "far")
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 90
    while len(list(run.files.results.glob("*.json"))) < 3:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.3)
    second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.returncode == 7
    process.send_signal(signal.SIGKILL)
    process.wait()
    lock = run.files.lock  # nobody renews it any more: as if a minute had gone by
    lock.write_text(json.dumps(json.loads(lock.read_text()) | {"heard": time.time() - 1000}))
    assert subprocess.run(command, check=False, timeout=200).returncode == 0
    results = chaos.results(tmp_path, "local")
    assert len(results) == 12
    for key, expected in results.items():
        found = run.result(key)
        assert {name: found[name] for name in expected} == expected
    assert not list(run.files.checkpoints.glob("*"))
