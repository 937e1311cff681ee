"""What Ray Tune asks for the next trial and tells of the last: the director's plan, and what to do when things fail."""

import json
import re
import time
import uuid
from collections import Counter
from typing import Any

from ray.exceptions import OutOfMemoryError, RayActorError, RayTaskError
from ray.tune.search import Searcher

from pilotstudy.cluster.actor import NodeFault, slice_seconds
from pilotstudy.cluster.capacity import Resources
from pilotstudy.director import Director, Item
from pilotstudy.errors import NotDoneError, PilotstudyError, RunLockedError, StorageError
from pilotstudy.files import is_remote, whole
from pilotstudy.screen import Screen

MOST_LOSSES = 200  # of one trial's actors, lost nodes included; `actor.MAX_RESTARTS` is for the trial's own
MOST_FAULTS = 5  # of nodes or GPUs under one trial, after which it counts as failed itself
IN_A_ROW = 3  # faults of one GPU, after which its node is left alone; and failures alike, after which a study stops
CALM_SECONDS = 120.0  # without a kill for memory, after which twice as many trials may run
HOLD_SECONDS = (5.0, 60.0)  # between a kill for memory and the next try, at first and at most
GIVE_UP_SECONDS = 1800.0  # of kills for memory although only one trial runs


class StudySearcher(Searcher):
    """Suggestions come from the director, and from Optuna through it.

    Ray's OptunaSearch is not used: it counts a trial that was stopped early as finished with its early value, leaves
    trials without a value running for ever, and proposes other points after a restart. Tune's own retries are not used
    either: they go to the same place again, and know nothing of memory.
    """

    def __init__(self, director: Director, resources: Resources, screen: Screen):
        super().__init__(metric="validation_nll", mode="min")
        self.director, self.resources, self.screen = director, resources, screen
        self.at_once = resources.concurrency
        self.ahead = 4  # proposals of the search that may wait for a place: each knows what was learnt before it
        self.gpus = resources.gpus
        self.items: dict[str, Item] = {}  # by Tune's name of the trial: suggested, not yet ended
        self.running: set[str] = set()  # those of them that have an actor
        self.again: list[Item] = []  # to be tried again
        self.session = uuid.uuid4().hex
        self.stopping = ""
        self.error: PilotstudyError | None = None
        self.cause: BaseException | None = None  # of the error that Tune is about to tell
        self.avoided: dict[str, str] = {}  # nodes that get no more trials → their hosts
        self.devices: dict[str, str] = {}  # device → the first host that had it
        self.spent = 0.0  # dollars, by the price that was given
        self.memory = Memory()
        self._in_a_row: Counter[tuple[str, str]] = Counter()  # faults of a node's GPU since its last success
        self._faults: Counter[str] = Counter()  # by trial, as the others
        self._losses: Counter[str] = Counter()
        self._killed: Counter[str] = Counter()
        self._shares: dict[str, float] = {}  # of a GPU, of trials that ran out of its memory
        self._uncaptured: set[str] = set()  # trials whose steps cannot be captured as a CUDA graph
        self._last_seen: dict[str, dict[str, Any]] = {}  # by Tune's name: where a trial runs
        self._searching = False
        # Errors of the first trials, with their arms, and of nodes; None once a trial has ended well.
        ended_well = any(phase["finished"] for phase in director.tally.values())
        self._alike: list[tuple[str, str]] | None = None if ended_well else []
        self._sick_alike: dict[str, list[str]] = {}  # error → nodes
        self._notes: set[str] = set()

    def suggest(self, trial_id: str) -> Any:
        if self.stopping:
            return Searcher.FINISHED
        if len(self.items) >= self.memory.limit(self.at_once):
            return None
        if self.again:
            item = self.again.pop(0)
        elif self._searching and len(self.items) - len(self.running) >= self.ahead:
            return None
        else:
            try:
                found = self.director.next()
            except PilotstudyError as error:
                self._stop_by(error)
                return Searcher.FINISHED
            if isinstance(found, str):
                return None if found == "wait" or self.items else Searcher.FINISHED
            item = found
            self._searching = item.phase == "search"
        gpus = self._shares.get(item.key, self.gpus)
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
            "mps": self.resources.mps,
            "graph": item.key not in self._uncaptured,
            "forgiven": self._killed[item.key] + self._faults[item.key],
            "slice_seconds": slice_seconds(self.at_once),
            "checkpoint_seconds": self.director.study.resources.checkpoint_seconds,
            "each_epoch": bool(item.phase == "search" and search and search.early_stopping),
        }
        # As text: Tune would keep statistics of every number in it, for every trial.
        avoid = ",".join(sorted(self.avoided))
        return {"arm": item.arm, "phase": item.phase, "gpus": gpus, "avoid": avoid, "work": json.dumps(work)}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self._hear(result)
        self._last_seen[trial_id] = {name: result[name] for name in ("node", "host", "gpu") if name in result}
        self.screen.progress(self.items[trial_id], result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self.running.discard(trial_id)
        seen = self._last_seen.pop(trial_id, {})
        item = self.items.pop(trial_id, None)
        if item is None:
            return
        cause, self.cause = self.cause, None
        try:
            if not error:
                self._ended(item, result or {})
            elif not self.stopping:
                self._lost(item, cause, seen)
        except PilotstudyError as problem:
            self._stop_by(problem)

    def _ended(self, item: Item, told: dict[str, Any]) -> None:
        status = told.get("status")
        self._hear(told)
        if status == "storage":
            if self._alike is None and is_remote(self.director.run.files.folder):  # others can write there
                self._fault(item, told | {"kind": "node"})
            else:
                self.stop("storage", StorageError(str(told["error"])))
        elif status == "out of memory" and self._grow(item):
            pass
        elif status in ("finished", "diverged"):
            self._well(told)
            self._take(item, json.loads(told["result"]))
        elif status in ("failed", "out of memory"):
            self._failed(item, told)
        elif status != "saved" and not self.stopping:  # the scheduler stopped it early
            self._conclude(item, self._note(item, {"status": "stopped", "epochs": told.get("epoch", 0)}))

    def _take(self, item: Item, result: dict[str, Any]) -> None:
        files = self.director.run.files
        if not is_remote(files.folder) and not files.trial(item.key).result.exists():
            self.stop(
                "storage",
                StorageError(
                    f"the result of {item.name} is not in {files.folder}: the node that trained it does not see that "
                    "folder; use a shared one, or a URI such as s3://bucket/runs"
                ),
            )
            return
        for note in result.get("notes", []):
            if note not in self._notes:
                self._notes.add(note)
                self.screen.say(f"{item.name}: {note}")
        self._conclude(item, result)

    # ---- what went wrong ----

    def _lost(self, item: Item, cause: BaseException | None, seen: dict[str, Any]) -> None:
        """Its actor ended with an error: the node's, for lack of memory, or because the node or the process died."""
        fault = fault_of(cause) or died_on_a_living_node(cause, seen)
        if isinstance(cause, OutOfMemoryError):
            self._killed[item.key] += 1
            said = self.memory.killed(self.at_once)
            if said:
                self.screen.say(said)
            if self.memory.hopeless():
                self.stop("memory", NotDoneError("Ray keeps ending trials because the machine's memory is full"))
        elif fault is not None and fault["kind"] == "capture":
            self._uncaptured.add(item.key)
        elif fault is not None:
            if fault["kind"] != "out of memory" or not self._grow(item):
                self._fault(item, fault)
            return
        else:
            self._losses[item.key] += 1
            if self._losses[item.key] > MOST_LOSSES:
                self._failed(item, {"error": f"its actor died more than {MOST_LOSSES} times: {one_line(cause)}"})
                return
        self.again.append(item)

    def _fault(self, item: Item, fault: dict[str, Any]) -> None:
        """The node's or the GPU's: the trial goes elsewhere, unless it has met too many of them."""
        self._faults[item.key] += 1
        item.retries += 1
        self._sick(fault)
        if self._faults[item.key] > MOST_FAULTS:
            self._failed(item, fault)
        else:
            self.again.append(item)

    def _sick(self, fault: dict[str, Any]) -> None:
        """A GPU that fails several trials in a row: its node gets no more of them."""
        node, host = fault["node"], fault["host"]
        self._in_a_row[node, fault["gpu"]] += 1
        where = f"{host}, GPU {fault['gpu']}" if fault["gpu"] else host
        nodes = self._sick_alike.setdefault(without_digits(fault["error"]), [])
        nodes.append(node)
        if self._alike is not None and len(set(nodes)) > 1 and len(nodes) >= 2 * IN_A_ROW:
            self.stop("sick", NotDoneError(f"no trial has ended well, and {len(nodes)} failed alike: {fault['error']}"))
        if node in self.avoided:
            return
        if self._in_a_row[node, fault["gpu"]] < IN_A_ROW:
            self.screen.say(f"{where}: {fault['error']}; its trial goes elsewhere")
            return
        self.avoided[node] = host
        self.screen.say(f"{where} failed {IN_A_ROW} trials in a row and gets no more: {fault['error']}")
        if self.nobody_left():
            self.stop("sick", NotDoneError(f"no node is left that can train: {where}: {fault['error']}"))

    def nobody_left(self) -> bool:
        """Whether every node that could take a trial is left alone."""
        from pilotstudy.cluster import capacity

        cpus, gpus = self.resources.cpus, self.resources.gpus
        able = [node["NodeID"] for node in capacity.alive() if capacity.fits(node["Resources"], cpus, gpus)]
        return not self.resources.autoscaled and set(able) <= set(self.avoided)

    def _failed(self, item: Item, told: dict[str, Any]) -> None:
        kept = {name: told[name] for name in ("error", "traceback", "node", "host", "gpu") if name in told}
        self._conclude(item, self._note(item, {"status": "failed"} | kept))
        if self._alike is None:
            return
        self._alike.append((without_digits(told["error"]), item.arm))
        errors, failing = ({one[part] for one in self._alike} for part in (0, 1))
        several = len(failing) > 1 or len(self.director.study.arms) == 1
        if len(self._alike) >= IN_A_ROW and len(errors) == 1 and several:
            reason = f"the first {len(self._alike)} trials all failed alike: {told['error']}"
            how = f"`pilotstudy status {self.director.run.name} --errors` shows where"
            self.stop("alike", NotDoneError(f"{reason}; {how}"))

    def _well(self, told: dict[str, Any]) -> None:
        self._alike = None
        self._in_a_row.pop((told.get("node", ""), told.get("gpu", "")), None)

    def _grow(self, item: Item) -> bool:
        share = 2 * self._shares.get(item.key, self.gpus)
        if not 0 < share <= 1:
            return False
        item.retries += 1
        self._shares[item.key] = share
        self.again.append(item)
        self.screen.say(f"{item.name}: out of GPU memory, again with {share:g} of a GPU")
        return True

    def stop(self, why: str, error: PilotstudyError) -> None:
        if not self.stopping:
            self.stopping, self.error = why, error

    def _stop_by(self, error: PilotstudyError) -> None:
        """What the director cannot go on after: it cannot write, or another driver has taken the run over."""
        self.stop("lost" if isinstance(error, RunLockedError) else "storage", error)

    def _hear(self, told: dict[str, Any]) -> None:
        """The devices that trials run on, each said once."""
        device = told.get("device")
        if device and device not in self.devices:
            self.devices[device] = told["host"]
            self.screen.say(f"trials run on {device}" + (f" at {told['host']}" if len(self.devices) > 1 else ""))

    # ---- what came of a trial ----

    def _note(self, item: Item, result: dict[str, Any]) -> dict[str, Any]:
        """The result of a trial that did not reach its end."""
        full = {"trial": item.trial.model_dump(), "fingerprint": self.director.fingerprint, "evaluations": []} | result
        files = self.director.run.files.trial(item.key)
        background = self.director.background
        background.submit(files.result, json.dumps(full, indent=1) + "\n")
        background.remove(files.checkpoint)
        background.remove(files.starts)
        return full

    def _conclude(self, item: Item, result: dict[str, Any]) -> None:
        self.director.conclude(item.key, result, item.retries)
        self.screen.ended(item)
        self.director.save_soon()

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its searcher to restore it later. We never do: the run folder is the state."""
        return {}

    def __deepcopy__(self, memo: Any) -> "StudySearcher":
        return self

    def save(self, checkpoint_path: str) -> None:
        """Nothing to save."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing to restore."""


class Memory:
    """How many trials at once the machine's memory has room for, from how Ray's memory monitor acts.

    It ends actors when a node's memory is nearly full, whoever filled it. Then half as many run, after a pause, and
    twice as many again after every two minutes in which it ends none.
    """

    def __init__(self) -> None:
        self.most: int | None = None
        self.hold = HOLD_SECONDS[0]
        self.last = self.changed = self.since = 0.0

    def killed(self, at_once: int) -> str:
        """Told of an actor that was ended; what to say of it, if anything."""
        now = time.monotonic()
        together = now - self.last < 2.0  # several are ended at once
        self.last = now
        if together and self.most is not None:
            return ""
        if self.most == 1:
            self.hold = min(2 * self.hold, HOLD_SECONDS[1])
        else:
            self.since = now
        self.most = max(1, min(at_once, self.most or at_once) // 2)
        self.changed = now
        few = "one trial" if self.most == 1 else f"{self.most} trials"
        return f"memory is nearly full and Ray ended a trial: it starts again in {self.hold:.0f} s, {few} at a time"

    def limit(self, at_once: int) -> int:
        if self.most is None:
            return at_once
        now = time.monotonic()
        if now - self.last < self.hold:
            return 0
        if now - max(self.last, self.changed) > CALM_SECONDS:
            self.most, self.changed, self.hold = 2 * self.most, now, HOLD_SECONDS[0]
            if self.most >= at_once:
                self.most = None
                return at_once
        return min(at_once, self.most)

    def hopeless(self) -> bool:
        return self.most == 1 and self.last - self.since > GIVE_UP_SECONDS


def fault_of(cause: BaseException | None) -> dict[str, Any] | None:
    """What an actor said of its node, if that is why it ended."""
    inner = getattr(cause, "cause", None) if isinstance(cause, RayTaskError) else None
    return inner.fault if isinstance(inner, NodeFault) else None


def died_on_a_living_node(cause: BaseException | None, seen: dict[str, Any]) -> dict[str, Any] | None:
    """The same for a process that died while its node lives on, where it is known which that was.

    `seen`: where the trial was when it last told; before it told anything, Ray's error names the address.
    """
    from pilotstudy.cluster import actor, capacity

    if not isinstance(cause, RayActorError):
        return None
    address = re.search(r"ip: (\S+)", str(cause))
    if not seen and address:
        there = [node for node in capacity.alive() if node["NodeManagerAddress"] == address[1]]
        seen = {"node": there[0]["NodeID"], "host": address[1], "gpu": ""} if len(there) == 1 else {}
    if not seen or not actor.answers(seen["node"]):
        return None
    return seen | {"kind": "node", "error": f"its process died: {one_line(cause)[-200:]}"}


def without_digits(error: Any) -> str:
    return re.sub(r"\d+", "", str(error))


def one_line(cause: BaseException | None) -> str:
    return " ".join(str(cause or "unknown").split())[:300]
