"""The one place that chooses a device, says what it is, and sets what torch keeps globally."""

import os
import platform
import re
import subprocess
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from pilotstudy.errors import DeviceError, InputError

# The oldest driver on which a wheel's CUDA runs, by its major version (NVIDIA's minor version compatibility).
OLDEST_DRIVERS = {"11": "450", "12": "525", "13": "580"}


def choose(name: str = "auto") -> torch.device:
    """`auto`: CUDA where there is one, else the CPU. A CUDA device that cannot be used is an error, never a CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"unknown device {name!r}: use auto, cpu, cuda or cuda:N") from error
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"device {name!r} is not supported: use auto, cpu, cuda or cuda:N")
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise DeviceError(f"{name} was asked for and cannot be used: {why_not()}")
        if (device.index or 0) >= torch.cuda.device_count():
            raise DeviceError(f"there is no device {name!r} here ({torch.cuda.device_count()} CUDA devices)")
    return device


def why_not() -> str:
    """What is here, what torch needs, and what to do, where CUDA cannot be used."""
    where = platform.node()
    if torch.version.cuda is None:
        return f"torch {torch.__version__} on {where} is a build without CUDA; install one with it"
    oldest = OLDEST_DRIVERS.get(torch.version.cuda.split(".")[0], "a newer one")
    needs = f"torch {torch.__version__} brings CUDA {torch.version.cuda}, which needs NVIDIA's driver {oldest} or newer"
    cards, driver = nvidia_cards(), nvidia_driver()
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if driver is None:
        return f"{where} has no NVIDIA driver ({needs}); in a container, start it with --gpus all"
    named = f"{where} has {', '.join(cards) or 'no card that answers'} with driver {driver}"
    if hidden is not None and not hidden.strip():
        return f"{named}, but CUDA_VISIBLE_DEVICES is empty; {needs}"
    return f"{named}; {needs}: update the driver, or install a torch for an older CUDA"


def nvidia_driver() -> str | None:
    """The version of the driver: from the kernel, which containers see too, else from nvidia-smi."""
    try:
        version = re.search(r"Module\s+(?:for \S+\s+)?(\d+[\d.]+)", Path("/proc/driver/nvidia/version").read_text())
    except OSError:
        version = None
    return version[1] if version else next(iter(_smi("driver_version")), None)


def nvidia_cards() -> list[str]:
    """The names of the cards that nvidia-smi sees."""
    return _smi("name")


def _smi(query: str) -> list[str]:
    try:
        command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


@dataclass(frozen=True)
class Description:
    """What a trial runs on. CUDA's random draws depend on the number of multiprocessors."""

    device: str  # "cpu", or the card's name
    model: str
    driver: str | None = None
    cuda: str | None = None
    multiprocessors: int | None = None
    memory_gib: float | None = None
    capability: str | None = None

    def __str__(self) -> str:
        if self.device == "cpu":
            return f"CPU ({self.model})"
        return f"{self.model} ({self.memory_gib:.0f} GiB, driver {self.driver}, {self.multiprocessors} multiprocessors)"

    def record(self) -> dict[str, str | int | float | None]:
        """As results keep it."""
        return asdict(self)


def describe(where: torch.device) -> Description:
    """What a device is."""
    if where.type != "cuda":
        return Description("cpu", cpu_model())
    card = torch.cuda.get_device_properties(where)
    return Description(
        device=card.name,
        model=card.name,
        driver=nvidia_driver(),
        cuda=torch.version.cuda,
        multiprocessors=card.multi_processor_count,
        memory_gib=card.total_memory / 2**30,
        capability=f"{card.major}.{card.minor}",
    )


def cpu_model() -> str:
    """As the system names it."""
    try:
        model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        model = None
    return model[1].strip() if model else platform.processor() or platform.machine()


def unsupported(where: torch.device) -> str:
    """What this torch cannot do well on the device, in a line; empty if it can do everything."""
    if where.type != "cuda":
        return ""
    card = torch.cuda.get_device_properties(where)
    built = [int(name.removeprefix("sm_")) for name in torch.cuda.get_arch_list() if name.startswith("sm_")]
    if built and card.major * 10 + card.minor < min(built):
        return f"{card.name} (capability {card.major}.{card.minor}) is older than any that this torch was built for"
    return ""


def configure(device: torch.device, precision: str, threads: int | None) -> None:
    """Sets every global explicitly, because a process may run one trial after another."""
    if threads is not None:
        torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """In which losses are computed: bf16 where the study asks for it."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


def synchronise(device: torch.device) -> None:
    """Waits until the device has done what it was given: a timing without it measures the launches."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
