"""Slurm and SkyPilot: docker/'s scripts, run with stubs for all that they call."""

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import jsonschema
import pytest

from tests.support.docker_files import DOCKER, read
from tests.support.waiting import LONG, wait_for

STUB = """#!/bin/bash
echo "$(basename "$0") $*" >> "$LOG"
case "$(basename "$0") $1" in
  "hostname -I") echo 10.0.0.7 192.168.0.7 ;;
  "pilotstudy stop") touch "$LOG.stop" ;;
  srun*) while [ "$CODE" -eq 8 ] && [ ! -e "$LOG.stop" ]; do sleep 0.02; done; exit "$CODE" ;;
esac
"""


def batch(folder: Path, code: int, **more: str) -> tuple[subprocess.Popen[bytes], Path]:
    """The batch script as a job of two nodes, stubs for all that it calls: `srun` ends with `code`, 8 once stopped."""
    for name in "ray", "srun", "scontrol", "pilotstudy", "hostname":
        (folder / name).write_text(STUB)
        (folder / name).chmod(0o755)
    (folder / "venv" / "bin").mkdir(parents=True)
    (folder / "venv" / "bin" / "activate").write_text(f"PATH={shlex.quote(str(folder))}:$PATH\n")
    log = folder / "log"
    slurm = {"JOB_ID": "17", "NNODES": "2", "CPUS_PER_TASK": "16", "GPUS_ON_NODE": "4"}
    environment = os.environ | {f"SLURM_{name}": value for name, value in slurm.items()} | more
    environment |= {"LOG": str(log), "CODE": str(code), "VENV": str(folder / "venv"), "RUNS": "/shared/my runs"}
    command = ["bash", str(DOCKER / "slurm.sbatch"), "studies/my-study.toml", "--trials", "64"]
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL), log


def test_slurm_runs_a_study(tmp_path):
    from ray.scripts.scripts import start
    from ray.scripts.symmetric_run import curate_and_validate_ray_start_args

    process, log = batch(tmp_path, code=0, SLURM_RESTART_COUNT="1", PAUSE="0")
    assert process.wait(LONG) == 0
    generate, _, step = log.read_text().splitlines()
    assert generate == "ray get-auth-token --generate"
    ours = "pilotstudy run studies/my-study.toml --trials 64 --address auto --name my-study --runs-dir /shared/my runs"
    theirs = "--address 10.0.0.7:6379 --min-nodes 2 --num-cpus 16 --num-gpus 4"
    assert step == f"srun --cpus-per-task=16 ray symmetric-run {theirs} -- {ours}"
    # What symmetric-run does not take itself it hands to `ray start`.
    left = curate_and_validate_ray_start_args(theirs.split())
    assert left == ["--num-cpus", "16", "--num-gpus", "4"]
    assert {"--num-cpus", "--num-gpus"} <= {flag for parameter in start.params for flag in parameter.opts}


def test_slurm_saves_before_the_limit_and_queues_again(tmp_path):
    process, log = batch(tmp_path, code=8)
    wait_for(lambda: log.exists() and "srun" in log.read_text(), "the step", process=process)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(LONG) == 8
    assert log.read_text().splitlines()[-2:] == [
        "pilotstudy stop my-study --runs-dir /shared/my runs",
        "scontrol requeue 17",
    ]


def test_slurm_does_not_queue_again_what_went_wrong(tmp_path):
    process, log = batch(tmp_path, code=2)
    assert process.wait(LONG) == 2
    assert "requeue" not in log.read_text()


def test_slurms_options():
    text = (DOCKER / "slurm.sbatch").read_text()
    settings = dict(re.findall(r"^#SBATCH --([\w-]+)=?(\S*)$", text, re.M))
    assert {"requeue", "exclusive"} <= set(settings)
    assert settings["signal"].startswith("B:USR1@")  # to the script alone: Ray's processes must outlive it
    assert settings["ntasks-per-node"] == "1"


def test_skypilot():
    (task,) = read("skypilot.yaml")
    assert set(task) == {"name", "workdir", "resources", "envs", "setup", "run"}
    assert task["resources"]["use_spot"]
    assert "L4" in task["resources"]["accelerators"]
    assert "constraints.txt" in task["setup"]
    assert task["envs"]["RUNS"].startswith("s3://")
    for part in "setup", "run":
        assert subprocess.run(["bash", "-n"], input=task[part], text=True, check=False).returncode == 0


def test_skypilots_own_schema_takes_it():
    schemas = pytest.importorskip("sky.utils.schemas", reason="skypilot is not installed")
    (task,) = read("skypilot.yaml")
    jsonschema.validate(task, schemas.get_task_schema())
    jsonschema.validate(task["resources"], schemas.get_resources_schema())
