"""What a machine with a GPU costs an hour, and how long a step takes on a GPU that is not here: a table and a model."""

import math
import re
from dataclasses import dataclass
from typing import TypedDict

from pilotstudy.console import message
from pilotstudy.errors import InputError, nearest

DATE = "February 2026"  # of the prices: list prices of US regions, rounded; spot prices change by the hour
SPREAD = "±50 %"  # of what `step_seconds` says
START_MINUTES = 5.0  # from asking for a machine to its first trial: it boots and loads some GB of image; it is paid for

WAIT = 15e-6  # s that the host stands still where it asks the device for a number
SHORTEST = 2e-6  # s that the smallest kernel takes
OF_BANDWIDTH, OF_PEAK = 0.8, 0.5  # how much of a card's data sheet such kernels reach


@dataclass(frozen=True)
class Gpu:
    """`price` and `spot`: dollars an hour of `machine`, the smallest with one of them. `bandwidth`: GB/s.

    `teraflops`: float32, no tensor cores. `launch`: µs that the machine's CPU takes to start a kernel from Python.
    """

    name: str
    machine: str
    price: float
    spot: float | None
    memory_gib: int
    bandwidth: float
    teraflops: float
    launch: float

    @property
    def one(self) -> str:
        return f"{'a' if self.name[0] == 'T' else 'an'} {self.name}"

    @property
    def origin(self) -> str:
        spot = f", some {self.spot:.2f} $ as spot" if self.spot else ""
        return f"{self.price:.2f} $ an hour on demand{spot}: {self.machine}, {DATE}"

    def is_card(self, card: str) -> bool:
        """Whether a card of this name, such as "NVIDIA A100-SXM4-40GB", is one."""
        return re.search(rf"\b{self.name}\b", card) is not None


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("T4", "AWS g4dn.xlarge", 0.53, 0.22, 16, 320, 8.1, 8.0),
        Gpu("L4", "GCP g2-standard-4", 0.71, 0.28, 24, 300, 30.3, 7.5),
        Gpu("A10G", "AWS g5.xlarge", 1.01, 0.45, 24, 600, 31.2, 7.5),
        Gpu("A6000", "one of a smaller provider", 0.80, None, 48, 768, 38.7, 6.5),
        Gpu("A100", "GCP a2-highgpu-1g", 3.67, 1.30, 40, 1555, 19.5, 6.5),
        Gpu("H100", "AWS p5.4xlarge", 6.88, 2.50, 80, 3350, 66.9, 5.5),
    )
}
TOO_OLD = ("K80", "P4", "P100", "V100")  # torch's wheels are built for T4 (capability 7.5) and newer


def find(name: str) -> Gpu:
    if name.upper() in TOO_OLD:
        raise InputError(f"--gpu {name}: torch no longer runs on it; known are {', '.join(GPUS)}.")
    if name.upper() not in GPUS:
        raise InputError(f"--gpu {name}: not in the table: {nearest(name.upper(), list(GPUS))}")
    return GPUS[name.upper()]


def price_of(text: str) -> float:
    """Dollars an hour: a number, or a GPU of the table, such as L4 or, for its spot price, L4-spot."""
    try:
        dollars = float(text)
    except ValueError:
        name, _, kind = text.upper().partition("-")
        gpu = GPUS.get(name)
        listed = {"": gpu.price, "SPOT": gpu.spot}.get(kind) if gpu else None
        if gpu is None or listed is None:
            known = f"{', '.join(GPUS)}, or with -spot behind it"
            raise InputError(f"--price {text}: give dollars an hour, such as 0.7, or a GPU: {known}") from None
        message(f"--price {text}: {listed:.2f} $ an hour ({gpu.machine}, {DATE})")
        return listed
    if not (math.isfinite(dollars) and dollars > 0):
        raise InputError(f"--price {text}: give dollars an hour, more than 0, such as 0.7")
    return dollars


@dataclass(frozen=True)
class Work:
    """What a device is given to do. `waits`: how often the host asks it for a number and stands still."""

    launches: float = 0.0
    waits: float = 0.0
    bytes: float = 0.0
    flops: float = 0.0

    def less(self, other: "Work", parts: float = 1.0) -> "Work":
        """One of `parts` equal parts of what is left without `other`."""
        ours, theirs = vars(self), vars(other)
        return Work(**{name: (ours[name] - theirs[name]) / parts for name in ours})


def step_seconds(gpu: Gpu, work: Work, *, graph: bool = False) -> float:
    """Seconds on a GPU that nobody else uses, ±50 %, from what was counted on a CPU.

    Assumed: the host starts kernels one after another (5 to 8 µs each from Python; with a CUDA graph none) while the
    device works, so that the slower of the two decides. The device's kernels move their bytes at 80 % of the card's
    bandwidth (Adam alone: 28 bytes a parameter), compute at half its float32 peak, and take 2 µs at least. TF32, bf16
    and caches are left out. Small networks are bound by launches everywhere, Pilot's DGM by bandwidth on T4 and L4.
    """
    host = 0.0 if graph else work.launches * gpu.launch * 1e-6 + work.waits * WAIT
    moved = work.bytes / (OF_BANDWIDTH * gpu.bandwidth * 1e9)
    computed = work.flops / (OF_PEAK * gpu.teraflops * 1e12)
    return max(host, moved + computed, work.launches * SHORTEST)


class Machines(TypedDict):
    """What so many machines take, and cost."""

    machines: int
    seconds: float
    dollars: float


def machines(seconds: float, longest: float, price: float) -> list[Machines]:
    """What one machine needs `seconds` for, on 1, 2, 4 and 8 of them: wall-clock and dollars, starts included.

    `longest`: seconds below which no number of machines comes, because some trials wait for others.
    """
    rows: list[Machines] = []
    for number in 1, 2, 4, 8:
        wall = 60 * START_MINUTES + max(seconds / number, longest)
        rows.append({"machines": number, "seconds": wall, "dollars": number * wall / 3600 * price})
    return rows
