"""The Ray actor that trains trials, one after another."""

import contextlib
import errno
import gc
import json
import socket
import time
import traceback
import warnings
from typing import Any

import ray
from ray import tune
from ray.experimental.internal_kv import _internal_kv_get

from pilotstudy.errors import CaptureError, CheckpointError, DeviceError, StorageError

MAX_RESTARTS = 20  # of one trial, on nodes that went on; lost nodes do not count
# Words of errors after which a CUDA context is of no use, to this trial or any other.
CUDA_ERRORS = ("CUDA error", "CUDA driver", "cuDNN error", "CUBLAS_STATUS", "CUDNN_STATUS", "NVML", "no CUDA-capable")
NODE_ERRORS = (errno.EIO, errno.ENOSPC, errno.ESTALE, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def slice_seconds(concurrency: int) -> float:
    """How long a trial trains between two reports: the driver takes some two hundred of them a second with ease."""
    return max(1.0, concurrency / 200)


def stop_mark(session: str) -> bytes:
    """The key, in the cluster's own store, that tells the trials of a session to save and end."""
    return f"pilotstudy-stop-{session}".encode()


class NodeFault(Exception):  # noqa: N818
    """Not the trial's own error: its device or node is not well. It ends the actor, and the trial goes elsewhere."""

    def __init__(self, fault: dict[str, Any]):
        super().__init__(fault)
        self.fault = fault


def is_of_the_node(error: BaseException) -> bool:
    """Whether an error says something of the device or the node, and nothing of the trial."""
    if isinstance(error, DeviceError | MemoryError) or type(error).__name__ == "AcceleratorError":
        return True
    if isinstance(error, OSError):
        return error.errno in NODE_ERRORS
    return isinstance(error, RuntimeError) and any(words in str(error) for words in CUDA_ERRORS)


def is_out_of_memory(error: BaseException) -> bool:
    """Of the GPU's: while training, or while CUDA makes its context, which torch tells by another error."""
    words = "out of memory", "ALLOC_FAILED"  # the second is how cuBLAS and cuDNN say it
    of_the_gpu = is_of_the_node(error) and any(word in str(error) for word in words)
    return type(error).__name__ == "OutOfMemoryError" or of_the_gpu


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
        self.tried: set[str] = set()  # folders
        self.device = ""
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

    def here(self) -> dict[str, Any]:
        """Where this is: the node, and the GPUs of it that the actor sees."""
        gpus = ",".join(map(str, ray.get_gpu_ids()))
        return {"node": ray.get_runtime_context().get_node_id(), "host": socket.gethostname(), "gpu": gpus}

    def step(self) -> dict[str, Any]:
        try:
            return self.here() | self._step()
        except StorageError as error:
            return self.here() | {"done": True, "status": "storage", "error": str(error)}
        except Exception as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
            told = self.here() | {"error": reason, "traceback": traceback.format_exc()[-8000:]}
            if isinstance(error, CaptureError):  # CUDA may be of no more use in this process
                raise NodeFault(told | {"kind": "capture"}) from None
            if is_of_the_node(error):
                kind = "out of memory" if is_out_of_memory(error) else "node"
                raise NodeFault(told | {"kind": kind}) from None
            self.release()
            return told | {"done": True, "status": "out of memory" if is_out_of_memory(error) else "failed"}

    def _step(self) -> dict[str, Any]:
        from pilotstudy.trial import TrialRun

        if self.under_way is None:
            if self._told_to_stop():
                return {"done": True, "status": "saved"}
            self.under_way = self._start()
        run: TrialRun = self.under_way
        started, record = time.monotonic(), None
        while not run.ended:
            record = run.advance() or record
            if self.work["each_epoch"] or time.monotonic() - started > self.work["slice_seconds"]:
                break
        report = {"epoch": run.trainer.epoch, "device": self.device, **(record or {})}
        if not run.ended:
            if self._told_to_stop():
                run.save()
                return report | {"done": True, "status": "saved"}
            return report
        result = run.finish(self.here() | {name: self.starts[name] for name in ("moves", "restarts")})
        assert run.files
        run.files.checkpoint.unlink(missing_ok=True)
        run.files.starts.unlink(missing_ok=True)
        self.release()
        # The driver need not fetch it from a store that may be far away.
        return report | {"done": True, "status": result["status"], "result": json.dumps(result)}

    def _told_to_stop(self) -> bool:
        return bool(_internal_kv_get(stop_mark(self.work["session"])))

    def _start(self) -> Any:
        if self.work["mps"]:
            from pilotstudy.cluster import mps

            mps.start()
        import torch

        from pilotstudy import device
        from pilotstudy.files import RunFiles, place, try_out
        from pilotstudy.spec import Trial
        from pilotstudy.trial import TrialRun

        where = device.choose("cuda" if self.work["gpus"] else "cpu")
        if where.type == "cuda":
            torch.cuda.set_per_process_memory_fraction(min(1.0, self.work["gpus"]) * 0.9)
        self.device = str(device.describe(where))
        folder = place(self.work["folder"])
        if self.work["folder"] not in self.tried:
            try_out(folder)  # a node whose role may not write must not train for hours first
            self.tried.add(self.work["folder"])
        files = RunFiles(folder).trial(self.work["key"])
        self.starts = self._count(files)
        trial = Trial.model_validate(self.work["trial"])
        options = {"where": where, **{name: self.work[name] for name in ("threads", "checkpoint_seconds", "graph")}}
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
        if known["restarts"] - self.work["forgiven"] > MAX_RESTARTS:
            raise RuntimeError(f"its actor died {known['restarts']} times")
        return known

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        return None

    def load_checkpoint(self, checkpoint: Any) -> None:
        return None
