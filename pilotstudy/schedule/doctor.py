"""What works on this machine, or on a node of a cluster, and what to do about the rest."""

import os
import platform
import shutil
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from pilotstudy.data import dataset
from pilotstudy.data.dataset import cache
from pilotstudy.errors import DeviceError, PilotstudyError
from pilotstudy.storage import place, try_out

if TYPE_CHECKING:
    import torch

Row = dict[str, str]  # what, state, seen, what to do
GIB = 2**30
BATCH = 128
STEPPED = ("vanilla", "pilot-a-aug")  # the arms of which a node tries some steps


def examine(data_dir: Path | None = None, runs_dir: str | None = None) -> list[Row]:
    folder = [storage(runs_dir)] if runs_dir else []
    return [python(), *packages(), *cuda(), memory(), disk(), *folder, *data(data_dir)]


def row(what: str, state: str, seen: str, advice: str = "") -> Row:
    """`state`: works, fails (no study can run), or missing (something is slower or not there)."""
    return {"what": what, "state": state, "found": seen, "what to do": advice}


def python() -> Row:
    fine = sys.version_info >= (3, 11)
    return row("Python", "works" if fine else "fails", platform.python_version(), "" if fine else "use 3.11 or newer")


def packages() -> list[Row]:
    """torch and torchvision are imported, because builds that do not fit each other fail only then."""
    rows = []
    for name in "torch", "torchvision":
        try:
            module = __import__(name)
            rows.append(row(name, "works", str(module.__version__)))
        except Exception as error:
            rows.append(
                row(name, "fails", first_line(error), "pip install --force-reinstall torch torchvision, both together")
            )
    try:
        rows.append(row("ray", "works", metadata.version("ray")))
    except metadata.PackageNotFoundError:
        rows.append(row("ray", "missing", "not installed", "only `pilotstudy run` needs it; `train` works"))
    return rows


def cuda() -> list[Row]:
    """A row for each device, with its driver and multiprocessors, or why there is none that can be used."""
    try:
        import torch

        from pilotstudy.trial import device

        if not torch.cuda.is_available():
            advice = f"training runs on the CPU, {os.cpu_count()} cores"
            return [row("CUDA", "missing", device.why_not(), advice)]
        return [card(torch.device("cuda", number)) for number in range(torch.cuda.device_count())]
    except Exception as error:
        return [row("CUDA", "missing", first_line(error), "training runs on the CPU")]


def card(where: "torch.device") -> Row:
    from pilotstudy.trial import device

    seen = f"{device.describe(where)}, CUDA {device.describe(where).cuda}"
    problem = device.unsupported(where)
    advice = f"{problem}: use another card, or an older torch" if problem else ""
    return row(f"CUDA {where.index or 0}", "fails" if problem else "works", seen, advice)


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def memory() -> Row:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    available = total
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        available = int(lines["MemAvailable"].split()[0]) / 2**20
    except (OSError, KeyError, ValueError):
        pass
    state, advice = ("works", "") if available > 2 else ("fails", "a trial needs about 1 GiB: close something")
    return row("memory", state, f"{available:.1f} of {total:.1f} GiB free", advice)


def disk() -> Row:
    folder = cache()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free / GIB
    if not os.access(folder, os.W_OK):
        return row("disk", "fails", f"{folder} cannot be written", "set PILOTSTUDY_CACHE to a folder of yours")
    state, advice = ("works", "") if free > 1 else ("fails", "prepared data need up to 0.5 GiB: free some space")
    return row("disk", state, f"{free:.0f} GiB free at {folder}", advice)


def storage(runs_dir: str, mark: str | None = None) -> Row:
    """Whether run folders can be written, read and deleted there. `mark`: a file of another node, to be seen here."""
    since = time.perf_counter()
    try:
        folder = place(runs_dir)
        if mark and not (folder / mark).exists():
            advice = "give --runs-dir a folder that all nodes share, or a URI such as s3://bucket/runs"
            return row("runs folder", "fails", f"{runs_dir} here is not the one that the driver writes to", advice)
        try_out(folder)
    except Exception as error:  # an object store's client has errors of many kinds
        advice = "give the node rights to read, write and delete there (a role or credentials), or choose another"
        seen = first_line(error)
        return row("runs folder", "fails", seen if runs_dir in seen else f"{runs_dir}: {seen}", advice)
    return row("runs folder", "works", f"{runs_dir} written, read, deleted in {time.perf_counter() - since:.1f} s")


def node(gpu: bool, trains: bool, runs_dir: str | None = None, mark: str | None = None) -> list[Row]:
    """What one node of a cluster can do: its device, some steps of two arms on it, and the runs folder."""
    folder = [storage(runs_dir, mark)] if runs_dir else []
    if not trains:
        return [row("device", "works", "takes no trials"), *folder]
    import torch

    from pilotstudy.trial import device

    try:
        where = device.choose("cuda" if gpu else "cpu")
        seen = f"{device.describe(where)}, torch {torch.__version__}"
        problem = device.unsupported(where)
        if problem:
            return [row("device", "fails", seen, f"{problem}: use another card, or an older torch"), *folder]
        return [row("device", "works", seen), *steps(where), *folder]
    except DeviceError as error:
        return [row("device", "fails", first_line(error), "no trial that asks for a GPU can run here"), *folder]


def steps(where: "torch.device") -> list[Row]:
    """Milliseconds a step of the paper's CNN on made-up images, without and with Pilot."""
    import numpy as np

    from pilotstudy.data.dataset import DataSet
    from pilotstudy.schedule.timing import STEPS, short_epoch, shorten
    from pilotstudy.study.budget import fixed_trial
    from pilotstudy.study.reading import validate_study
    from pilotstudy.trial.trainer import Trainer

    random = np.random.default_rng(0)
    images = random.integers(0, 256, ((STEPS + 1) * BATCH, 3, 32, 32), dtype=np.uint8)
    labels = np.arange(len(images)) % 10
    made = DataSet("made-up", tuple("0123456789"), "made-up", images, labels, images[:10], labels[:10])
    content = {
        "title": "doctor",
        "data": {"name": "made-up", "validation": BATCH},
        "network": {"name": "cnn"},
        "training": {"epochs": 1, "batch_size": BATCH},
        "arms": {arm: {} for arm in STEPPED},
    }
    rows = []
    for arm in STEPPED:
        try:
            trainer = Trainer(fixed_trial(validate_study(content, "doctor"), arm, 0), made, where, threads=1)
            seconds, _ = short_epoch(trainer, shorten(trainer, STEPS)[1])
            rows.append(row(arm, "works", f"{1000 * seconds:.2f} ms a step of the cnn, alone"))
        except Exception as error:
            rows.append(row(arm, "fails", f"{type(error).__name__}: {first_line(error)}", "no trial can train here"))
    return rows


def data(data_dir: Path | None) -> list[Row]:
    rows = []
    for name in dataset.NAMES:
        try:
            known = dataset.data_state(name, data_dir, verify=True)
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
