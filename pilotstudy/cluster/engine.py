"""Runs a study as Ray Tune trials: Tune schedules actors, the searcher says what they train, and what if they fail."""

import os
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FrameType

from pilotstudy.cluster.connect import connected, printing_to, terminal  # before Ray is imported

# isort: split
import ray
from ray import tune
from ray.air.execution._internal import RayActorManager
from ray.air.execution._internal.tracked_actor import TrackedActor
from ray.air.execution._internal.tracked_actor_task import TrackedActorTask
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.experimental.internal_kv import _internal_kv_del
from ray.tune.execution import tune_controller
from ray.tune.schedulers import FIFOScheduler
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pilotstudy.cluster import capacity
from pilotstudy.cluster.actor import TrialActor
from pilotstudy.cluster.capacity import Placement, measured_share, placed, shared
from pilotstudy.cluster.early_stopping import ByArm
from pilotstudy.cluster.messages import stop_mark
from pilotstudy.cluster.searcher import StudySearcher
from pilotstudy.cluster.watching import Stopper, Watcher
from pilotstudy.console import message
from pilotstudy.data.dataset import DataSet
from pilotstudy.schedule.conduct import Ended
from pilotstudy.schedule.director import Director
from pilotstudy.schedule.screen import Screen
from pilotstudy.study.resources import Limits

STILL_COSTS = (
    "the cluster at {address} still runs, and costs what it costs: `ray down FILE` (ray up), `kubectl delete "
    "raycluster NAME` (Kubernetes), `sky down NAME` (SkyPilot) or `scancel JOB` (Slurm) ends it"
)


@dataclass(frozen=True)
class RayEngine:
    """Trains on the Ray cluster at `address`, or on one that is started in this process."""

    address: str | None = None

    def __call__(self, director: Director, data: DataSet, limits: Limits, *, quiet: bool) -> Ended:
        run = director.run
        with connected(self.address, run.files.log), terminal() as out:
            try:
                shared(run.files.folder)
                placement = self._placement(director, data, limits)
                most = "up to " if placement.autoscaled else ""
                message(f"run {run.name}: {director.total} trials, {most}{placement.concurrency} at a time")
                with Screen(director, out, quiet) as screen:
                    ended = execute(director, data, placement, screen, limits)
            finally:
                if self.address:
                    message(STILL_COSTS.format(address=self.address))
        if limits.price and not self.address:
            costs = f"this machine goes on costing {limits.price:g} $ an hour until you end it at your provider"
            return replace(ended, afterwards=costs)
        return ended

    @staticmethod
    def _placement(director: Director, data: DataSet, limits: Limits) -> Placement:
        study = director.study
        share = study.resources.gpus_per_trial
        if share == "auto":
            share = measured_share(study, data, limits.wait, message)
        placement = placed(study.resources, share, director.total - director.done)
        if placement.gpus != study.resources.gpus_per_trial:
            message(f"each trial gets {placement.gpus:g} of a GPU")
        return placement


def actor_manager(searcher: StudySearcher) -> type[RayActorManager]:
    """Tune's, which tells the searcher why an actor ended, and survives kills by Ray's memory monitor.

    Tune knows two ways for a call of an actor to fail, an error in it and the death of the actor, and gives up the
    whole study at any other, such as Ray's OutOfMemoryError.
    """

    class ActorManager(RayActorManager):  # type: ignore[misc]
        def _actor_task_failed(self, tracked_actor_task: TrackedActorTask, exception: Exception) -> None:
            searcher.cause = exception
            if isinstance(exception, RayError) and not isinstance(exception, RayActorError | RayTaskError):
                exception = RayActorError(error_msg=str(exception))
            super()._actor_task_failed(tracked_actor_task, exception)

        def _actor_start_failed(self, tracked_actor: TrackedActor, exception: Exception) -> None:
            searcher.cause = exception
            super()._actor_start_failed(tracked_actor, exception)

    return ActorManager


def execute(
    director: Director,
    data: DataSet,
    placement: Placement,
    screen: Screen,
    limits: Limits | None = None,
) -> Ended:
    """Runs all that the director plans, on the Ray that this process is connected to."""
    files = director.run.files
    searcher = StudySearcher(director, placement, screen)
    stopper = Stopper(searcher, files.stop, limits or Limits())

    def interrupt(number: int, frame: FrameType | None) -> None:
        if searcher.stopping == "interrupted":
            os._exit(130)
        searcher.stopping = "interrupted"
        screen.say("interrupted: trials are saving; once more ends at once")

    search = director.study.search
    epochs = director.study.training.epochs
    scheduler = ByArm(epochs, search) if search and search.early_stopping else FIFOScheduler()
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    managers = vars(tune_controller)["RayActorManager"]
    vars(tune_controller)["RayActorManager"] = actor_manager(searcher)
    try:
        with tempfile.TemporaryDirectory(prefix="pilotstudy-") as scratch, printing_to(files.log):
            reference = ray.put(data)
            tune.Tuner(
                tune.with_resources(tune.with_parameters(TrialActor, data=[reference]), placing(placement.cpus)),
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
        if placement.resources.mps:
            end_mps()
        if searcher.stopping != "lost":
            director.save()
    return Ended(searcher.stopping, searcher.error, searcher.devices, stopper.spent)


def placing(cpus: int) -> "Callable[[dict[str, str | float]], tune.PlacementGroupFactory]":
    """Where a trial may go. The function travels to the actors, so it must not make them import this module."""

    def place(config: dict[str, str | float]) -> tune.PlacementGroupFactory:
        bundle = {"CPU": cpus, "GPU": float(config["gpus"])}
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
