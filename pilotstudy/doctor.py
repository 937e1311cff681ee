"""What works on this machine, and what to do about the rest."""

import os
import platform
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from pilotstudy.data import prepared
from pilotstudy.errors import PilotstudyError
from pilotstudy.files import cache

GIB = 2**30


def examine(data_dir: Path | None = None) -> list[dict[str, Any]]:
    return [python(), *packages(), cuda(), memory(), disk(), *data(data_dir)]


def row(what: str, state: str, found: str, advice: str = "") -> dict[str, Any]:
    """`state`: works, fails (no study can run), or missing (something is slower or not there)."""
    return {"what": what, "state": state, "found": found, "what to do": advice}


def python() -> dict[str, Any]:
    fine = sys.version_info >= (3, 11)
    return row("Python", "works" if fine else "fails", platform.python_version(), "" if fine else "use 3.11 or newer")


def packages() -> list[dict[str, Any]]:
    """torch and torchvision are imported, because builds that do not fit each other fail only then."""
    rows = []
    for name in "torch", "torchvision":
        try:
            module = __import__(name)
            rows.append(row(name, "works", str(module.__version__)))
        except Exception as error:
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            rows.append(row(name, "fails", first, "pip install --force-reinstall torch torchvision, both together"))
    try:
        rows.append(row("ray", "works", metadata.version("ray")))
    except metadata.PackageNotFoundError:
        rows.append(row("ray", "missing", "not installed", "only `pilotstudy run` needs it; `train` works"))
    return rows


def cuda() -> dict[str, Any]:
    try:
        import torch

        if torch.cuda.is_available():
            names = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
            return row("CUDA", "works", ", ".join(f"{p.name} {p.total_memory / GIB:.0f} GiB" for p in names))
    except Exception as error:
        return row("CUDA", "missing", str(error).splitlines()[0], "training runs on the CPU")
    return row("CUDA", "missing", "no device", f"training runs on the CPU, {os.cpu_count()} cores")


def memory() -> dict[str, Any]:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    available = total
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        available = int(lines["MemAvailable"].split()[0]) / 2**20
    except (OSError, KeyError, ValueError):
        pass
    state, advice = ("works", "") if available > 2 else ("fails", "a trial needs about 1 GiB: close something")
    return row("memory", state, f"{available:.1f} of {total:.1f} GiB free", advice)


def disk() -> dict[str, Any]:
    folder = cache()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free / GIB
    if not os.access(folder, os.W_OK):
        return row("disk", "fails", f"{folder} cannot be written", "set PILOTSTUDY_CACHE to a folder of yours")
    state, advice = ("works", "") if free > 1 else ("fails", "prepared data need up to 0.5 GiB: free some space")
    return row("disk", state, f"{free:.0f} GiB free at {folder}", advice)


def data(data_dir: Path | None) -> list[dict[str, Any]]:
    rows = []
    for name in prepared.NAMES:
        try:
            known = prepared.describe(name, data_dir, verify=True)
        except PilotstudyError as error:
            rows.append(row(f"data {name}", "missing", str(error)))
            continue
        at_hand = known["from"] != "download"
        if known["state"] == "whole":
            rows.append(row(f"data {name}", "works", f"prepared, from {known['from']}"))
        elif known["state"] == "damaged":
            rows.append(row(f"data {name}", "works", "damaged", "it is made anew at its next use"))
        elif at_hand:
            rows.append(row(f"data {name}", "works", f"to be prepared, from {known['from']}"))
        else:
            advice = f"pilotstudy data prepare {name}, or --data-dir FOLDER"
            rows.append(row(f"data {name}", "missing", "not here", advice))
    return rows
