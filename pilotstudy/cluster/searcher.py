"""What Ray Tune asks for the next trial and tells of the last: the director's plan, and what to do when things fail."""

import uuid
from collections import Counter

from ray.exceptions import OutOfMemoryError
from ray.tune.search import Searcher

from pilotstudy.cluster import capacity
from pilotstudy.cluster.capacity import Placement
from pilotstudy.cluster.faults import fault_behind, one_line, without_digits
from pilotstudy.cluster.memory import Memory
from pilotstudy.cluster.messages import Fault, FaultKind, Interruption, Report, WorkOrder, slice_seconds
from pilotstudy.errors import NotDoneError, PilotstudyError, RunLockedError, StorageError
from pilotstudy.runs.records import Place, Status, TrialResult
from pilotstudy.schedule.director import Director
from pilotstudy.schedule.item import Item
from pilotstudy.schedule.screen import Screen
from pilotstudy.storage import absolute, is_remote

MOST_LOSSES = 200  # of one trial's actors, lost nodes included; `actor.MAX_RESTARTS` is for the trial's own
MOST_FAULTS = 5  # of nodes or GPUs under one trial, after which it counts as failed itself
IN_A_ROW = 3  # faults of one GPU, after which its node is left alone; and failures alike, after which a study stops
NOWHERE = Place("", "")

Config = dict[str, str | float]  # what Tune is given for a trial


