"""A run's folder: who holds it, and what its trials are called."""

import pytest

from pilotstudy.runs.folder import Run


def test_a_second_process_is_refused(tmp_path):
    from pilotstudy.errors import RunLockedError

    run = Run(tmp_path / "run")
    with run.locked():
        assert run.at_work()
        assert run.lost == ""
        with pytest.raises(RunLockedError, match=r"process \d+ on "), Run(tmp_path / "run").locked():
            pass
    assert not run.at_work()
    run.files.lock.write_text('{"pid": 1, "host": "gone"}')  # left by a crash: the lock itself ended with its process
    with run.locked():
        pass
