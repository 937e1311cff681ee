"""The Ray actor that trains trials, one after another."""

import contextlib
import gc
import json
import socket
import time
import warnings
from typing import Any

import ray
from ray import tune

from pilotstudy.errors import CheckpointError, StorageError

SLICE_SECONDS = 1.0
MAX_RESTARTS = 20  # of one trial, on nodes that went on; lost nodes do not count


def answers(node: str) -> bool:
    """Whether a node is still there. Ray may take a while to notice that one is lost, so it is asked itself."""
    found = next((one for one in ray.nodes() if one["NodeID"] == node and one["Alive"]), None)
    if found is None:
        return False
    try:
        with socket.create_connection((found["NodeManagerAddress"], found["NodeManagerPort"]), timeout=3):
            return True
    except OSError:
        return False


class TrialActor(tune.Trainable):
    """One call of `step` trains for about a second (one epoch, where early stopping has to look at each).

    Checkpoints are the trial's own, in the run folder: whichever actor takes a trial up goes on from there.
    """

    def setup(self, config: dict[str, Any], data: list[Any] | None = None) -> None:
        assert data is not None
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        self.data = ray.get(data[0])  # read-only, shared by all actors of the node
        self.under_way: Any = None
        self.work = json.loads(config["work"])

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.release()
        self.work = json.loads(new_config["work"])
        return True

    def release(self) -> None:
        """What one trial held must not reach the next."""
        if self.under_way is None:
            return
        self.under_way = None
        if self.work["gpus"]:
            import torch

            gc.collect()
            torch.cuda.empty_cache()

    def step(self) -> dict[str, Any]:
        try:
            return self._step()
        except StorageError as error:
            return {"done": True, "status": "storage", "error": str(error)}
        except Exception as error:
            self.release()
            status = "out of memory" if type(error).__name__ == "OutOfMemoryError" else "failed"
            reason = " ".join(str(error).split())[:500]
            return {"done": True, "status": status, "error": f"{type(error).__name__}: {reason}"}

    def _step(self) -> dict[str, Any]:
        from pilotstudy.trial import TrialRun

        if self.under_way is None:
            self.under_way = self._start()
        run: TrialRun = self.under_way
        started, record = time.monotonic(), None
        while not run.ended:
            record = run.advance() or record
            if self.work["each_epoch"] or time.monotonic() - started > SLICE_SECONDS:
                break
        report = {"epoch": run.trainer.epoch, **(record or {})}
        if not run.ended:
            return report
        result = run.finish({name: self.starts[name] for name in ("moves", "restarts")})
        assert run.files
        run.files.checkpoint.unlink(missing_ok=True)
        run.files.starts.unlink(missing_ok=True)
        self.release()
        return report | {"done": True, "status": result["status"]}

    def _start(self) -> Any:
        import torch

        from pilotstudy import device
        from pilotstudy.files import RunFiles, place
        from pilotstudy.spec import Trial
        from pilotstudy.trial import TrialRun

        where = device.choose("cuda" if self.work["gpus"] and torch.cuda.is_available() else "cpu")
        if where.type == "cuda":
            torch.cuda.set_per_process_memory_fraction(min(1.0, self.work["gpus"]) * 0.9)
        files = RunFiles(place(self.work["folder"])).trial(self.work["key"])
        self.starts = self._count(files)
        trial = Trial.model_validate(self.work["trial"])
        options = {"where": where, **{name: self.work[name] for name in ("threads", "checkpoint_seconds")}}
        try:
            return TrialRun(trial, self.data, files, **options)
        except CheckpointError:  # damaged: the trial starts anew
            files.checkpoint.unlink(missing_ok=True)
            return TrialRun(trial, self.data, files, **options)

    def _count(self, files: Any) -> dict[str, Any]:
        """Counts the starts of this trial in this session: after a lost node it has moved, else its actor had died."""
        from pilotstudy.files import write

        here = ray.get_runtime_context().get_node_id()
        known = {"session": self.work["session"], "moves": 0, "restarts": 0, "node": here}
        with contextlib.suppress(OSError, ValueError):
            before = json.loads(files.starts.read_text())
            if before["session"] == known["session"]:
                known |= {name: before[name] for name in ("moves", "restarts")}
                known["restarts" if answers(before["node"]) else "moves"] += 1
        write(files.starts, json.dumps(known))
        if known["restarts"] > MAX_RESTARTS:
            raise RuntimeError(f"its actor died {known['restarts']} times")
        return known

    def cleanup(self) -> None:
        """Stopped in an orderly way: nothing that was trained is lost."""
        from pilotstudy import checkpoint

        run = self.under_way
        if run is not None and not run.ended and run.trainer.epoch:
            with contextlib.suppress(StorageError):
                checkpoint.save(run.files.checkpoint, run.trainer.state())

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        return None

    def load_checkpoint(self, checkpoint: Any) -> None:
        return None
