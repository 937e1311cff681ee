"""Studies as Ray Jobs: sent to a cluster, which goes on when the sender is switched off."""

import json
import shlex
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from pilotstudy import report
from pilotstudy.errors import InputError, PilotstudyError, nearest
from pilotstudy.files import PACKAGE, is_remote
from pilotstudy.running import Options
from pilotstudy.spec import Study

MARK = "pilotstudy"  # in a job's metadata: the run's name
INSTALL_SECONDS = 3600  # how long a node may take to install what we need
ENDED = ("STOPPED", "SUCCEEDED", "FAILED")


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

        with told():
            self.client = JobSubmissionClient(address)

    def submit(self, study: Study, name: str, runs_dir: str, options: Options, *, install: bool = True) -> str:
        """Sends a study, the package with it; the name of its run. The same name again continues the run.

        `install`: nodes that lack what we need install it, once.
        """
        if any(row["run"] == name and row["state"] not in ENDED for row in self.rows()):
            raise InputError(f"run {name!r} is at work on this cluster: `pilotstudy logs {name}` shows it")
        kept = {MARK: name, "study": report.toml(study.model_dump()), "runs_dir": runs_dir, "options": dump(options)}
        return self._send(kept | {"install": json.dumps(requirements(cloud=is_remote(runs_dir)) if install else [])})

    def resume(self, name: str) -> str:
        """Sends the last job of a run again; what is done is not repeated."""
        kept = self.find(name).metadata or {}
        return self._send({key: kept[key] for key in (MARK, "study", "runs_dir", "options", "install")})

    def _send(self, kept: dict[str, str]) -> str:
        name = kept[MARK]
        words = ["python", "-m", "pilotstudy", "run", "study.toml", "--name", name, "--runs-dir", kept["runs_dir"]]
        for option, value in json.loads(kept["options"]).items():
            words += [option, str(value)]
        environment: dict[str, Any] = {"py_modules": [str(PACKAGE)], "excludes": ["**/__pycache__"]}
        if packages := json.loads(kept["install"]):
            environment |= {"pip": packages, "config": {"setup_timeout_seconds": INSTALL_SECONDS}}
        with tempfile.TemporaryDirectory(prefix="pilotstudy-") as folder, told():
            (Path(folder) / "study.toml").write_text(kept["study"], "utf-8")
            self.client.submit_job(
                entrypoint=shlex.join([*words, "--address", "auto"]),
                submission_id=f"{name}-{time.time_ns() // 1_000_000}",
                metadata=kept,
                runtime_env=environment | {"working_dir": folder},
            )
        return name

    def rows(self) -> list[dict[str, Any]]:
        """All studies that were sent, the newest first."""
        with told():
            found = [(job, job.metadata) for job in self.client.list_jobs() if job.metadata and MARK in job.metadata]
        found.sort(key=lambda pair: -(pair[0].start_time or 0))
        return [
            {
                "run": kept[MARK],
                "state": str(job.status.value),
                "job": job.submission_id,
                "started": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime((job.start_time or 0) / 1000)),
                "runs_dir": kept["runs_dir"],
                "message": " ".join((job.message or "").split())[:120],
            }
            for job, kept in found
        ]

    def find(self, name: str) -> Any:
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
            return str(self.client.get_job_logs(self.find(name).submission_id))

    def follow(self, name: str) -> Iterator[str]:
        """Its output as it comes, until it ends."""
        job, shown = self.find(name).submission_id, 0
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
        job = self.find(name).submission_id
        with told():
            self.client.stop_job(job)
            while not self.client.get_job_status(job).is_terminal():
                time.sleep(0.5)


def requirements(*, cloud: bool) -> list[str]:
    """What we need beside Ray, which a cluster has, and what Ray Tune needs, which it may not have."""
    from packaging.requirements import Requirement

    def of(package: str, extra: str) -> list[Requirement]:
        found = [Requirement(text) for text in metadata.requires(package) or ()]
        return [one for one in found if not one.marker or one.marker.evaluate({"extra": extra})]

    wanted = [*of("pilotstudy", "cloud" if cloud else ""), *of("ray", "tune")]
    return sorted({f"{one.name}{one.specifier}" for one in wanted if one.name != "ray"})


def dump(options: Options) -> str:
    """The options of `pilotstudy run` that say how it is run."""
    found = {
        "--data-dir": options.data_dir,
        "--cpus-per-trial": options.cpus_per_trial,
        "--gpus-per-trial": options.gpus_per_trial or None,
        "--concurrency": options.concurrency,
    }
    return json.dumps({name: value for name, value in found.items() if value is not None})
