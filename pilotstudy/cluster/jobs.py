"""Studies as Ray Jobs: sent to a cluster, which goes on when the sender is switched off."""

import json
import shlex
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pilotstudy.errors import InputError, PilotstudyError, nearest
from pilotstudy.runs.layout import JOB_SERVER
from pilotstudy.storage import PACKAGE, is_remote
from pilotstudy.study.looks import Looks
from pilotstudy.study.resources import Limits
from pilotstudy.study.spec import Study
from pilotstudy.study.toml import toml_text

if TYPE_CHECKING:
    from ray.job_submission import JobDetails

MARK = "pilotstudy"  # in a job's metadata: the run's name
INSTALL_SECONDS = 3600  # how long a node may take to install what we need
AGENT_SECONDS = 60  # that a cluster may take, once it answers, until it takes jobs
ENDED = ("STOPPED", "SUCCEEDED", "FAILED")
# A job's supervisor kills it so many seconds after `stop`; 3 are not enough to save trials to an object store. The
# supervisor reads it from its own environment, which is that of the job's runtime_env.
STOPPING = {"RAY_JOB_STOP_WAIT_TIME_S": "120"}


@contextmanager
def told() -> Iterator[None]:
    """What the cluster refuses, in one line. Ray's own messages may be pages long; the token is in none of them."""
    try:
        yield
    except PilotstudyError:
        raise
    except Exception as error:  # Ray has errors of many kinds for it
        text = f"{type(error).__name__} {error}"
        if "401" in text or "403" in text or "auth" in text.lower():
            raise InputError(
                "the cluster refuses the token: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH)"
            ) from error
        raise InputError(f"the cluster does not answer as expected: {' '.join(text.split())[:300]}") from error


class Jobs:
    """The studies at one cluster's job server, such as http://127.0.0.1:8265."""

    def __init__(self, address: str):
        from ray.job_submission import JobSubmissionClient

        self.address = address
        with told():
            self.client = JobSubmissionClient(address)

    def hint(self, command: str, name: str) -> str:
        """A command about a run of this cluster, for a message."""
        return f"`{shlex.join(['pilotstudy', command, name, '--address', self.address])}`"

    def submit(
        self,
        study: Study,
        name: str,
        runs_dir: str,
        data_dir: str | None = None,
        limits: Limits | None = None,
        *,
        install: bool = True,
        looks: Looks | None = None,
    ) -> str:
        """Sends a study, the package with it; the name of its run. The same name again continues the run.

        `install`: nodes that lack what we need install it, once. `looks`: seeds are added in them.
        """
        everywhere("--runs-dir", runs_dir)
        if any(row["run"] == name and row["state"] not in ENDED for row in self.rows()):
            raise InputError(f"run {name!r} is at work on this cluster: {self.hint('logs', name)} shows it")
        options = ({"--data-dir": data_dir} if data_dir else {}) | limits_of(limits or Limits())
        if looks:
            options |= {"--until-decided": True, "--max-seeds": looks.most}
        kept = {
            MARK: name,
            "study": toml_text(study.model_dump()),
            "runs_dir": runs_dir,
            "options": json.dumps(options),
            "install": json.dumps(requirements(cloud=is_remote(runs_dir)) if install else []),
        }
        return self._send(kept)

    def resume(self, name: str, limits: Limits | None = None) -> str:
        """Sends the last job of a run again, with the limits changed that are given; what is done is not repeated."""
        kept = self.find(name).metadata or {}
        kept = {key: kept[key] for key in (MARK, "study", "runs_dir", "options", "install")}
        kept["options"] = json.dumps(json.loads(kept["options"]) | limits_of(limits or Limits()))
        return self._send(kept)

    def doctor(self, runs_dir: str | None = None, *, install: bool = True) -> list[dict[str, str]]:
        """What `pilotstudy doctor --address auto` says on the cluster."""
        words = ["doctor", "--address", "auto", "--json", *(["--runs-dir", runs_dir] if runs_dir else [])]
        packages = requirements(cloud=bool(runs_dir and is_remote(runs_dir))) if install else []
        job = self._start("doctor", words, packages)
        with told():
            while not self.client.get_job_status(job).is_terminal():
                time.sleep(1)
            lines = str(self.client.get_job_logs(job)).strip().splitlines()
        for line in reversed(lines):
            if line.startswith("[{"):
                rows: list[dict[str, str]] = json.loads(line)
                return rows
        raise InputError(f"the cluster cannot run doctor: {(lines or ['it said nothing'])[-1][:300]}")

    def _send(self, kept: dict[str, str]) -> str:
        name = kept[MARK]
        words = ["run", "study.toml", "--name", name, "--runs-dir", kept["runs_dir"]]
        for option, value in json.loads(kept["options"]).items():
            words += [option] if value is True else [option, str(value)]
        self._start(name, [*words, "--address", "auto"], json.loads(kept["install"]), kept)
        return name

    def _start(self, name: str, words: list[str], packages: list[str], kept: dict[str, str] | None = None) -> str:
        """Sends `pilotstudy WORDS` as a job, the package with it, and the study where there is one; the job's id."""
        environment: dict[str, object] = {"py_modules": [str(PACKAGE)], "excludes": ["**/__pycache__"]}
        environment["env_vars"] = STOPPING | {JOB_SERVER: self.address}
        if packages:
            environment |= {"pip": packages, "config": {"setup_timeout_seconds": INSTALL_SECONDS}}
        with tempfile.TemporaryDirectory(prefix="pilotstudy-") as folder, told():
            (Path(folder) / "study.toml").write_text(kept["study"] if kept else "", "utf-8")
            job = f"{name}-{time.time_ns() // 1_000_000}"
            deadline = time.monotonic() + AGENT_SECONDS
            while True:
                try:
                    sent = self.client.submit_job(
                        entrypoint=shlex.join(["python", "-m", "pilotstudy", *words]),
                        submission_id=job,
                        metadata=kept,
                        runtime_env=environment | {"working_dir": folder},
                    )
                    return str(sent)
                except RuntimeError as error:  # a head that has only just started
                    if "No available agent" not in str(error) or time.monotonic() > deadline:
                        raise
                    time.sleep(2)

    def rows(self) -> list[dict[str, str]]:
        """All studies that were sent, the newest first."""
        with told():
            ours = [(job, job.metadata) for job in self.client.list_jobs() if job.metadata and MARK in job.metadata]
        ours.sort(key=lambda pair: -(pair[0].start_time or 0))
        return [
            {
                "run": kept[MARK],
                "state": str(job.status.value),
                "job": str(job.submission_id),
                "started": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime((job.start_time or 0) / 1000)),
                "runs_dir": kept["runs_dir"],
                "message": " ".join((job.message or "").split())[:120],
            }
            for job, kept in ours
        ]

    def find(self, name: str) -> "JobDetails":
        """The newest job of a run."""
        rows = self.rows()
        for row in rows:
            if name in (row["run"], row["job"]):
                with told():
                    return self.client.get_job_info(row["job"])
        known = list(dict.fromkeys(row["run"] for row in rows))
        raise InputError(f"no run {name!r} on this cluster: {nearest(name, known) if known else 'there are none.'}")

    def logs(self, name: str) -> str:
        with told():
            return str(self.client.get_job_logs(str(self.find(name).submission_id)))

    def follow(self, name: str) -> Iterator[str]:
        """Its output as it comes, until it ends."""
        job, shown = str(self.find(name).submission_id), 0
        while True:
            with told():
                state = self.client.get_job_status(job)
                text = str(self.client.get_job_logs(job))
            yield text[shown:]
            shown = len(text)
            if state.is_terminal():
                return
            time.sleep(1)

    def stop(self, name: str) -> None:
        """Asks it to save and end, and waits until it has."""
        job = str(self.find(name).submission_id)
        with told():
            self.client.stop_job(job)
            while not self.client.get_job_status(job).is_terminal():
                time.sleep(0.5)


