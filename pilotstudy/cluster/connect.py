"""Connecting to Ray, embedded or a cluster, and keeping what it prints out of sight."""

import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

# Before Ray is imported: no loggers that write files for every trial, no state of Tune's own (ours is the run folder).
os.environ |= {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a trial that diverged or failed has no figures
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000",
    "TUNE_MAX_PENDING_TRIALS_PG": "1000000",  # the searcher itself holds back
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
}

import ray

from pilotstudy.errors import InputError, NotDoneError
from pilotstudy.storage import PACKAGE


@contextmanager
def connected(
    address: str | None, log: Path, *, num_cpus: int | None = None, num_gpus: int | None = None
) -> Iterator[None]:
    """Embedded Ray (with `num_cpus` and `num_gpus` in place of what is there), or the cluster at `address`.

    What Ray and Optuna print goes to the log file.
    """
    if address:
        reachable(address)
    package = None
    if address and "RAY_JOB_CONFIG_JSON_ENV_VAR" not in os.environ:  # a job brings the package with it
        package = {"py_modules": [str(PACKAGE)], "excludes": ["**/__pycache__"]}
    with printing_to(log), connection_errors(address):
        ray.init(
            address=address or "local",
            include_dashboard=False if address is None else None,
            num_cpus=num_cpus,
            num_gpus=num_gpus,
            runtime_env=package,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    try:
        yield
    finally:
        with printing_to(log):
            ray.shutdown()


def reachable(address: str) -> None:
    """Refuses HOST:PORT where nobody listens: Ray itself would try for many minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except (OSError, OverflowError) as error:
            raise InputError(f"no Ray cluster at {address}: {' '.join(str(error).split())[:200]}") from error


@contextmanager
def connection_errors(address: str | None) -> Iterator[None]:
    """Says in one line that a cluster is not there, or does not take the token, or that Ray does not start here."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        if address is None:
            advice = "try again when the machine is less busy, or train without it: --inline"
            raise NotDoneError(f"Ray did not start here ({reason}): {advice}") from error
        raise InputError(f"no Ray cluster at {address}: {reason}") from error


@contextmanager
def printing_to(log: Path) -> Iterator[None]:
    """Sends everything that this process prints, libraries in C included, to the end of a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    outputs = os.dup(1), os.dup(2)
    with open(log, "a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, output in zip((1, 2), outputs, strict=True):
            os.dup2(output, number)
            os.close(output)


def terminal() -> TextIO:
    """stderr as it is now, to show things on while it is sent elsewhere."""
    return os.fdopen(os.dup(2), "w", buffering=1)
