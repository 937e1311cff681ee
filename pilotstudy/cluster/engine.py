"""Runs a study as Ray Tune trials: Tune schedules actors, the searcher says what they train, and what if they fail."""

import os
import signal
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilotstudy.cluster.connect import connected, quiet, terminal  # before Ray is imported

# isort: split
import ray
from ray import tune
from ray.air.execution._internal import RayActorManager
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_put
from ray.tune.execution import tune_controller
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pilotstudy.cluster import capacity
from pilotstudy.cluster.actor import TrialActor, slice_seconds, stop_mark
from pilotstudy.cluster.capacity import Resources, fitting, measured_share, share_for, shared
from pilotstudy.cluster.searcher import StudySearcher
from pilotstudy.data.prepared import DataSet
from pilotstudy.director import Director
from pilotstudy.errors import NotDoneError, RunLockedError
from pilotstudy.files import is_remote
from pilotstudy.screen import Screen

if TYPE_CHECKING:
    from pilotstudy.running import Limits

__all__ = [
    "Resources",
    "StudySearcher",
    "connected",
    "execute",
    "fitting",
    "measured_share",
    "share_for",
    "shared",
    "slice_seconds",
    "terminal",
]

LOOK_SECONDS = 1.0  # how often a request to stop is looked for; on an object store less often
LOOK_FAR_SECONDS = 5.0
NODES_SECONDS = 5.0  # how often the nodes are counted
STOP_SECONDS = 100.0  # that trials get to save themselves when a run ends early


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


class Watcher(tune.Callback):
    """Tells the searcher which trials have an actor, and drops what nobody asks Tune for: its statistics of every
    figure of every trial, which it would keep to the end of a study.
    """

    def __init__(self, searcher: StudySearcher):
        self.searcher = searcher

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.searcher.running.add(trial.trial_id)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        trial.run_metadata.metric_analysis.clear()
        trial.run_metadata.metric_n_steps.clear()
        trial.run_metadata.last_result = {}


class Stopper(tune.Stopper):
    """Looks after a run while it runs: counts nodes as they come and go, says what it waits for, and ends everything in
    an orderly way on Ctrl-C, `pilotstudy stop`, the end of a budget, a full disk, or another driver on the same run.
    """

    def __init__(self, searcher: StudySearcher, stop_file: Path, limits: "Limits"):
        self.searcher, self.stop_file, self.limits = searcher, stop_file, limits
        now = time.monotonic()
        self.started = self.looked = self.counted = self.said = self.busy = now
        self.stopped: float | None = None
        self.spent = 0.0  # dollars
        self.machines = 0

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        """Whether to end now. Trials that run are first told to save, and get the time for it."""
        now = time.monotonic()
        if not self.searcher.stopping:
            self.look(now)
        if not self.searcher.stopping:
            return False
        if self.searcher.stopping in ("lost", "storage"):  # nothing may, or can, be written
            return True
        if self.stopped is None:
            self.stopped = now
            _internal_kv_put(stop_mark(self.searcher.session), b"1")
        return not self.searcher.running or now - self.stopped > STOP_SECONDS

    def look(self, now: float) -> None:
        searcher, limits = self.searcher, self.limits
        run = searcher.director.run
        if run.lost:
            searcher.stop("lost", RunLockedError(f"{run.lost}; this process ends, and what it has finished is kept"))
        if now - self.looked > (LOOK_FAR_SECONDS if is_remote(self.stop_file) else LOOK_SECONDS):
            self.looked = now
            if self.stop_file.exists():
                searcher.stopping = "stopped"
        if limits.time_budget and now - self.started > limits.time_budget:
            searcher.stopping = "time"
        if now - self.counted > NODES_SECONDS:
            self.count(now)
        if searcher.running:
            self.busy = now
        elif (
            (searcher.items or searcher.again)
            and now - self.busy > capacity.MINUTE
            and now - self.said > capacity.MINUTE
        ):
            self.wait(now)

    def count(self, now: float) -> None:
        """Nodes that have come get trials; those that have gone are not counted on. And what they cost."""
        searcher, resources = self.searcher, self.searcher.resources
        alive = capacity.alive()
        nodes = [node["Resources"] for node in alive if node["NodeID"] not in searcher.avoided]
        cpus, total = resources.cpus, searcher.director.total
        searcher.gpus = capacity.spread(
            resources.asked or resources.gpus, nodes, cpus, min(resources.limit or total, total)
        )
        searcher.ahead = max([4, *(2 * capacity.fits(node, cpus, searcher.gpus) for node in nodes)])
        # One is always asked for: Tune looks after nothing else while it has no trial, running or waiting.
        most = max(1, capacity.concurrency(replace(resources, gpus=searcher.gpus), nodes, total))
        before, searcher.at_once = searcher.at_once, most
        if searcher.at_once > before and not resources.autoscaled:
            searcher.screen.say(f"{searcher.at_once} trials at a time now: nodes have come")
        # Those that are left alone are paid for too.
        self.machines = sum(bool(capacity.fits(node["Resources"], cpus, searcher.gpus)) for node in alive)
        self.spent += self.machines * (self.limits.price or 0.0) * (now - self.counted) / 3600
        self.counted = now
        if self.limits.max_cost is not None and self.spent >= self.limits.max_cost:
            searcher.stopping = "cost"

    def wait(self, now: float) -> None:
        """Nothing runs: say why, and give up after a while."""
        self.said = now
        resources, waited = self.searcher.resources, (now - self.busy) / capacity.MINUTE
        wanted = f"{len(self.searcher.items) + len(self.searcher.again)} trials want {resources.cpus} CPU" + "s" * (
            resources.cpus > 1
        )
        wanted += f" and {resources.gpus:g} GPU" if resources.gpus else ""
        coming = capacity.starting() if resources.autoscaled else "no node has room"
        if self.searcher.avoided:
            coming += f"; left alone: {', '.join(self.searcher.avoided.values())}"
        self.searcher.screen.say(f"waiting for a node, {waited:.0f} min: {wanted} each; {coming}")
        if waited >= self.limits.wait:
            self.searcher.stop("wait", NotDoneError(f"no node had room within {self.limits.wait:g} minutes; {coming}"))


