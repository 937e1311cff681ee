"""What a trial gets, how many fit on the nodes that are there or may come, and which nodes those are."""

import json
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

import ray
from ray.exceptions import RayTaskError
from ray.experimental.internal_kv import _internal_kv_get
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pilotstudy.data.dataset import DataSet
from pilotstudy.errors import InputError, NotDoneError, PilotstudyError
from pilotstudy.storage import absolute, is_remote, write
from pilotstudy.study.budget import fixed_trial
from pilotstudy.study.resources import Resources
from pilotstudy.study.spec import Study, Trial

if TYPE_CHECKING:
    from ray.autoscaler.v2.schema import ClusterStatus

MOST_ON_A_GPU = 8  # trials that share one: more only wait for each other
CONTEXT = 0.5 * 2**30  # bytes of a GPU that CUDA takes for each process, before any tensor
AUTOSCALED = 64  # trials at once that an autoscaler is asked to make room for, unless the user says
MINUTE = 60.0


@dataclass(frozen=True)
class Placement:
    """What each trial gets on the nodes that are there now, and how many run at once."""

    resources: Resources  # as the study asks for them
    asked: float = 0.0  # the share of a GPU that was asked for, or measured
    gpus: float = 0.0  # what it is given: may be more, see `spread`
    concurrency: int = 1
    autoscaled: bool = False

    @property
    def cpus(self) -> int:
        return self.resources.cpus_per_trial

    @property
    def limit(self) -> int | None:
        """The user's own limit to how many run at once."""
        return self.resources.concurrency


Node = Mapping[str, float]  # its resources by name


class NodeInfo(TypedDict, total=False):
    """What Ray says of a node, as far as we ask."""

    NodeID: str
    Alive: bool
    Resources: Node
    NodeManagerAddress: str
    NodeManagerPort: int
    Labels: Mapping[str, str]


def alive() -> list[NodeInfo]:
    return [node for node in ray.nodes() if node["Alive"]]


