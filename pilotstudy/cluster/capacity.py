"""What a trial gets, how many fit on the nodes that are there or may come, and which nodes those are."""

import json
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayTaskError
from ray.experimental.internal_kv import _internal_kv_get
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pilotstudy.data.prepared import DataSet
from pilotstudy.errors import InputError, NotDoneError, PilotstudyError
from pilotstudy.files import is_remote, whole, write
from pilotstudy.spec import Trial

MOST_ON_A_GPU = 8  # trials that share one: more only wait for each other
CONTEXT = 0.5 * 2**30  # bytes of a GPU that CUDA takes for each process, before any tensor
AUTOSCALED = 64  # trials at once that an autoscaler is asked to make room for, unless the user says
MINUTE = 60.0


@dataclass(frozen=True)
class Resources:
    """What a trial gets, and how many run at once; `limit` is the user's own limit to that."""

    cpus: int = 1
    gpus: float = 0.0
    concurrency: int = 1
    limit: int | None = None
    autoscaled: bool = False
    mps: bool = False
    asked: float = 0.0  # the share of a GPU that was asked for; `gpus` may be more, see `spread`


Node = Mapping[str, float]  # its resources by name


def alive() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def fits(node: Node, cpus: int, gpus: float) -> int:
    """How many trials fit on a node."""
    most = int(node.get("CPU", 0) // cpus)
    return min(most, int(node.get("GPU", 0) / gpus + 1e-9)) if gpus else most


def room(nodes: Sequence[Node], cpus: int, gpus: float) -> int:
    return sum(fits(node, cpus, gpus) for node in nodes)


def fitting(cpus: int, gpus: float, limit: int | None, trials: int = 1_000_000, *, mps: bool = False) -> Resources:
    """What a trial gets and how many run at once, refused if the cluster can never give it."""
    nodes = [node["Resources"] for node in alive()]
    share = spread(gpus, nodes, cpus, min(limit or trials, trials))
    asked = Resources(cpus, share, 1, limit, autoscales(), mps, gpus)
    now = concurrency(asked, nodes, trials)
    if not now:
        there = ray.cluster_resources()
        raise InputError(
            f"a trial asks for {cpus} CPUs and {gpus:g} GPUs on one node, and none has them: the cluster has "
            f"{there.get('CPU', 0.0):g} CPUs and {there.get('GPU', 0.0):g} GPUs on {len(nodes)} nodes"
        )
    return replace(asked, concurrency=now)


def concurrency(resources: Resources, nodes: Sequence[Node], trials: int) -> int:
    """How many trials may run or wait for a place: as many as fit, or as an autoscaler is asked for."""
    most = room(nodes, resources.cpus, resources.gpus)
    if resources.autoscaled:
        most = max(most, min(trials, resources.limit or AUTOSCALED))
    return min(most, resources.limit or most)


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


def _status() -> Any:
    """The state of autoscaler v2, or None where it is not running."""
    from ray.autoscaler.v2.sdk import get_cluster_status

    try:
        status = get_cluster_status(ray.get_runtime_context().gcs_address, timeout=10)
    except Exception:  # a head of another version, or one that is busy
        return None
    return status if status.stats.autoscaler_version not in (None, "0") else None


def _report() -> dict[str, Any]:
    """What autoscaler v1 says of itself."""
    try:
        report: dict[str, Any] = json.loads(_internal_kv_get(b"__autoscaling_status") or b"{}")
    except ValueError:
        return {}
    return report.get("autoscaler_report") or {}


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
    """The largest 1/k of a GPU's memory that holds a trial's peak and its CUDA context, with a tenth to spare."""
    return 1 / max(1, min(MOST_ON_A_GPU, int(0.9 * memory / (peak * 1.1 + CONTEXT))))


def peak_and_memory(trials: Sequence[Trial], data: DataSet) -> tuple[float, float]:
    """The most bytes of this node's GPU that a few steps of any of these trials take, and how many it has."""
    import torch

    from pilotstudy import device
    from pilotstudy.training import Trainer

    where = device.choose("cuda")
    for trial in trials:
        trainer = Trainer(trial, data, where)
        for step, (x, y) in enumerate(trainer.batches()):
            trainer.step(x, y)
            if step == 20:
                break
        trainer.validation_logits(trainer.modes[-1])
    return torch.cuda.max_memory_reserved(where), torch.cuda.get_device_properties(where).total_memory


def measured_share(trials: Sequence[Trial], data: DataSet, wait: float, say: Callable[[str], None]) -> float:
    """1/k of a GPU for trials like these, from the peak memory of a few steps of each on a GPU of the cluster."""

    @ray.remote(num_gpus=1)
    def measure(data: list[Any]) -> tuple[float, float]:
        from pilotstudy.cluster.capacity import peak_and_memory

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
