"""The one place that chooses a device, and sets what torch keeps globally."""

from contextlib import AbstractContextManager

import torch

from pilotstudy.errors import InputError


def choose(name: str = "auto") -> torch.device:
    """`auto`: CUDA where there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"unknown device {name!r}: use auto, cpu, cuda or cuda:N") from error
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"device {name!r} is not supported: use auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"there is no device {name!r} here ({torch.cuda.device_count()} CUDA devices): use cpu")
    return device


def configure(device: torch.device, precision: str, threads: int | None) -> None:
    """Sets every global explicitly, because a process may run one trial after another."""
    if threads is not None:
        torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")
