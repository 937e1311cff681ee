"""The Ray actor that trains trials, one after another."""

import contextlib
import gc
import socket
import time
import warnings
from typing import TYPE_CHECKING

import ray
from ray import tune
from ray.experimental.internal_kv import _internal_kv_get

from pilotstudy.cluster.faults import NodeFault, answers, recognise
from pilotstudy.cluster.messages import Interruption, Report, Starts, WorkOrder, stop_mark
from pilotstudy.errors import CheckpointError, DataError
from pilotstudy.runs.layout import RunFiles, TrialFiles
from pilotstudy.runs.records import Place, Plain, Status
from pilotstudy.storage import place, try_out, write

if TYPE_CHECKING:  # torch takes a while to import, and memory
    from pilotstudy.data.dataset import DataSet
    from pilotstudy.trial.lifecycle import LiveTrial
    from pilotstudy.trial.trainer import EpochRecord

MAX_RESTARTS = 20  # of one trial, on nodes that went on; lost nodes do not count


class TrialActor(tune.Trainable):
    """One call of `step` trains for about a second (one epoch, where early stopping has to look at each).

    Checkpoints are the trial's own, in the run folder: whichever actor takes a trial up goes on from there.
    """

    def setup(self, config: dict[str, str], data: "list[ray.ObjectRef[DataSet]] | None" = None) -> None:
        """Tune calls it once, with the first work order."""
        assert data is not None
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        self.data: DataSet = ray.get(data[0])  # read-only, shared by all actors of the node
        self.under_way: LiveTrial | None = None
        self.tried: set[str] = set()  # folders
        self.device = ""
        self.work = WorkOrder.from_json(config["work"])

    def reset_config(self, new_config: dict[str, str]) -> bool:
        """Tune calls it with every further work order."""
        self.release()
        self.work = WorkOrder.from_json(new_config["work"])
        return True

    def release(self) -> None:
        """What one trial held must not reach the next."""
        if self.under_way is None:
            return
        self.under_way = None
        if self.work.gpus:
            import torch

            gc.collect()
            torch.cuda.empty_cache()

    def here(self) -> Place:
        gpus = ",".join(map(str, ray.get_gpu_ids()))
        return Place(ray.get_runtime_context().get_node_id(), socket.gethostname(), gpus)

    def step(self) -> dict[str, Plain]:
        """What Tune calls."""
        try:
            return self._step().to_tune()
        except Exception as error:
            fault = recognise(error, self.here())
            if fault.ends_process:
                raise NodeFault(fault) from None
            self.release()
            return Report.of_fault(fault).to_tune()

    def _step(self) -> Report:
        if self.under_way is None:
            if self._told_to_stop():
                return self._report(ending=Interruption.SAVED)
            self.under_way = self._start()
        live = self.under_way
        record = self._train(live)
        if live.ended:
            return self._finish(live, record)
        if self._told_to_stop():
            live.save()
            return self._report(record, ending=Interruption.SAVED)
        return self._report(record)

    def _train(self, live: "LiveTrial") -> "EpochRecord":
        """Until it is time to report; the record of the last epoch."""
        started = time.monotonic()
        record: EpochRecord = {}
        while not live.ended:
            record = live.advance() or record
            if self.work.each_epoch or time.monotonic() - started > self.work.slice_seconds:
                break
        return {"epoch": live.trainer.epoch, "training_seconds": live.seconds} | record

    def _finish(self, live: "LiveTrial", record: "EpochRecord") -> Report:
        result = live.finish(self.here(), moves=self.starts.moves, restarts=self.starts.restarts)
        assert live.files
        live.files.checkpoint.unlink(missing_ok=True)
        live.files.starts.unlink(missing_ok=True)
        self.release()
        return self._report(record, ending=result.status, result=result.to_json(indent=None))

    def _report(
        self,
        record: "EpochRecord | None" = None,
        ending: Status | Interruption | None = None,
        result: str = "",
    ) -> Report:
        return Report(self.here(), self.device, record or {}, ending, result=result)

    def _told_to_stop(self) -> bool:
        return bool(_internal_kv_get(stop_mark(self.work.session)))

    def _start(self) -> "LiveTrial":
        if self.work.mps:
            from pilotstudy.cluster import mps

            mps.start()
        import torch

        from pilotstudy.study.reading import read_uses
        from pilotstudy.trial import device
        from pilotstudy.trial.lifecycle import LiveTrial

        read_uses(self.work.uses, place(self.work.folder))

        where = device.choose("cuda" if self.work.gpus else "cpu")
        if where.type == "cuda":
            torch.cuda.set_per_process_memory_fraction(min(1.0, self.work.gpus) * 0.9)
        self.device = str(device.describe(where))
        folder = place(self.work.folder)
        if self.work.folder not in self.tried:
            try_out(folder)  # a node whose role may not write must not train for hours first
            self.tried.add(self.work.folder)
        files = RunFiles(folder).trial(self.work.key)
        self.starts = self._count(files)

        def start() -> LiveTrial:
            return LiveTrial(
                self.work.trial,
                self.data,
                files,
                where=where,
                threads=self.work.threads,
                checkpoint_seconds=self.work.checkpoint_seconds,
                graph=self.work.graph,
                test=self.work.test,
            )

        try:
            return start()
        except CheckpointError:  # damaged: the trial starts again
            files.checkpoint.unlink(missing_ok=True)
            return start()

    def _count(self, files: TrialFiles) -> Starts:
        """Counts the starts of this trial in this session: after a lost node it has moved, else its actor had died."""
        here = ray.get_runtime_context().get_node_id()
        starts = Starts(self.work.session, here)
        with contextlib.suppress(OSError, DataError):
            before = Starts.from_json(files.starts.read_bytes(), files.starts)
            if before.session == self.work.session:
                starts = before.again(here, moved=not answers(before.node))
        write(files.starts, starts.to_json())
        if starts.restarts - self.work.forgiven > MAX_RESTARTS:
            raise RuntimeError(f"its actor died {starts.restarts} times")
        return starts

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Tune's own checkpoints are not used."""

    def load_checkpoint(self, checkpoint: dict[str, object] | None) -> None:
        """Tune's own checkpoints are not used."""