def actor_manager(searcher: StudySearcher) -> type[RayActorManager]:
    """Tune's, which tells the searcher why an actor ended, and survives kills by Ray's memory monitor.

    Tune knows two ways for a call of an actor to fail, an error in it and the death of the actor, and gives up the
    whole study at any other, such as Ray's OutOfMemoryError.
    """

    class ActorManager(RayActorManager):  # type: ignore[misc]
        def _actor_task_failed(self, tracked_actor_task: Any, exception: Exception) -> None:
            searcher.cause = exception
            if isinstance(exception, RayError) and not isinstance(exception, RayActorError | RayTaskError):
                exception = RayActorError(error_msg=str(exception))
            super()._actor_task_failed(tracked_actor_task, exception)

        def _actor_start_failed(self, tracked_actor: Any, exception: Exception) -> None:
            searcher.cause = exception
            super()._actor_start_failed(tracked_actor, exception)

    return ActorManager


def execute(
    director: Director,
    data: DataSet,
    resources: Resources,
    screen: Screen,
    limits: "Limits | None" = None,
) -> StudySearcher:
    """Runs all that the director plans. What it gives back says why it ended early, if it did: `stopping`, `error`."""
    from pilotstudy.running import Limits

    files = director.run.files
    searcher = StudySearcher(director, resources, screen)
    stopper = Stopper(searcher, files.stop, limits or Limits())

    def interrupt(number: int, frame: Any) -> None:
        if searcher.stopping == "interrupted":
            os._exit(130)
        searcher.stopping = "interrupted"
        screen.say("interrupted: trials are saving; once more ends at once")

    search = director.study.search
    scheduler = ByArm(director.study.training.epochs) if search and search.early_stopping else FIFOScheduler()
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    managers = vars(tune_controller)["RayActorManager"]
    vars(tune_controller)["RayActorManager"] = actor_manager(searcher)
    try:
        with tempfile.TemporaryDirectory(prefix="pilotstudy-") as scratch, quiet(files.log):
            reference = ray.put(data)
            tune.Tuner(
                tune.with_resources(tune.with_parameters(TrialActor, data=[reference]), placing(resources.cpus)),
                tune_config=tune.TuneConfig(
                    search_alg=searcher,
                    scheduler=scheduler,
                    num_samples=-1,
                    reuse_actors=True,
                ),
                run_config=tune.RunConfig(
                    name=director.run.name,
                    storage_path=scratch,
                    verbose=0,
                    stop=stopper,
                    callbacks=[Watcher(searcher)],
                    failure_config=tune.FailureConfig(max_failures=0),
                ),
            ).fit()
    finally:
        vars(tune_controller)["RayActorManager"] = managers
        for number, handler in before.items():
            signal.signal(number, handler)
        _internal_kv_del(stop_mark(searcher.session))
        if resources.mps:
            end_mps()
        if searcher.stopping != "lost":
            director.save()
    searcher.spent = stopper.spent
    return searcher


def placing(cpus: int) -> Any:
    """Where a trial may go. The function travels to the actors, so it must not make them import this module."""

    def place(config: dict[str, Any]) -> tune.PlacementGroupFactory:
        bundle = {"CPU": cpus, "GPU": config["gpus"]}
        if not config["avoid"]:
            return tune.PlacementGroupFactory([bundle])
        elsewhere = {"ray.io/node-id": f"!in({config['avoid']})"}
        return tune.PlacementGroupFactory([bundle], bundle_label_selector=[elsewhere])

    return place


def end_mps() -> None:
    """NVIDIA's MPS ends with the run that started it, on every node that is still there."""

    @ray.remote(num_cpus=0)
    def end() -> None:
        from pilotstudy.cluster import mps

        mps.end()

    nodes = [node["NodeID"] for node in capacity.alive() if node["Resources"].get("GPU")]
    ending = [
        end.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=True)).remote() for node in nodes
    ]
    ray.wait(ending, num_returns=len(ending), timeout=30) if ending else None
