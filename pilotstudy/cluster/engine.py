"""Runs a study as Ray Tune trials: Tune schedules and restarts actors, the director decides what they train."""

import json
import logging
import os
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from pilotstudy.data.prepared import DataSet
from pilotstudy.director import Director, Item
from pilotstudy.errors import InputError, StorageError
from pilotstudy.files import PACKAGE, is_remote, whole, write
from pilotstudy.screen import Screen
from pilotstudy.spec import Trial

# Before Ray is imported: no loggers that write files for every trial, no state of Tune's own (ours is the run folder).
os.environ |= {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a trial that diverged or failed has no figures
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
}

import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pilotstudy.cluster.actor import TrialActor

TABLE_SECONDS = 2.0  # how often the table of all trials is written
LOOK_SECONDS = 1.0  # how often a request to stop is looked for
MOST_FAILURES = 200  # of one trial's actors, lost nodes included; `actor.MAX_RESTARTS` is for the trial's own


@dataclass(frozen=True)
class Resources:
    cpus: int = 1
    gpus: float = 0.0
    concurrency: int = 1


@contextmanager
def connected(address: str | None, log: Path, **embedded: Any) -> Iterator[None]:
    """Embedded Ray (with `num_cpus` and `num_gpus` in place of what is there), or the cluster at `address`.

    What Ray and Optuna print goes to the log file.
    """
    if address and "RAY_JOB_CONFIG_JSON_ENV_VAR" not in os.environ:  # a job brings the package with it
        embedded["runtime_env"] = {"py_modules": [str(PACKAGE)], "excludes": ["**/__pycache__"]}
    with quiet(log), refused(address):
        ray.init(
            address=address or "local",
            include_dashboard=False if address is None else None,
            **embedded,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    try:
        yield
    finally:
        with quiet(log):
            ray.shutdown()


@contextmanager
def refused(address: str | None) -> Iterator[None]:
    """A cluster that is not there, or that does not take the token, in one line."""
    try:
        yield
    except Exception as error:
        if address is None:
            raise
        raise InputError(f"no Ray cluster at {address}: {' '.join(str(error).split())[:200]}") from error


@contextmanager
def quiet(log: Path) -> Iterator[None]:
    """Sends everything that this process prints, libraries in C included, to the end of a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with open(log, "a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, descriptor in zip((1, 2), kept, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)


def terminal() -> TextIO:
    """stderr as it is now, to show things on while it is sent elsewhere."""
    return os.fdopen(os.dup(2), "w", buffering=1)


def fitting(cpus: int, gpus: float, concurrency: int | None) -> Resources:
    """What a trial gets and how many run at once, refused if the cluster can never give it."""
    alive = [(node["Resources"], 1) for node in ray.nodes() if node["Alive"]]

    def room(nodes: Sequence[tuple[Mapping[str, float], int]]) -> int:
        """How many trials fit on these nodes, a trial on one of them."""
        found = 0
        for resources, count in nodes:
            fits = int(resources.get("CPU", 0) // cpus)
            found += count * (min(fits, int(resources.get("GPU", 0) / gpus + 1e-9)) if gpus else fits)
        return found

    most = max(room(alive), room(may_come()))
    if not most:
        there = ray.cluster_resources()
        raise InputError(
            f"a trial asks for {cpus} CPUs and {gpus:g} GPUs on one node, and none has them: the cluster has "
            f"{there.get('CPU', 0.0):g} CPUs and {there.get('GPU', 0.0):g} GPUs on {len(alive)} nodes"
        )
    return Resources(cpus, gpus, min(most, concurrency or most))


def may_come() -> list[tuple[Mapping[str, float], int]]:
    """The kinds of nodes that an autoscaler may start, with the most there can be of each."""
    from ray._private.state import state

    config = state.get_cluster_config()
    groups = config.node_group_configs if config else ()
    return [(dict(group.resources), group.max_count if group.max_count >= 0 else 1000) for group in groups]


def shared(folder: Path) -> None:
    """Refuses a folder that not every node sees: trials elsewhere would write where nobody reads."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    if is_remote(folder) or (len(nodes) < 2 and not may_come()):
        return
    mark = folder / f".seen-{uuid.uuid4().hex}"
    write(mark, "")

    @ray.remote(num_cpus=0)
    def sees(path: str) -> bool:
        return os.path.exists(path)

    try:
        strategies = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
        path = whole(mark)
        seen = ray.get([sees.options(scheduling_strategy=strategy).remote(path) for strategy in strategies])
    finally:
        mark.unlink(missing_ok=True)
    if not all(seen):
        raise InputError(
            f"{len(seen) - sum(seen)} of {len(nodes)} nodes do not see {folder}: give --runs-dir a folder that all "
            "nodes share, or a URI such as s3://bucket/runs"
        )


def share_for(peak: float, memory: float) -> float:
    """The largest 1/k of a GPU's memory that holds a trial's peak, with a tenth to spare."""
    return 1 / max(1, int(0.9 * memory / max(peak * 1.1, 1.0)))


def measured_share(trial: Trial, data: DataSet) -> float:
    """1/k of a GPU for trials like this one, from the peak memory of a few steps of it on a GPU of the cluster."""

    @ray.remote(num_gpus=1)
    def peak_and_memory(data: DataSet) -> tuple[float, float]:
        import torch

        from pilotstudy.training import Trainer

        trainer = Trainer(trial, data, torch.device("cuda"))
        for step, (x, y) in enumerate(trainer.batches()):
            trainer.step(x, y)
            if step == 20:
                break
        trainer.validation_logits(trainer.modes[-1])
        return torch.cuda.max_memory_reserved(), torch.cuda.get_device_properties(0).total_memory

    if not ray.cluster_resources().get("GPU"):
        raise InputError("--gpus-per-trial auto: the cluster has no GPU")
    return share_for(*ray.get(peak_and_memory.remote(data)))


class StudySearcher(Searcher):
    """What Tune asks for the next trial. Suggestions come from the director, and from Optuna through it.

    Ray's OptunaSearch is not used: it counts a trial that was stopped early as finished with its early value, leaves
    trials without a value running for ever, and proposes other points after a restart.
    """

    def __init__(self, director: Director, resources: Resources, screen: Screen):
        super().__init__(metric="validation_nll", mode="min")
        self.director, self.resources, self.screen = director, resources, screen
        self.items: dict[str, Item] = {}
        self.larger: list[tuple[Item, float]] = []  # ran out of GPU memory: again, with a larger share
        self.session = uuid.uuid4().hex
        self.stopping = ""
        self.error: StorageError | None = None
        self._written = time.monotonic()

    def suggest(self, trial_id: str) -> Any:
        if self.stopping:
            return Searcher.FINISHED
        gpus = self.resources.gpus
        if self.larger:
            item, gpus = self.larger.pop()
        else:
            found = self.director.next()
            if isinstance(found, str):
                return None if found == "wait" else Searcher.FINISHED
            item = found
        self.items[trial_id] = item
        self.screen.started(item)
        search = self.director.study.search
        work = {
            "trial": item.trial.model_dump(),
            "key": item.key,
            "folder": whole(self.director.run.files.folder),
            "session": self.session,
            "threads": self.resources.cpus,
            "gpus": gpus,
            "checkpoint_seconds": self.director.study.resources.checkpoint_seconds,
            "each_epoch": bool(item.phase == "search" and search and search.early_stopping),
        }
        # As text: Tune would keep statistics of every number in it, for every trial.
        return {"arm": item.arm, "phase": item.phase, "gpus": gpus, "work": json.dumps(work)}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self.screen.progress(self.items[trial_id], result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        item = self.items.pop(trial_id, None)
        if item is None:
            return
        status = (result or {}).get("status")
        if status == "storage":
            self.error = StorageError(str((result or {})["error"]))
            self.stopping = "storage"
        elif status == "out of memory" and self._grow(item):
            pass
        elif status in ("finished", "diverged"):
            known = self.director.run.result(item.key)
            if known is None:  # written by a node that came later and does not share the folder
                self.error = StorageError(
                    f"the result of {item.name} is not in {self.director.run.files.folder}: "
                    "the node that trained it does not see that folder; use a shared one, or a URI such as s3://bucket/runs"
                )
                self.stopping = "storage"
            else:
                self._conclude(item, known)
        elif error or status:
            reason = (result or {}).get("error") or f"its actor died more than {MOST_FAILURES} times"
            self._conclude(item, self._note(item, {"status": "failed", "error": reason}))
        elif not self.stopping:  # the scheduler stopped it early
            self._conclude(item, self._note(item, {"status": "stopped", "epochs": (result or {}).get("epoch", 0)}))

    def _grow(self, item: Item) -> bool:
        share = self.resources.gpus * 2 ** (item.retries + 1)
        if not 0 < share <= 1:
            return False
        item.retries += 1
        self.larger.append((item, share))
        self.screen.say(f"{item.name}: out of GPU memory, again with {share:g} of a GPU")
        return True

    def _note(self, item: Item, result: dict[str, Any]) -> dict[str, Any]:
        """The result of a trial that did not reach its end."""
        full = {"trial": item.trial.model_dump(), "fingerprint": self.director.fingerprint, "evaluations": []} | result
        write(self.director.run.files.trial(item.key).result, json.dumps(full, indent=1) + "\n")
        files = self.director.run.files.trial(item.key)
        files.checkpoint.unlink(missing_ok=True)
        files.starts.unlink(missing_ok=True)
        return full

    def _conclude(self, item: Item, result: dict[str, Any]) -> None:
        self.director.conclude(item.key, result, item.retries)
        self.screen.ended(item)
        if time.monotonic() - self._written > TABLE_SECONDS:
            self.director.save()
            self._written = time.monotonic()

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its searcher to restore it later. We never do: the run folder is the state."""
        return {}

    def __deepcopy__(self, memo: Any) -> "StudySearcher":
        return self

    def save(self, checkpoint_path: str) -> None:
        """Nothing to save."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing to restore."""


class ByArm(FIFOScheduler):
    """ASHA among the search's trials of each arm by itself, so that no arm takes another's budget; no other trial is
    ever stopped.
    """

    def __init__(self, epochs: int):
        super().__init__()
        self.epochs = epochs
        self.arms: dict[str, ASHAScheduler] = {}

    def _of(self, trial: Any) -> ASHAScheduler | None:
        if trial.config["phase"] != "search":
            return None
        if trial.config["arm"] not in self.arms:
            self.arms[trial.config["arm"]] = ASHAScheduler(
                time_attr="epoch",
                metric="validation_nll",
                mode="min",
                max_t=self.epochs,
                grace_period=max(1, self.epochs // 8),
                reduction_factor=3,
            )
        return self.arms[trial.config["arm"]]

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        if asha := self._of(trial):
            asha.on_trial_add(tune_controller, trial)

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        asha = self._of(trial)
        if asha is None or "validation_nll" not in result:
            return str(TrialScheduler.CONTINUE)
        return str(asha.on_trial_result(tune_controller, trial, result))

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        asha = self._of(trial)
        if asha is not None and "validation_nll" in result:
            asha.on_trial_complete(tune_controller, trial, result)


class Forget(tune.Callback):
    """Tune keeps statistics of every figure of every trial to the end of a study; nobody asks it for them."""

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        trial.run_metadata.metric_analysis.clear()
        trial.run_metadata.metric_n_steps.clear()
        trial.run_metadata.last_result = {}


class Stopper(tune.Stopper):
    """Ends everything in an orderly way: on Ctrl-C, `pilotstudy stop`, the end of the time budget, a full disk."""

    def __init__(self, searcher: StudySearcher, stop_file: Path, deadline: float | None):
        self.searcher, self.stop_file, self.deadline = searcher, stop_file, deadline
        self.looked = 0.0

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        searcher = self.searcher
        if not searcher.stopping and time.monotonic() - self.looked > LOOK_SECONDS:
            self.looked = time.monotonic()
            if self.stop_file.exists():
                searcher.stopping = "stopped"
        if not searcher.stopping and self.deadline and time.monotonic() > self.deadline:
            searcher.stopping = "time"
        return bool(searcher.stopping)


def execute(
    director: Director,
    data: DataSet,
    resources: Resources,
    screen: Screen,
    *,
    time_budget: float | None = None,
) -> str:
    """Runs all that the director plans. "" when it is done, else why it ended: interrupted, stopped or time."""
    files = director.run.files
    searcher = StudySearcher(director, resources, screen)
    stopper = Stopper(searcher, files.stop, time.monotonic() + time_budget if time_budget else None)

    def interrupt(number: int, frame: Any) -> None:
        if searcher.stopping == "interrupted":
            os._exit(130)
        searcher.stopping = "interrupted"
        screen.say("interrupted: saving; once more ends at once")

    search = director.study.search
    scheduler = ByArm(director.study.training.epochs) if search and search.early_stopping else FIFOScheduler()
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with tempfile.TemporaryDirectory(prefix="pilotstudy-") as scratch, quiet(files.log):
            reference = ray.put(data)
            cpus = resources.cpus  # a plain number: what the actors unpickle must not make them import this module
            trainable = tune.with_resources(
                tune.with_parameters(TrialActor, data=[reference]),
                lambda config: tune.PlacementGroupFactory([{"CPU": cpus, "GPU": config["gpus"]}]),
            )
            tune.Tuner(
                trainable,
                tune_config=tune.TuneConfig(
                    search_alg=searcher,
                    scheduler=scheduler,
                    num_samples=-1,
                    reuse_actors=True,
                    max_concurrent_trials=resources.concurrency,
                ),
                run_config=tune.RunConfig(
                    name=director.run.name,
                    storage_path=scratch,
                    verbose=0,
                    stop=stopper,
                    callbacks=[Forget()],
                    failure_config=tune.FailureConfig(max_failures=MOST_FAILURES),
                ),
            ).fit()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        director.save()
    if searcher.error:
        raise searcher.error
    return searcher.stopping
