"""`pilotstudy doctor --address`: one node of each kind of a cluster tells what works there."""

import tempfile
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pilotstudy.cluster import capacity, connect
from pilotstudy.cluster.capacity import NodeInfo
from pilotstudy.errors import PilotstudyError
from pilotstudy.schedule import doctor
from pilotstudy.schedule.doctor import Row, row
from pilotstudy.storage import absolute, place, write

START_SECONDS = 120.0  # a node that has not begun by then is reported, not waited for
INSTALL_SECONDS = 3600.0  # the same, where nodes first install what we need
WORK_SECONDS = 600.0
CARD_LABEL = "ray.io/accelerator-type"


@dataclass(frozen=True)
class Kind:
    """Nodes that are alike, as far as Ray knows."""

    cpus: float
    gpus: float
    card: str

    @classmethod
    def of(cls, node: NodeInfo) -> "Kind":
        resources = node["Resources"]
        marks = [name.removeprefix("accelerator_type:") for name in resources if name.startswith("accelerator_type:")]
        card = node.get("Labels", {}).get(CARD_LABEL) or ", ".join(sorted(marks))
        return cls(resources.get("CPU", 0.0), resources.get("GPU", 0.0), card)

    def __str__(self) -> str:
        card = f" {self.card}" if self.card else ""
        gpus = f", {self.gpus:g} GPU{'s' * (self.gpus != 1)}{card}" if self.gpus else ""
        return f"{self.cpus:g} CPU{'s' * (self.cpus != 1)}{gpus}"


def kinds(nodes: Iterable[NodeInfo]) -> dict[Kind, list[str]]:
    """The ids of the nodes of each kind, those with GPUs first."""
    ids: dict[Kind, list[str]] = {}
    for node in nodes:
        ids.setdefault(Kind.of(node), []).append(node["NodeID"])
    return dict(sorted(ids.items(), key=lambda pair: (-pair[0].gpus, -pair[0].cpus, pair[0].card)))


def overview(nodes: Sequence[NodeInfo], starting: str | None) -> list[Row]:
    """What the cluster as a whole has. `starting`: what its autoscaler is starting, where it has one."""
    groups = kinds(nodes)
    cpus, gpus = (sum(getattr(kind, name) * len(ids) for kind, ids in groups.items()) for name in ("cpus", "gpus"))
    line = f"{len(nodes)} node{'s' * (len(nodes) != 1)}, {Kind(cpus, gpus, '')}, Ray {ray.__version__}"
    rows = [row("cluster", "works", line)]
    if not gpus and starting is not None:
        advice = "a study with --gpus-per-trial has them started, if the cluster's file names any; ask again then"
        rows.append(row("GPU nodes", "missing", f"none is alive; the autoscaler says: {starting}", advice))
    return rows


def examine(address: str, runs_dir: str | None = None) -> list[Row]:
    """Rows as of `doctor.examine`, for one node of each kind. `runs_dir` must be seen and written by all of them."""
    scratch = tempfile.TemporaryDirectory(prefix="pilotstudy-")
    with scratch as folder, connect.connected(address, Path(folder) / "log.txt"):
        nodes = capacity.alive()
        rows = overview(nodes, capacity.starting() if capacity.autoscales() else None)
        groups = kinds(nodes)
        if runs_dir is None:
            return rows + ask(groups)
        mark = place(runs_dir) / f".doctor-{uuid.uuid4().hex}"
        try:
            write(mark, "")
        except PilotstudyError as error:
            return [*rows, row("runs folder", "fails", str(error), "the driver itself must be able to write there")]
        try:
            return rows + ask(groups, absolute(mark.parent), mark.name)
        finally:
            mark.unlink(missing_ok=True)


def ask(groups: Mapping[Kind, list[str]], runs_dir: str | None = None, mark: str | None = None) -> list[Row]:
    """Has the first node of each kind examine itself, all at once."""

    class Examiner:
        """An actor, so that the wait for its start and that for its work can be told apart."""

        def ready(self) -> bool:
            return True

        def examine(self, gpu: bool, trains: bool, runs_dir: str | None, mark: str | None) -> list[Row]:
            from pilotstudy.schedule import doctor  # here: a node need not import what this module does

            return doctor.node(gpu, trains, runs_dir, mark)

    patience = INSTALL_SECONDS if ray.get_runtime_context().runtime_env.get("pip") else START_SECONDS
    examiners: dict[Kind, Any] = {
        kind: ray.remote(Examiner)
        .options(
            num_cpus=0,
            num_gpus=min(1.0, kind.gpus),
            scheduling_strategy=NodeAffinitySchedulingStrategy(ids[0], soft=False),
        )
        .remote()
        for kind, ids in groups.items()
    }
    started = {kind: examiner.ready.remote() for kind, examiner in examiners.items()}
    ray.wait(list(started.values()), num_returns=len(started), timeout=patience)
    begun = {kind: bool(ray.wait([reference], timeout=0)[0]) for kind, reference in started.items()}
    work = {
        kind: examiner.examine.remote(bool(kind.gpus), bool(kind.cpus or kind.gpus), runs_dir, mark)
        for kind, examiner in examiners.items()
        if begun[kind]
    }
    if work:
        ray.wait(list(work.values()), num_returns=len(work), timeout=WORK_SECONDS)
    rows: list[Row] = []
    for kind, ids in groups.items():
        name = f"{len(ids)} × {kind}" if len(ids) > 1 else str(kind)
        said = answer(work[kind]) if begun[kind] else [late(kind, patience)]
        rows += [line | {"what": f"{name}: {line['what']}"} for line in said]
        ray.kill(examiners[kind])
    return rows


def late(kind: Kind, seconds: float) -> Row:
    advice = "`ray status` tells what it does; is a GPU free?" if kind.gpus else "`ray status` tells what it does"
    return row("start", "fails", f"nothing could be started on it within {seconds:.0f} s", advice)


def answer(reference: "ray.ObjectRef[list[Row]]") -> list[Row]:
    """What a node said, or why it said nothing."""
    try:
        return ray.get(reference, timeout=0)
    except ray.exceptions.GetTimeoutError:
        return [row("answer", "fails", f"none within {WORK_SECONDS:.0f} s", "look at the node: is it overloaded?")]
    except ImportError as error:
        error = getattr(error, "cause", error)  # without the traceback that Ray puts before it
        advice = "our image has it; `submit`, and doctor through a job server (http://..), install it"
        return [row("packages", "missing", doctor.first_line(error), advice)]
    except Exception as error:  # the node or its process was lost
        error = getattr(error, "cause", None) or error
        return [row("answer", "fails", f"{type(error).__name__}: {doctor.first_line(error)}", "look at the node's log")]
