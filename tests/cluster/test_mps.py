import os
from pathlib import Path


def test_mps_starts_once_and_ends_with_the_run(tmp_path, monkeypatch):
    from pilotstudy.cluster import mps

    control = tmp_path / "bin" / mps.CONTROL
    control.parent.mkdir()
    script = 'echo "$@" "$(cat)" "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_VISIBLE_DEVICES"'
    control.write_text(f"#!/bin/sh\n{script} >> {tmp_path}/log\n")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")  # an actor's own: the daemon must see all
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert not mps.start()  # a node without it
    control.chmod(0o755)
    monkeypatch.setenv("PATH", f"{control.parent}:/usr/bin:/bin")
    for name in "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY":
        monkeypatch.setenv(name, "")
    assert mps.start()
    folder = os.environ["CUDA_MPS_PIPE_DIRECTORY"]
    assert Path(folder).is_dir()
    mps.end()
    assert not Path(folder).exists()
    assert (tmp_path / "log").read_text().splitlines() == [f"-d  {folder} ", f"quit {folder} 3"]