def fits(node: Node, cpus: int, gpus: float) -> int:
    """How many trials fit on a node."""
    most = int(node.get("CPU", 0) // cpus)
    return min(most, int(node.get("GPU", 0) / gpus + 1e-9)) if gpus else most


def room(nodes: Sequence[Node], cpus: int, gpus: float) -> int:
    return sum(fits(node, cpus, gpus) for node in nodes)


def placed(resources: Resources, share: float, trials: int = 1_000_000) -> Placement:
    """What a trial gets and how many run at once, refused if the cluster can never give it.

    `share`: of a GPU, for each trial. `trials`: how many there are.
    """
    cpus, limit = resources.cpus_per_trial, resources.concurrency
    nodes = [node["Resources"] for node in alive()]
    given = spread(share, nodes, cpus, min(limit or trials, trials))
    placement = Placement(resources, share, given, autoscaled=autoscales())
    at_once = concurrency(placement, nodes, trials)
    if not at_once:
        total = ray.cluster_resources()
        raise InputError(
            f"a trial asks for {cpus} CPUs and {share:g} GPUs on one node, and none has them: the cluster has "
            f"{total.get('CPU', 0.0):g} CPUs and {total.get('GPU', 0.0):g} GPUs on {len(nodes)} nodes"
        )
    return replace(placement, concurrency=at_once)


def concurrency(placement: Placement, nodes: Sequence[Node], trials: int) -> int:
    """How many trials may run or wait for a place: as many as fit, or as an autoscaler is asked for."""
    most = room(nodes, placement.cpus, placement.gpus)
    if placement.autoscaled:
        most = max(most, min(trials, placement.limit or AUTOSCALED))
    return min(most, placement.limit or most)


def spread(share: float, nodes: Sequence[Node], cpus: int, trials: int) -> float:
    """A share of a GPU with which trials use all of them.

    Ray fills one GPU before the next. With shares so small that the CPUs, or the trials, run out first, the last GPUs
    would stay idle: then each trial is given more of one.
    """
    with_gpus = [node for node in nodes if node.get("GPU")]
    if not 0 < share < 1 or not with_gpus:
        return share
    all_gpus = sum(node["GPU"] for node in with_gpus)
    on_one = [int(node.get("CPU", 0) // cpus // node["GPU"]) for node in with_gpus]
    wanted = min(round(1 / share), *on_one, -(-trials // int(all_gpus)))
    return 1 / max(1, wanted)


def autoscales() -> bool:
    """Whether the cluster has an autoscaler that starts nodes.

    Version 2 of Ray's runs only where it is asked for. Of version 1 every head runs the monitor: without a cluster file
    it names each node after itself, with one after the kinds of nodes in that file.
    """
    names = (_report().get("node_type_mapping") or {}).values()
    return _status() is not None or any(not str(name).startswith("node_") for name in names)


def _status() -> "ClusterStatus | None":
    """The state of autoscaler v2, or None where it is not running."""
    from ray.autoscaler.v2.sdk import get_cluster_status

    try:
        status = get_cluster_status(ray.get_runtime_context().gcs_address, timeout=10)
    except Exception:  # a head of another version, or one that is busy
        return None
    return status if status.stats.autoscaler_version not in (None, "0") else None


class AutoscalerReport(TypedDict, total=False):
    """What autoscaler v1 says of itself, as far as we ask: kinds of nodes, and nodes as (address, kind, ..)."""

    node_type_mapping: dict[str, str]
    pending_launches: dict[str, int]
    pending_nodes: list[tuple[str, ...]]
    failed_nodes: list[tuple[str, ...]]


def _report() -> AutoscalerReport:
    try:
        content = json.loads(_internal_kv_get(b"__autoscaling_status") or b"{}")
    except ValueError:
        return {}
    return cast(AutoscalerReport, content.get("autoscaler_report") or {})


def starting() -> str:
    """What the autoscaler is starting, in a few words."""
    status = _status()
    if status is not None:
        coming = [f"{one.count} × {one.ray_node_type_name}" for one in status.pending_launches]
        coming += [one.ray_node_type_name for one in status.pending_nodes]
        failed = [f"{one.ray_node_type_name} ({one.details})" for one in status.failed_launches]
    else:
        report = _report()
        coming = [f"{count} × {name}" for name, count in (report.get("pending_launches") or {}).items()]
        coming += [str(node[1]) for node in report.get("pending_nodes") or ()]
        failed = [str(node[1]) for node in report.get("failed_nodes") or ()]
    said = f"starting: {', '.join(coming)}" if coming else "no node is starting"
    return said + (f"; failed to start: {', '.join(failed)[:200]}" if failed else "")


def shared(folder: Path) -> None:
    """Refuses a folder that not every node sees: trials elsewhere would write where nobody reads."""
    nodes = alive()
    if is_remote(folder) or len(nodes) < 2:
        return
    mark = folder / f".seen-{uuid.uuid4().hex}"
    write(mark, "")

    @ray.remote(num_cpus=0)
    def sees(path: str) -> bool:
        return os.path.exists(path)

    try:
        strategies = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
        path = absolute(mark)
        seen = ray.get([sees.options(scheduling_strategy=strategy).remote(path) for strategy in strategies])
    finally:
        mark.unlink(missing_ok=True)
    if not all(seen):
        raise InputError(
            f"{len(seen) - sum(seen)} of {len(nodes)} nodes do not see {folder}: give --runs-dir a folder that all "
            "nodes share, or a URI such as s3://bucket/runs"
        )


def share_for(peak: float, memory: float) -> float:
    """The largest 1/k of a GPU's memory that holds a trial's peak and its CUDA context, with a tenth to spare."""
    return 1 / max(1, min(MOST_ON_A_GPU, int(0.9 * memory / (peak * 1.1 + CONTEXT))))


def peak_and_memory(trials: Sequence[Trial], data: DataSet) -> tuple[float, float]:
    """The most bytes of this node's GPU that a few steps of any of these trials take, and how many it has."""
    import torch

    from pilotstudy.trial import device
    from pilotstudy.trial.trainer import Trainer

    where = device.choose("cuda")
    for trial in trials:
        trainer = Trainer(trial, data, where)
        for step, (x, y) in enumerate(trainer.batches()):
            trainer.step(x, y)
            if step == 20:
                break
        trainer.validation_logits_prepared(trainer.modes[-1])
    return torch.cuda.max_memory_reserved(where), torch.cuda.get_device_properties(where).total_memory


def measured_share(study: Study, data: DataSet, wait: float, say: Callable[[str], None]) -> float:
    """1/k of a GPU for trials of this study, from the peak memory of a few steps of each on a GPU of the cluster."""

    trials = [fixed_trial(study, arm, 0) for arm in study.arms]

    @ray.remote(num_gpus=1)
    def measure(data: "list[ray.ObjectRef[DataSet]]") -> tuple[float, float]:
        from pilotstudy.cluster.capacity import peak_and_memory
        from pilotstudy.study.reading import load_uses

        load_uses(study)
        return peak_and_memory(trials, ray.get(data[0]))

    if not ray.cluster_resources().get("GPU") and not autoscales():
        raise InputError("--gpus-per-trial auto: the cluster has no GPU")
    measuring = measure.remote([ray.put(data)])
    for minute in range(max(1, round(wait))):
        ready, _ = ray.wait([measuring], timeout=MINUTE)
        if ready:
            try:
                return share_for(*ray.get(measuring))
            except RayTaskError as error:
                cause = error.cause
                raise (
                    cause if isinstance(cause, PilotstudyError) else InputError(f"--gpus-per-trial auto: {cause}")
                ) from error
        say(f"waiting for a GPU to measure a trial on, {minute + 1} min; {starting()}")
    raise NotDoneError(f"no GPU came within {wait:g} minutes; {starting()}")
