"""What is sent to a cluster's job server, seen by a client that only writes down."""

import json
import re
import shlex
import tomllib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from pilotstudy.cluster.jobs import Jobs, requirements
from pilotstudy.errors import InputError
from pilotstudy.study import reading
from pilotstudy.study.looks import plan_looks
from pilotstudy.study.resources import Limits


class Client:
    """Ray's, as far as we use it."""

    def __init__(self, address: str):
        self.sent: list[dict] = []
        self.state, self.log = "RUNNING", ""

    def submit_job(self, **words) -> str:
        folder = Path(words["runtime_env"]["working_dir"])
        self.sent.append(words | {"study": (folder / "study.toml").read_text()})
        return words["submission_id"]

    def list_jobs(self) -> list:
        status = SimpleNamespace(value=self.state)
        return [
            SimpleNamespace(
                status=status,
                submission_id=one["submission_id"],
                metadata=one["metadata"],
                start_time=number,
                message="",
            )
            for number, one in enumerate(self.sent)
        ]

    def get_job_info(self, job: str):
        return next(one for one in self.list_jobs() if one.submission_id == job)

    def get_job_status(self, job: str):
        return SimpleNamespace(is_terminal=lambda: True)

    def get_job_logs(self, job: str) -> str:
        return self.log


@pytest.fixture
def jobs(monkeypatch) -> Jobs:
    monkeypatch.setattr("ray.job_submission.JobSubmissionClient", Client)
    return Jobs("http://nowhere")


def command(sent: dict) -> list[str]:
    words = shlex.split(sent["entrypoint"])
    assert words[:3] == ["python", "-m", "pilotstudy"]
    return words[3:]


STUDY = reading.read_study("quickstart")


def test_everything_travels(jobs):
    asked = {"cpus_per_trial": 2, "gpus_per_trial": 1 / 3, "concurrency": 8, "mps": True}
    study = STUDY.model_copy(update={"resources": STUDY.resources.changed(asked)})
    limits = Limits(time_budget=3600, max_cost=5, price=0.7, wait=10)
    assert jobs.submit(study, "mine", "s3://bucket/runs", "/data", limits) == "mine"
    (sent,) = jobs.client.sent
    assert command(sent) == [
        *("run", "study.toml", "--name", "mine", "--runs-dir", "s3://bucket/runs"),
        *("--data-dir", "/data"),
        *("--time-budget", "3600", "--max-cost", "5", "--price", "0.7", "--wait", "10", "--address", "auto"),
    ]
    assert reading.validate_study(tomllib.loads(sent["study"]), "sent") == study  # with what each trial is given
    environment = sent["runtime_env"]
    # What its messages name as the way to it is the address here.
    assert environment["env_vars"] == {"RAY_JOB_STOP_WAIT_TIME_S": "120", "PILOTSTUDY_JOB_SERVER": "http://nowhere"}
    assert environment["py_modules"][0].endswith("pilotstudy")
    assert f"optuna=={metadata.version('optuna')}" in environment["pip"]
    assert all(isinstance(value, str) for value in sent["metadata"].values())  # Ray takes nothing else


def test_looks_travel_and_resume_sends_them_again(jobs):
    """The study goes as it is: the command there plans the same looks."""
    study, looks = plan_looks(STUDY, 8)
    jobs.submit(STUDY, "mine", "/runs", looks=looks)
    jobs.client.state = "STOPPED"
    jobs.resume("mine")
    first, again = map(command, jobs.client.sent)
    assert first == again
    assert first[-5:] == ["--until-decided", "--max-seeds", "8", "--address", "auto"]
    sent = reading.validate_study(tomllib.loads(jobs.client.sent[0]["study"]), "sent")
    assert plan_looks(sent, 8) == (study, looks)


def test_what_is_not_said_is_not_sent(jobs):
    jobs.submit(STUDY, "mine", "/runs", install=False)
    (sent,) = jobs.client.sent
    assert command(sent) == ["run", "study.toml", "--name", "mine", "--runs-dir", "/runs", "--address", "auto"]
    assert "pip" not in sent["runtime_env"]


def test_resume_sends_the_same_again_with_new_limits(jobs):
    jobs.submit(STUDY, "mine", "/runs", None, Limits(time_budget=60, max_cost=1, price=0.5))
    with pytest.raises(InputError, match="at work"):
        jobs.submit(STUDY, "mine", "/runs")
    jobs.client.state = "STOPPED"
    jobs.resume("mine")
    jobs.resume("mine", Limits(max_cost=2, price=0.7))
    first, again, changed = map(command, jobs.client.sent)
    assert first == again
    assert [*changed[:-8], "--time-budget", "60", "--max-cost", "2", "--price", "0.7", "--address", "auto"] == [
        *first[:-8],
        *changed[-8:],
    ]


@pytest.mark.parametrize("folder", ["runs", "./runs", "~/runs", "../runs", ""])
def test_a_relative_folder_is_refused(jobs, folder):
    with pytest.raises(InputError, match=r"--runs-dir .*s3://bucket/runs, or the whole path"):
        jobs.submit(STUDY, "mine", folder)
    assert not jobs.client.sent


def test_nodes_install_the_senders_versions(monkeypatch):
    installed = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "2.15.0+cu132" if name == "torch" else installed(name))
    pins = requirements(cloud=True)
    assert all(re.fullmatch(r"[\w.-]+(\[[\w,]+\])?==[\w.!]+", pin) for pin in pins), pins
    names = {re.split(r"[=\[]", pin)[0] for pin in pins}
    assert {"torch", "torchvision", "numpy", "optuna", "pydantic", "pyarrow", "pandas", "s3fs"} <= names
    assert not {"ray", "protobuf", "click"} & names  # a cluster has Ray, and what Ray itself needs
    assert "torch==2.15.0" in pins
    assert "s3fs" not in {pin.split("==")[0] for pin in requirements(cloud=False)}


def test_doctor_through_the_job_server(jobs):
    rows = [{"what": "cluster", "state": "works", "found": "1 node", "what to do": ""}]
    jobs.client.log = f"Running entrypoint for job\nsome warning\n{json.dumps(rows)}\n"
    assert jobs.doctor("s3://bucket/runs", install=False) == rows
    (sent,) = jobs.client.sent
    assert command(sent) == ["doctor", "--address", "auto", "--json", "--runs-dir", "s3://bucket/runs"]
    assert jobs.rows() == []  # it is no study
    jobs.client.log = "bash: python: command not found\n"
    with pytest.raises(InputError, match="cannot run doctor: bash: python: command not found"):
        jobs.doctor()
