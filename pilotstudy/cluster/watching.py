"""Looks after a run while it runs: nodes, budgets, requests to stop."""

import time
from dataclasses import replace
from pathlib import Path

# isort: split
from ray import tune
from ray.experimental.internal_kv import _internal_kv_put
from ray.tune.experiment import Trial

from pilotstudy.cluster import capacity
from pilotstudy.cluster.messages import stop_mark
from pilotstudy.cluster.searcher import StudySearcher
from pilotstudy.errors import NotDoneError, RunLockedError
from pilotstudy.storage import is_remote
from pilotstudy.study.resources import Limits

LOOK_SECONDS = 1.0  # how often a request to stop is looked for; on an object store less often
LOOK_FAR_SECONDS = 5.0
NODES_SECONDS = 5.0  # how often the nodes are counted
STOP_SECONDS = 100.0  # that trials get to save themselves when a run ends early


class Watcher(tune.Callback):
    """Tells the searcher which trials have an actor, and drops what nobody asks Tune for: its statistics of every
    figure of every trial, which it would keep to the end of a study.
    """

    def __init__(self, searcher: StudySearcher):
        self.searcher = searcher

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: object) -> None:
        self.searcher.began(trial.trial_id)

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: object) -> None:
        trial.run_metadata.metric_analysis.clear()
        trial.run_metadata.metric_n_steps.clear()
        trial.run_metadata.last_result = {}


class Stopper(tune.Stopper):
    """Looks after a run while it runs: counts nodes as they come and go, says what it waits for, and ends everything in
    an orderly way on Ctrl-C, `pilotstudy stop`, the end of a budget, a full disk, or another driver on the same run.
    """

    def __init__(self, searcher: StudySearcher, stop_file: Path, limits: Limits):
        self.searcher, self.stop_file, self.limits = searcher, stop_file, limits
        now = time.monotonic()
        self.started = self.looked = self.counted = self.said = self.busy = now
        self.stopped: float | None = None
        self.spent = 0.0  # dollars
        self.machines = 0

    def __call__(self, trial_id: str, result: dict[str, object]) -> bool:
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
        """Looks for a reason to stop, each kind as often as it is worth it."""
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
        searcher, placement = self.searcher, self.searcher.placement
        alive = capacity.alive()
        nodes = [node["Resources"] for node in alive if node["NodeID"] not in searcher.avoided]
        cpus, total = placement.cpus, searcher.director.total
        searcher.gpus = capacity.spread(
            placement.asked or placement.gpus, nodes, cpus, min(placement.limit or total, total)
        )
        searcher.ahead = max([4, *(2 * capacity.fits(node, cpus, searcher.gpus) for node in nodes)])
        # One is always asked for: Tune looks after nothing else while it has no trial, running or waiting.
        most = max(1, capacity.concurrency(replace(placement, gpus=searcher.gpus), nodes, total))
        before, searcher.at_once = searcher.at_once, most
        if searcher.at_once > before and not placement.autoscaled:
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
        placement, waited = self.searcher.placement, (now - self.busy) / capacity.MINUTE
        wanted = f"{len(self.searcher.items) + len(self.searcher.again)} trials want {placement.cpus} CPU" + "s" * (
            placement.cpus > 1
        )
        wanted += f" and {placement.gpus:g} GPU" if placement.gpus else ""
        coming = capacity.starting() if placement.autoscaled else "no node has room"
        if self.searcher.avoided:
            coming += f"; left alone: {', '.join(self.searcher.avoided.values())}"
        self.searcher.screen.say(f"waiting for a node, {waited:.0f} min: {wanted} each; {coming}")
        if waited >= self.limits.wait:
            self.searcher.stop("wait", NotDoneError(f"no node had room within {self.limits.wait:g} minutes; {coming}"))
