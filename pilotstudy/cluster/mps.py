"""NVIDIA's MPS, with which processes that share a GPU run their kernels side by side, not in turns."""

import contextlib
import os
import shutil
import subprocess
import tempfile

CONTROL = "nvidia-cuda-mps-control"


def start() -> bool:
    """Starts its daemon on this node, unless it runs; whether it is there. Before CUDA is first used."""
    if shutil.which(CONTROL) is None:
        return False
    folder = os.path.join(tempfile.gettempdir(), f"pilotstudy-mps-{os.getuid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    os.environ |= {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
    # A second daemon on the same folder refuses to start, and that is fine. It must see all GPUs, not this actor's, and
    # no pipe of ours, which it would keep open.
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    nowhere = subprocess.DEVNULL
    try:
        command = [CONTROL, "-d"]
        subprocess.run(command, env=environment, stdin=nowhere, stdout=nowhere, stderr=nowhere, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def end() -> None:
    """Ends the daemon that `start` started on this node."""
    folder = os.path.join(tempfile.gettempdir(), f"pilotstudy-mps-{os.getuid()}")
    if shutil.which(CONTROL) is None or not os.path.isdir(folder):
        return
    environment = os.environ | {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run([CONTROL], input=b"quit\n", env=environment, capture_output=True, timeout=30, check=False)
    shutil.rmtree(folder, ignore_errors=True)
