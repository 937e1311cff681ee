"""The lease of a run on an object store, over HTTP, against a server that the test starts."""

import json
import os
import socket
import threading
import time
from contextlib import ExitStack, nullcontext

import pytest

from pilotstudy import storage
from pilotstudy.errors import RunLockedError
from pilotstudy.runs import lock
from pilotstudy.runs.folder import Run
from tests.support.stores import conditions_of
from tests.support.waiting import wait_for


@pytest.fixture
def by_hand(monkeypatch):
    """No beats but those of the test; what it is called with is the silence after which a lease counts as left."""
    monkeypatch.setattr(lock, "BEAT_SECONDS", 1000.0)
    return lambda silence: monkeypatch.setattr(lock, "SILENCE", silence)


def test_the_lease_keeps_a_second_process_out_and_ends_with_silence(bucket, monkeypatch):
    path = storage.place(bucket) / "leased" / "lock"
    with lock.lock_of(path).held():
        assert lock.lock_of(path).taken()
        with pytest.raises(RunLockedError, match=f"process {os.getpid()} on"), lock.lock_of(path).held():
            pass
    assert not path.exists()
    path.write_text(json.dumps({"pid": 1, "host": "gone", "heard": time.time() - 1000, "lease": "x"}))
    assert not lock.lock_of(path).taken()
    with lock.lock_of(path).held():  # left by a crash
        assert "gone" not in lock.lock_of(path).holder()


@pytest.mark.parametrize("conditions", [True, False], ids=["conditions", "none"])
def test_a_driver_that_slept_stops_and_leaves_the_lease_to_the_one_that_took_over(
    bucket, by_hand, monkeypatch, conditions
):
    folder = storage.place(bucket) / f"slept-{conditions}"
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
                    lock.remove_if(first.files.lock, before)
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
    run = Run(storage.place(bucket) / "clock")
    with run.locked():
        by_hand(0.0)
        assert run.lost == ""  # slept, and nobody came
        by_hand(60.0)
        run.files.lock.unlink()
        run._lock.beat()
        assert run.at_work()  # whoever removed it, nobody else has it
        with monkeypatch.context() as patch:
            patch.setattr(lock, "put_if", lambda *_: 1 / 0)
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
    monkeypatch.setattr(lock, "BEAT_SECONDS", 0.05)
    run = Run(storage.place(bucket) / "noticed")
    theirs = json.dumps({"pid": 12, "host": "hostB", "heard": time.time(), "lease": "x"})
    with conditions_of(bucket), run.locked():
        first = storage.read(run.files.lock)
        wait_for(lambda: storage.read(run.files.lock) != first, "a beat")
        assert run.lost == ""
        run.files.lock.write_text(theirs)
        wait_for(lambda: run.lost, "the loss")
        assert run.lost == "process 12 on hostB took the run over"
    assert run.files.lock.read_text() == theirs


@pytest.mark.parametrize("left", [True, False], ids=["silent", "none"])
def test_of_several_that_take_a_lease_one_gets_it(bucket, by_hand, monkeypatch, left):
    path = storage.place(bucket) / f"race-{left}" / "lock"
    put_if = lock.put_if
    with conditions_of(bucket):
        for _ in range(5):
            if left:
                path.write_text(json.dumps({"pid": 1, "host": "gone", "heard": 0, "lease": "x"}))
            looked, ends, written, held, refused = threading.Barrier(4), threading.Barrier(4), [], [], []

            def put(*words, looked=looked, written=written):
                looked.wait(120)  # all have looked before the first writes
                put_if(*words)
                written.append(words)

            def take(ends=ends, held=held, refused=refused):
                try:
                    with lock.lock_of(path).held():
                        held.append(json.loads(path.read_text()))
                        ends.wait(120)
                except RunLockedError as error:
                    refused.append(str(error))
                    ends.wait(120)

            monkeypatch.setattr(lock, "put_if", put)
            threads = [threading.Thread(target=take) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(300)
            assert (len(written), len(held)) == (1, 1)
            assert refused == [f"process {os.getpid()} on {socket.gethostname()}"] * 3
            assert not path.exists()