class StudySearcher(Searcher):
    """Suggestions come from the director, and from Optuna through it.

    Ray's OptunaSearch is not used: it counts a trial that was stopped early as finished with its early value, leaves
    trials without a value running for ever, and proposes other points after a restart. Tune's own retries are not used
    either: they go to the same place again, and know nothing of memory.
    """

    def __init__(self, director: Director, placement: Placement, screen: Screen):
        super().__init__(metric="validation_nll", mode="min")
        self.director, self.placement, self.screen = director, placement, screen
        self.at_once = placement.concurrency
        self.ahead = 4  # proposals of the search that may wait for a place: each knows what was learnt before it
        self.gpus = placement.gpus
        self.items: dict[str, Item] = {}  # by Tune's name of the trial: suggested, not yet ended
        self.running: set[str] = set()  # those of them that have an actor
        self.again: list[Item] = []  # to be tried again
        self.session = uuid.uuid4().hex
        self.stopping = ""
        self.error: PilotstudyError | None = None
        self.cause: BaseException | None = None  # of the error that Tune is about to tell
        self.avoided: dict[str, str] = {}  # nodes that get no more trials → their hosts
        self.devices: dict[str, str] = {}  # device → the first host that had it
        self.memory = Memory()
        self._in_a_row: Counter[tuple[str, str]] = Counter()  # faults of a node's GPU since its last success
        self._faults: Counter[str] = Counter()  # by trial, as the others
        self._losses: Counter[str] = Counter()
        self._killed: Counter[str] = Counter()
        self._shares: dict[str, float] = {}  # of a GPU, of trials that ran out of its memory
        self._uncaptured: set[str] = set()  # trials whose steps cannot be captured as a CUDA graph
        self._last_seen: dict[str, Place | None] = {}  # by Tune's name: where a trial runs
        self._searching = False
        # Errors of the first trials, with their arms, and of nodes; None once a trial has ended well.
        ended_well = any(phase[Status.FINISHED] for phase in director.tally.values())
        self._alike: list[tuple[str, str]] | None = None if ended_well else []
        self._sick_alike: dict[str, list[str]] = {}  # error → nodes

    # ---- what Tune asks and tells ----

    def suggest(self, trial_id: str) -> Config | str | None:  # type: ignore[override]  # as FINISHED is a text
        """A trial to run; None: not now; FINISHED: no more."""
        if self.stopping:
            return str(Searcher.FINISHED)
        if len(self.items) >= self.memory.limit(self.at_once):
            return None
        item = self._next_item()
        if not isinstance(item, Item):
            return item
        order = self._order(item)
        self.items[trial_id] = item
        avoid = ",".join(sorted(self.avoided))
        return {"arm": item.arm, "phase": item.phase, "gpus": order.gpus, "avoid": avoid, "work": order.to_json()}

    def _next_item(self) -> Item | str | None:
        """What is to be tried again, else what the director plans next."""
        if self.again:
            return self.again.pop(0)
        if self._searching and len(self.items) - len(self.running) >= self.ahead:
            return None
        try:
            upcoming = self.director.next()
        except PilotstudyError as error:
            self._stop_by(error)
            return str(Searcher.FINISHED)
        if isinstance(upcoming, str):
            return None if upcoming == "wait" or self.items else str(Searcher.FINISHED)
        self._searching = upcoming.phase == "search"
        return upcoming

    def _order(self, item: Item) -> WorkOrder:
        study = self.director.study
        return WorkOrder(
            trial=item.trial,
            uses=[used.model_dump() for used in study.uses],
            key=item.key,
            folder=absolute(self.director.run.files.folder),
            session=self.session,
            threads=self.placement.cpus,
            gpus=self._shares.get(item.key, self.gpus),
            mps=self.placement.resources.mps,
            graph=item.key not in self._uncaptured,
            test=item.predicts_test,
            forgiven=self._killed[item.key] + self._faults[item.key],
            slice_seconds=slice_seconds(self.at_once),
            checkpoint_seconds=study.resources.checkpoint_seconds,
            each_epoch=bool(item.phase == "search" and study.search and study.search.early_stopping),
        )

    def began(self, trial_id: str) -> None:
        """Told when a trial has an actor."""
        self.running.add(trial_id)
        self.screen.started(self.items[trial_id])

    def on_trial_result(self, trial_id: str, result: dict[str, object]) -> None:
        report = Report.from_tune(result)
        self._hear(report)
        self._last_seen[trial_id] = report.place
        self.screen.progress(self.items[trial_id], report.record)
        try:
            self.director.save_soon()
        except PilotstudyError as problem:
            self._stop_by(problem)

    def on_trial_complete(self, trial_id: str, result: dict[str, object] | None = None, error: bool = False) -> None:
        self.running.discard(trial_id)
        seen = self._last_seen.pop(trial_id, None)
        item = self.items.pop(trial_id, None)
        if item is None:
            return
        cause, self.cause = self.cause, None
        try:
            if not error:
                self._ended(item, Report.from_tune(result or {}))
            elif not self.stopping:
                self.screen.lost(item)
                self._lost(item, cause, seen)
        except PilotstudyError as problem:
            self._stop_by(problem)

    def __getstate__(self) -> dict[str, object]:
        """Tune pickles its searcher to restore it later. We never do: the run folder is the state."""
        return {}

    def __deepcopy__(self, memo: object) -> "StudySearcher":
        return self

    def save(self, checkpoint_path: str) -> None:
        """Nothing to save."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing to restore."""

    # ---- what came of a trial ----

    def _ended(self, item: Item, report: Report) -> None:
        """Its actor has ended its work on it, and lives on."""
        self._hear(report)
        fault = report.fault or Fault(FaultKind.TRIAL, "it gave no reason", place=report.place)
        match report.ending:
            case Status.FINISHED | Status.DIVERGED:
                self._well(report.place or NOWHERE)
                self._take(item, report.trial_result())
            case Interruption.STORAGE if self._alike is None and is_remote(self.director.run.files.folder):
                self._fault(item, fault)  # others can write there
            case Interruption.STORAGE:
                self.stop("storage", StorageError(fault.error))
            case Interruption.OUT_OF_MEMORY if self._grow(item):
                pass
            case Status.FAILED | Interruption.OUT_OF_MEMORY:
                self._failed(item, fault)
            case None if not self.stopping:  # the scheduler stopped it early
                self.director.stopped_early(item.key, report.epoch, report.seconds)
                self._show_ended(item)

    def _take(self, item: Item, result: TrialResult) -> None:
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
        self.screen.note(item, result.notes)
        self.director.conclude(item.key, result)
        self._show_ended(item)

    def _show_ended(self, item: Item) -> None:
        self.screen.ended(item)
        self.director.save_soon()

    def _hear(self, report: Report) -> None:
        """The devices that trials run on, each said once."""
        if report.device and report.device not in self.devices:
            host = (report.place or NOWHERE).host
            self.devices[report.device] = host
            self.screen.say(f"trials run on {report.device}" + (f" at {host}" if len(self.devices) > 1 else ""))

    # ---- what went wrong ----

    def _lost(self, item: Item, cause: BaseException | None, seen: Place | None) -> None:
        """Its actor ended with an error: the node's, for lack of memory, or because the node or the process died."""
        if isinstance(cause, OutOfMemoryError):
            self._killed_for_memory(item)
            self.again.append(item)
            return
        fault = fault_behind(cause, seen)
        if fault is None:
            self._losses[item.key] += 1
            if self._losses[item.key] > MOST_LOSSES:
                reason = f"its actor died more than {MOST_LOSSES} times: {one_line(cause)}"
                self._failed(item, Fault(FaultKind.NODE, reason))
            else:
                self.again.append(item)
        elif fault.kind is FaultKind.CAPTURE:
            self._uncaptured.add(item.key)
            self.again.append(item)
        elif fault.kind is not FaultKind.OUT_OF_MEMORY or not self._grow(item):
            self._fault(item, fault)

    def _killed_for_memory(self, item: Item) -> None:
        """Ray's memory monitor ended its actor."""
        self._killed[item.key] += 1
        advice = self.memory.killed(self.at_once)
        if advice:
            self.screen.say(advice)
        if self.memory.hopeless():
            self.stop("memory", NotDoneError("Ray keeps ending trials because the machine's memory is full"))

    def _fault(self, item: Item, fault: Fault) -> None:
        """The node's or the GPU's: the trial goes elsewhere, unless it has met too many of them."""
        self._faults[item.key] += 1
        self.director.retried(item.key)
        self._sick(fault)
        if self._faults[item.key] > MOST_FAULTS:
            self._failed(item, fault)
        else:
            self.again.append(item)

    def _sick(self, fault: Fault) -> None:
        """A GPU that fails several trials in a row: its node gets no more of them."""
        node, host, gpu = fault.place or NOWHERE
        self._in_a_row[node, gpu] += 1
        where = f"{host}, GPU {gpu}" if gpu else host
        nodes = self._sick_alike.setdefault(without_digits(fault.error), [])
        nodes.append(node)
        if self._alike is not None and len(set(nodes)) > 1 and len(nodes) >= 2 * IN_A_ROW:
            self.stop("sick", NotDoneError(f"no trial has ended well, and {len(nodes)} failed alike: {fault.error}"))
        if node in self.avoided:
            return
        if self._in_a_row[node, gpu] < IN_A_ROW:
            self.screen.say(f"{where}: {fault.error}; its trial goes elsewhere")
            return
        self.avoided[node] = host
        self.screen.say(f"{where} failed {IN_A_ROW} trials in a row and gets no more: {fault.error}")
        if self.nobody_left():
            self.stop("sick", NotDoneError(f"no node is left that can train: {where}: {fault.error}"))

    def nobody_left(self) -> bool:
        """Whether every node that could take a trial is left alone."""
        cpus, gpus = self.placement.cpus, self.placement.gpus
        able = [node["NodeID"] for node in capacity.alive() if capacity.fits(node["Resources"], cpus, gpus)]
        return not self.placement.autoscaled and set(able) <= set(self.avoided)

    def _failed(self, item: Item, fault: Fault) -> None:
        self.director.failed(item.key, fault.error, fault.traceback, fault.place)
        self._show_ended(item)
        if self._alike is None:
            return
        self._alike.append((without_digits(fault.error), item.arm))
        errors, failing_arms = map(set, zip(*self._alike, strict=True))
        several = len(failing_arms) > 1 or len(self.director.study.arms) == 1
        if len(self._alike) >= IN_A_ROW and len(errors) == 1 and several:
            reason = f"the first {len(self._alike)} trials all failed alike: {fault.error}"
            how = f"{self.director.run.files.hint('status', '--errors')} shows where"
            self.stop("alike", NotDoneError(f"{reason}; {how}"))

    def _well(self, place: Place) -> None:
        self._alike = None
        self._in_a_row.pop((place.node, place.gpu), None)

    def _grow(self, item: Item) -> bool:
        """Whether a trial that ran out of a GPU's memory can have a larger share of it, which it then has."""
        share = 2 * self._shares.get(item.key, self.gpus)
        if not 0 < share <= 1:
            return False
        self.director.retried(item.key)
        self._shares[item.key] = share
        self.again.append(item)
        self.screen.say(f"{item.name}: out of GPU memory, again with {share:g} of a GPU")
        return True

    def stop(self, why: str, error: PilotstudyError) -> None:
        """Ends the run, unless it is ending already."""
        if not self.stopping:
            self.stopping, self.error = why, error

    def _stop_by(self, error: PilotstudyError) -> None:
        """What the director cannot go on after: it cannot write, or another driver has taken the run over."""
        self.stop("lost" if isinstance(error, RunLockedError) else "storage", error)
