"""What an error is put down to: the trial, its node, its share of a GPU, the store. The one place that decides it."""

import errno
import re
import socket
import traceback

import ray
from ray.exceptions import RayActorError, RayTaskError

from pilotstudy.cluster import capacity
from pilotstudy.cluster.messages import Fault, FaultKind
from pilotstudy.errors import CaptureError, DeviceError, StorageError
from pilotstudy.runs.records import Place

# Words of errors after which a CUDA context is of no use, to this trial or any other.
CUDA_ERRORS = ("CUDA error", "CUDA driver", "cuDNN error", "CUBLAS_STATUS", "CUDNN_STATUS", "NVML", "no CUDA-capable")
OUT_OF_MEMORY = ("out of memory", "ALLOC_FAILED")  # the second is how cuBLAS and cuDNN say it
NODE_ERRORS = (errno.EIO, errno.ENOSPC, errno.ESTALE, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class NodeFault(Exception):  # noqa: N818
    """A fault that ends the actor; the trial goes elsewhere."""

    def __init__(self, fault: Fault):
        super().__init__(fault)
        self.fault = fault


def recognise(error: BaseException, place: Place) -> Fault:
    """What an exception in an actor says; called where it was caught."""
    kind, ends_process = kind_of(error)
    if kind is FaultKind.STORAGE:
        return Fault(kind, str(error), place=place)
    reason = f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
    return Fault(kind, reason, traceback.format_exc()[-8000:], place, ends_process)


def kind_of(error: BaseException) -> tuple[FaultKind, bool]:
    """What an exception is put down to, and whether the process is of no more use after it."""
    import torch

    if isinstance(error, StorageError):
        return FaultKind.STORAGE, False
    if isinstance(error, CaptureError):  # CUDA may be of no more use in this process
        return FaultKind.CAPTURE, True
    of_the_node = is_of_the_node(error)
    # While training, or while CUDA makes its context, which torch tells by another error.
    if isinstance(error, torch.OutOfMemoryError) or (of_the_node and any(w in str(error) for w in OUT_OF_MEMORY)):
        return FaultKind.OUT_OF_MEMORY, of_the_node
    return (FaultKind.NODE, True) if of_the_node else (FaultKind.TRIAL, False)


def is_of_the_node(error: BaseException) -> bool:
    """Whether an error says something of the device or the node, and nothing of the trial."""
    import torch

    of_cuda = getattr(torch, "AcceleratorError", DeviceError)  # which older versions of torch do not have
    if isinstance(error, DeviceError | MemoryError | of_cuda):
        return True
    if isinstance(error, OSError):
        return error.errno in NODE_ERRORS
    return isinstance(error, RuntimeError) and any(words in str(error) for words in CUDA_ERRORS)


def fault_behind(cause: BaseException | None, seen: Place | None) -> Fault | None:
    """Why an actor ended, where it was not its node's loss. `seen`: where its trial was when it last told."""
    inner = getattr(cause, "cause", None) if isinstance(cause, RayTaskError) else None
    return inner.fault if isinstance(inner, NodeFault) else died_on_a_living_node(cause, seen)


def died_on_a_living_node(cause: BaseException | None, seen: Place | None) -> Fault | None:
    """Of a process that died while its node lives on, where it is known which that was.

    Before a trial has told anything, Ray's error names the address.
    """
    if not isinstance(cause, RayActorError):
        return None
    address = re.search(r"ip: (\S+)", str(cause))
    if not seen and address:
        there = [node for node in capacity.alive() if node["NodeManagerAddress"] == address[1]]
        seen = Place(there[0]["NodeID"], address[1]) if len(there) == 1 else None
    if not seen or not answers(seen.node):
        return None
    return Fault(FaultKind.NODE, f"its process died: {one_line(cause)[-200:]}", place=seen, ends_process=True)


def answers(node: str) -> bool:
    """Whether a node is still there. Ray may take a while to notice that one is lost, so it is asked itself."""
    living = next((info for info in ray.nodes() if info["NodeID"] == node and info["Alive"]), None)
    if living is None:
        return False
    try:
        with socket.create_connection((living["NodeManagerAddress"], living["NodeManagerPort"]), timeout=3):
            return True
    except OSError:
        return False


def without_digits(error: str) -> str:
    """For comparing errors: two of the same kind differ in addresses, sizes and times."""
    return re.sub(r"\d+", "", error)


def one_line(cause: BaseException | None) -> str:
    """An error of Ray's, which may be pages long."""
    return " ".join(str(cause or "unknown").split())[:300]