def everywhere(option: str, folder: str) -> None:
    """Refuses a folder that is another one on every node: a job's own is a temporary one."""
    if not is_remote(folder) and not PurePosixPath(folder).is_absolute():
        raise InputError(
            f"{option} {folder}: give a URI such as s3://bucket/runs, or the whole path of a folder that all nodes see"
        )


def requirements(*, cloud: bool) -> list[str]:
    """What we need beside Ray, which a cluster has, and what Ray Tune needs, which it may not have.

    In the versions that are installed here, so that nodes which come later train with the same.
    """
    from packaging.requirements import Requirement
    from packaging.version import Version

    def of(package: str, extra: str) -> list[Requirement]:
        required = [Requirement(text) for text in metadata.requires(package) or ()]
        return [one for one in required if not one.marker or one.marker.evaluate({"extra": extra})]

    def pinned(one: Requirement) -> str:
        extras = f"[{','.join(sorted(one.extras))}]" if one.extras else ""
        try:
            version = Version(metadata.version(one.name)).public  # without a label such as +cu132: indices lack those
        except metadata.PackageNotFoundError:
            return f"{one.name}{extras}{one.specifier}"
        return f"{one.name}{extras}=={version}"

    its_own = of("ray", "")
    wanted = [*of("pilotstudy", "cloud" if cloud else ""), *(one for one in of("ray", "tune") if one not in its_own)]
    return sorted({pinned(one) for one in wanted if one.name != "ray"})


def limits_of(limits: Limits) -> dict[str, float]:
    """The options of `pilotstudy run` that say when it ends before it is done, as far as they differ from its own."""
    variables = {
        "--time-budget": limits.time_budget,
        "--max-cost": limits.max_cost,
        "--price": limits.price,
        "--wait": limits.wait if limits.wait != Limits().wait else None,
    }
    return {name: value for name, value in variables.items() if value is not None}
