"""A study on an object store, over HTTP, against a server that the test starts."""

import json
import signal
import subprocess
import sys
import time

import pytest

from pilotstudy import storage
from pilotstudy.runs.folder import Run
from tests.support import small_study
from tests.support.waiting import LONG, wait_for


@pytest.mark.long
def test_a_study_on_a_store_survives_and_ends_as_on_a_disk(bucket, tmp_path):
    small_study.prepare(tmp_path)
    local = small_study.start(tmp_path, "local")
    words = [sys.executable, "-m", "pilotstudy", "run", str(tmp_path / "chaos.toml"), "--name", "far", "-q"]
    command = [*words, "--concurrency", "1", "--runs-dir", bucket]
    assert local.wait(LONG) == 0
    run = Run(storage.place(bucket) / "far")
    with small_study.slowed(tmp_path):
        process = subprocess.Popen(command)
        wait_for(lambda: len(list(run.files.results.glob("*.json"))) >= 3, "three results", LONG, process=process)
        second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONG)
        assert second.returncode == 7
        process.send_signal(signal.SIGKILL)
        process.wait()
    lock = run.files.lock  # nobody renews it any more: as if a minute had gone by
    lock.write_text(json.dumps(json.loads(lock.read_text()) | {"heard": time.time() - 1000}))
    assert subprocess.run(command, check=False, timeout=LONG).returncode == 0
    results = small_study.results(tmp_path, "local")
    assert len(results) == 12
    for key, expected in results.items():
        content = json.loads(run.files.trial(key).result.read_text())
        assert {name: content[name] for name in expected} == expected
    assert not list(run.files.checkpoints.glob("*"))
