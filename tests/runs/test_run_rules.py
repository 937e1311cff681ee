"""What a run keeps of itself, its lock, and how files are written."""

import json
import os
import socket
import threading
import time

import pytest

from pilotstudy import storage
from pilotstudy.errors import StorageError
from pilotstudy.runs.folder import Run
from pilotstudy.runs.lock import SILENCE, FileLock
from pilotstudy.runs.status import overview
from pilotstudy.storage import Background
from pilotstudy.study import reading, spec
from pilotstudy.study.resources import Location
from tests.support.made_run import FINGERPRINT, Maker, content, made
from tests.support.slow_store import SlowStore


def two_arms() -> spec.Study:
    return reading.validate_study(content(search=None, arms={"vanilla": {}, "l2": {}}), "made")


def test_a_run_keeps_every_device_once_whatever_is_frozen_later(tmp_path):
    run = made(tmp_path / "run", most=0)
    run.add_devices(["CPU (2 cores)", "NVIDIA L4"])
    run.add_devices(["NVIDIA L4", "Tesla T4"])
    assert run.frozen().devices == ("CPU (2 cores)", "NVIDIA L4", "Tesla T4")
    run.freeze(run.study(), Location(), FINGERPRINT)
    assert run.frozen().devices == ("CPU (2 cores)", "NVIDIA L4", "Tesla T4")


def write_odd_seeds(run: Run) -> None:
    frozen = json.loads(run.files.study.read_text())
    frozen["study"]["seeds"] = []
    run.files.study.write_text(json.dumps(frozen))


@pytest.mark.parametrize(
    ("damage", "state"),
    [
        (lambda run: run.files.study.write_text("{"), "damaged: study.json"),
        (write_odd_seeds, "damaged: study.json"),
        (lambda run: run.files.trials.write_bytes(b"PAR1"), "damaged: trials.parquet"),
    ],
)
def test_one_damaged_run_hides_no_other(pilotstudy, tmp_path, damage, state):
    for name in "first", "second":
        made(tmp_path / name, points=20, most=1)
    damage(Run(tmp_path / "first"))
    code, out, err = pilotstudy("list", "--runs-dir", tmp_path, "--json")
    assert (code, err) == (0, "")
    assert [(row["run"], row["state"]) for row in json.loads(out)] == [("second", "stopped"), ("first", state)]
    code, out, err = pilotstudy("list", "--runs-dir", tmp_path)
    assert (code, err.count("\n")) == (0, 1)
    assert state in out
    assert "run 'first' cannot be read" in err
    assert state.removeprefix("damaged: ") in err


def test_runs_are_listed_with_the_last_started_first(pilotstudy, tmp_path):
    for name, started in ("a", "2026-03-01"), ("b", "2026-05-01"), ("c", "2026-04-01"):
        run = made(tmp_path / name, points=20, most=1)
        frozen = json.loads(run.files.study.read_text())
        frozen["history"][-1]["at"] = f"{started}T00:00:00+00:00"
        run.files.study.write_text(json.dumps(frozen))
    rows = json.loads(pilotstudy("list", "--runs-dir", tmp_path, "--json")[1])
    assert [row["run"] for row in rows] == ["b", "c", "a"]
    lines = pilotstudy("list", "--runs-dir", tmp_path)[1].splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [[name, "stopped", "1"] for name in "bca"]


def test_the_history_tells_what_was_known_each_time(tmp_path):
    maker = Maker(tmp_path / "run", reading.validate_study(content(), "made"), points=20)
    run = maker.make(2)
    run.freeze(maker.study, Location(), FINGERPRINT)
    assert [start.results for start in run.frozen().history] == [0, 2]


@pytest.mark.parametrize(
    ("most", "status", "expected"),
    [
        (5, "finished", {"state": "stopped", "done": 5, "failed": 0}),
        (100, "finished", {"state": "done", "done": 6, "failed": 0}),
        (100, "failed", {"state": "stopped", "done": 6, "failed": 6}),
        (100, "diverged", {"state": "done", "done": 6, "failed": 0}),
    ],
)
def test_the_state_of_a_run(tmp_path, most, status, expected):
    run = Maker(tmp_path / "run", two_arms(), points=20).make(most, status)
    found = overview(run)
    assert found["trials"] == 6
    assert {name: found[name] for name in expected} == expected
    with run.locked():
        assert overview(run)["state"] == "running"


def test_a_trial_under_way_is_not_done(tmp_path):
    maker = Maker(tmp_path / "run", two_arms(), points=20)
    maker.make(2)
    maker.director.next()
    maker.director.save()
    assert overview(maker.run)["done"] == 2


# The lock.


def test_who_is_told_to_hold_a_lock(tmp_path):
    """A process of this host holds the system's lock or is gone. Of another's, all that is seen is the file."""
    path = tmp_path / "lock"
    lock = FileLock(path)
    assert not lock.taken()
    for host, silent, taken in (
        (socket.gethostname(), 0, False),
        ("elsewhere", 0, True),
        ("elsewhere", SILENCE - 5, True),
        ("elsewhere", SILENCE + 5, False),
    ):
        path.write_text(json.dumps({"pid": 1, "host": host, "heard": 0}))
        os.utime(path, (time.time() - silent,) * 2)
        assert lock.taken() == taken, (host, silent)
    path.write_text("")
    assert not lock.taken()


def test_a_lock_that_was_given_back_names_nobody(tmp_path, monkeypatch):
    lock = FileLock(tmp_path / "lock")
    with lock.held():
        assert lock.holder() == f"process {os.getpid()} on {socket.gethostname()}"
        assert lock.taken()
    assert lock.holder() == "another process"
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")  # as another host sees it
    assert not lock.taken()


def test_a_lock_is_given_back_after_an_error(tmp_path):
    run = Run(tmp_path / "run")
    with pytest.raises(ZeroDivisionError), run.locked():
        raise ZeroDivisionError
    assert not run.at_work()
    with run.locked():
        assert run.at_work()


# Files.


def test_what_comes_after_all_waits_for_all_and_is_left_out_after_an_error(monkeypatch):
    """A table that tells of a proposal is not written before it, nor when it could not be written."""
    SlowStore.reset(latency=0.0)
    folder = storage.place("slow://runs/far")
    order, go_on = [], threading.Event()

    def pipe_file(self, path, value, **options):
        assert go_on.wait(60)
        if b"bad" in value:
            raise OSError(28, "No space left on device")
        order.append(value)

    monkeypatch.setattr(SlowStore, "pipe_file", pipe_file)
    background = Background(threads=2)
    background.submit(folder / "a", b"first")
    background.after_all(lambda: order.append(b"after"))
    time.sleep(0.05)  # time enough to be too early
    assert order == []
    go_on.set()
    background.flush()
    assert order == [b"first", b"after"]

    go_on.clear()
    background.submit(folder / "b", b"bad")
    background.after_all(lambda: order.append(b"never"))
    go_on.set()
    with pytest.raises(StorageError, match="No space left"):
        background.flush()
    background._pool.shutdown(wait=True)
    assert order == [b"first", b"after"]


def test_trying_a_folder_out_leaves_nothing(tmp_path):
    storage.try_out(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []


def test_a_write_that_fails_leaves_the_file_as_it_was_and_nothing_beside_it(tmp_path):
    path = tmp_path / "file"
    storage.write(path, "whole")

    def half(file):
        file.write(b"ha")
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="No space left"):
        storage.write(path, half)
    assert path.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [path]
