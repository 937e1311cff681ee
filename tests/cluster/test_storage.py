"""Runs on an object store, over HTTP, against a server that the test starts."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, nullcontext
from http import HTTPStatus
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
    from s3fs import S3FileSystem

    S3FileSystem.clear_instance_cache()  # of another test's server
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


@contextmanager
def conditions_at_amazon():
    """Moto looks at a condition and then writes: here, as at Amazon, nothing comes between."""
    from moto.s3.responses import S3Response

    lock = threading.Lock()

    def alone(handler):
        def handle(*words):
            with lock:
                return handler(*words)

        return handle

    with pytest.MonkeyPatch.context() as patch:
        for name in "put_object", "delete_object":
            patch.setattr(S3Response, name, alone(getattr(S3Response, name)))
        yield


@contextmanager
def conditions_at_google():
    """The emulator takes no notice of `ifGenerationMatch`: here it does, as Google does."""
    from gcp_storage_emulator import server
    from gcp_storage_emulator.exceptions import NotFound
    from gcp_storage_emulator.handlers import objects

    def name(request):
        if "object_id" in request.params:
            return request.params["object_id"]
        return request.query["name"][0] if "name" in request.query else request.data["meta"]["name"]

    def conditional(handler):
        def handle(request, response, storage):
            for wanted in request.query.get("ifGenerationMatch", []):
                try:
                    there = storage.get_file_obj(request.params["bucket_name"], name(request))["generation"]
                except NotFound:
                    there = "0"
                if wanted != there:
                    response.status = HTTPStatus.PRECONDITION_FAILED
                    return
            handler(request, response, storage)

        return handle

    with pytest.MonkeyPatch.context() as patch:
        for _, handlers in server.HANDLERS:
            for method, handler in list(handlers.items()):
                if handler in (objects.insert, objects.delete):
                    patch.setitem(handlers, method, conditional(handler))
        yield


def conditions_of(bucket):
    return conditions_at_amazon() if bucket.startswith("s3") else conditions_at_google()


@pytest.fixture
def by_hand(monkeypatch):
    """No beats but those of the test; what it is called with is the silence after which a lease counts as left."""
    monkeypatch.setattr(locking, "BEAT_SECONDS", 1000.0)
    return lambda silence: monkeypatch.setattr(locking, "SILENCE", silence)


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


@pytest.mark.parametrize("conditions", [True, False], ids=["conditions", "none"])
def test_a_driver_that_slept_stops_and_leaves_the_lease_to_the_one_that_took_over(
    bucket, by_hand, monkeypatch, conditions
):
    folder = files.place(bucket) / f"slept-{conditions}"
    first, second = Run(folder), Run(folder)
    with conditions_of(bucket) if conditions else nullcontext(), ExitStack() as slept:
        slept.enter_context(first.locked())
        assert first.lost == ""
        _, before = first._lock._look()
        by_hand(0.0)  # it has been silent for too long
        monkeypatch.setattr(socket, "gethostname", lambda: "hostB")
        with second.locked():
            by_hand(60.0)
            theirs = folder.joinpath("lock").read_bytes()
            if conditions or bucket.startswith("s3"):  # the store itself refuses
                with pytest.raises(OSError, match=r"."):
                    first._lock._put(before)
                with pytest.raises(OSError, match=r"."):
                    locking.remove_if(first.files.lock, before)
            first._lock.beat()
            assert first.lost == f"process {os.getpid()} on hostB took the run over"
            first._lock.beat()
            slept.close()
            assert first.lost == ""  # of a run that it does not hold
            assert folder.joinpath("lock").read_bytes() == theirs
            assert second.at_work()
            second._lock.beat()
            assert second.lost == ""
            assert folder.joinpath("lock").read_bytes() != theirs
        assert not folder.joinpath("lock").exists()


def test_the_clock_alone_loses_no_lease_but_a_store_out_of_reach_does(bucket, by_hand, monkeypatch):
    run = Run(files.place(bucket) / "clock")
    with run.locked():
        by_hand(0.0)
        assert run.lost == ""  # slept, and nobody came
        by_hand(60.0)
        run.files.lock.unlink()
        run._lock.beat()
        assert run.at_work()  # whoever removed it, nobody else has it
        with monkeypatch.context() as patch:
            patch.setattr(locking, "put_if", lambda *_: 1 / 0)
            run._lock.beat()
            assert run.lost == ""  # for a while
            clock = time.time()
            patch.setattr(time, "time", lambda: clock + 75)  # asleep: the monotonic clock stood still
            assert run.lost == "its lease could not be renewed for 75 s"
    assert not run.files.lock.exists()
    with run.locked():
        run.files.lock.unlink()
        by_hand(0.0)
        assert "gone" in run.lost  # another may have come and left
    assert not run.files.lock.exists()


def test_a_beat_notices_the_loss(bucket, monkeypatch):
    monkeypatch.setattr(locking, "BEAT_SECONDS", 0.05)
    run = Run(files.place(bucket) / "noticed")
    theirs = json.dumps({"pid": 12, "host": "hostB", "heard": time.time(), "lease": "x"})
    with conditions_of(bucket), run.locked():
        first = files.read(run.files.lock)
        wait_for(lambda: files.read(run.files.lock) != first)
        assert run.lost == ""
        run.files.lock.write_text(theirs)
        wait_for(lambda: run.lost)
        assert run.lost == "process 12 on hostB took the run over"
    assert run.files.lock.read_text() == theirs


def wait_for(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("left", [True, False], ids=["silent", "none"])
def test_of_several_that_take_a_lease_one_gets_it(bucket, by_hand, monkeypatch, left):
    path = files.place(bucket) / f"race-{left}" / "lock"
    put_if = locking.put_if
    with conditions_of(bucket):
        for _ in range(5):
            if left:
                path.write_text(json.dumps({"pid": 1, "host": "gone", "heard": 0, "lease": "x"}))
            looked, ends, written, held, refused = threading.Barrier(4), threading.Barrier(4), [], [], []

            def put(*words, looked=looked, written=written):
                looked.wait(30)  # all have looked before the first writes
                put_if(*words)
                written.append(words)

            def take(ends=ends, held=held, refused=refused):
                try:
                    with locking.lock_of(path).held():
                        held.append(json.loads(path.read_text()))
                        ends.wait(30)
                except RunLockedError as error:
                    refused.append(str(error))
                    ends.wait(30)

            monkeypatch.setattr(locking, "put_if", put)
            threads = [threading.Thread(target=take) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert (len(written), len(held)) == (1, 1)
            assert refused == [f"process {os.getpid()} on {socket.gethostname()}"] * 3
            assert not path.exists()


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
