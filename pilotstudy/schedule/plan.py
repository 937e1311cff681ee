"""What a study would cost: a few timed steps of each of its arms, or an estimate for a GPU that is not here.

A short epoch is trained as trials train it, and evaluated on validation images; test images are only counted.
"""

import os
import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypedDict

import torch

from pilotstudy.console import Progress
from pilotstudy.data.dataset import DataSet
from pilotstudy.schedule import prices
from pilotstudy.schedule.prices import Gpu
from pilotstudy.schedule.timing import Cost, estimated, measured
from pilotstudy.study.budget import Budget, counts, fixed_trial
from pilotstudy.study.rows import arm_of
from pilotstudy.study.shares import expected_shares
from pilotstudy.study.spec import Study
from pilotstudy.study.testsets import load_study_data
from pilotstudy.trial import device
from pilotstudy.trial.trainer import Trainer

START_SECONDS = 15.0  # Ray's own start, and that of its first actors
CONTEXT_GIB = 0.5  # what CUDA itself takes of a GPU's memory for each process


class ArmCost(TypedDict):
    """What an arm's trials cost, and how many there are in each phase."""

    arm: str
    ms_a_step: float
    seconds_a_trial: float
    arms: int
    search: int
    confirm: int
    seconds: float


class Plan(TypedDict):
    """What a study would cost. Memory is not known of a machine that is not here, nor dollars without a price."""

    arms: list[ArmCost]
    trials: int
    device: str
    measured: bool
    concurrency: int
    seconds: float
    ends: str
    memory_gib: float | None
    gpu_memory_gib: float | None
    price: float | None
    machine: str
    machines: list[prices.Machines]
    notes: list[str]


def plan_study(
    study: Study,
    data_dir: Path | None,
    *,
    gpu: Gpu | None = None,
    price: float | None = None,
) -> Plan:
    """Where trials have a share of a GPU, the GPU is timed that `run` will use, else the CPU.

    `gpu`: a machine with such a GPU instead; it is measured where it is here, and estimated where it is not.
    """
    resources = study.resources
    cpus, share, concurrency = resources.cpus_per_trial, resources.gpus_per_trial, resources.concurrency
    here = gpu is not None and torch.cuda.is_available() and gpu.is_card(torch.cuda.get_device_name())
    where = device.choose("cuda" if here or (share and gpu is None) else "cpu")
    guessed = None if here else gpu
    data = load_study_data(study, data_dir)

    def cost_of(arm: str) -> Cost:
        trainer = Trainer(fixed_trial(study, arm, study.seeds[0]), data, where, cpus)
        return estimated(trainer, guessed) if guessed else measured(trainer)

    rows = arm_rows(study, cost_of)
    together = 1 if share in (0, "auto") else round(1 / float(share))  # trials on one GPU
    room = max(1, (os.cpu_count() or 1) // cpus)
    if guessed or where.type == "cuda":
        gpus = 1 if guessed else torch.cuda.device_count()
        fit = gpus * together if guessed else min(gpus * together, room)
        at_once = min(fit, concurrency or fit)
        lanes = min(gpus, at_once)  # no speed-up is counted for trials that share a GPU
    else:
        at_once = lanes = concurrency or room
    total, longest = sum(row["seconds"] for row in rows) / lanes, longest_chain(rows)
    seconds = max(total, longest) + (60 * prices.START_MINUTES if guessed else START_SECONDS)
    dollars = price or (gpu.price if gpu else None)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    on_gpu = torch.cuda.max_memory_reserved() / 2**30 + CONTEXT_GIB if where.type == "cuda" else None
    return {
        "arms": rows,
        "trials": sum(counts(study).values()),
        "device": guessed.one if guessed else str(device.describe(where)),
        "measured": guessed is None,
        "concurrency": at_once,
        "seconds": seconds,
        "ends": time.strftime("%Y-%m-%d %H:%M", time.localtime(time.time() + seconds)),
        "memory_gib": None if guessed else peak * at_once,
        "gpu_memory_gib": None if on_gpu is None else on_gpu * together,
        "price": dollars,
        "machine": f"one machine with {gpu.one}" if gpu else "one machine like this one",
        "machines": prices.machines(total, longest, dollars) if dollars else [],
        "notes": notes(share, together, dollars, listed=gpu if price is None else None) + notes_on_tests(study, data),
    }


def notes_on_tests(study: Study, data: DataSet) -> list[str]:
    """What the predictions of further test sets take on disk: float32, before compression."""
    if not data.tests:
        return []
    images = sum(len(test.images) for test in data.tests)
    budget = Budget.of(study)
    models = 0
    for arm in study.arms:
        trials = budget.trials_of(arm)
        models += len(arm_of(study, arm).modes) * (trials["arms"] + trials["confirm"])
    size = models * images * len(data.classes) * 4
    return [f"predictions of {len(data.tests)} test sets ({images:,} images) take some {size / 1e6:,.0f} MB on disk"]


def arm_rows(study: Study, cost_of: Callable[[str], Cost]) -> list[ArmCost]:
    budget = Budget.of(study)
    costs: dict[str, Cost] = {}
    with Progress("timing", len(study.arms)) as progress:
        for arm in study.arms:
            costs[arm] = cost_of(arm)
            progress.advance()
    shares: Mapping[str, int] = budget.search_trials
    if budget.search_by == "seconds":
        shares = expected_shares({arm: costs[arm].trial for arm in budget.search_trials}, budget.search_total)
    rows: list[ArmCost] = []
    for arm, cost in costs.items():
        trials = budget.trials_of(arm) | {"search": shares.get(arm, 0)}
        rows.append(
            {
                "arm": arm,
                "ms_a_step": 1000 * cost.step,
                "seconds_a_trial": cost.trial,
                "arms": trials["arms"],
                "search": trials["search"],
                "confirm": trials["confirm"],
                "seconds": cost.trial * sum(trials.values()),
            }
        )
    return rows


def longest_chain(rows: list[ArmCost]) -> float:
    """Seconds that no number of machines can save: the longest trial, and after the search the longest confirmation."""
    confirmed = [row["seconds_a_trial"] for row in rows if row["confirm"]]
    return float(max(row["seconds_a_trial"] for row in rows) + max(confirmed, default=0.0))


def notes(share: float | str, together: int, price: float | None, listed: Gpu | None) -> list[str]:
    """What the figures rest on. `listed`: the GPU whose price is that of our table."""
    told = []
    if together > 1:
        told.append(f"{together} trials share a GPU: times are of one alone, and no speed-up from sharing is counted")
    elif share == "auto":
        told.append("how many trials share a GPU is decided when the study runs; no speed-up from sharing is counted")
    if price:
        told.append(f"a machine takes {prices.START_MINUTES:g} min to start, which is paid and counted")
        told.append("with more than one, a small machine for the cluster's head (some 0.1 $ an hour) comes on top")
    if listed:
        told.append(f"the price is {listed.origin}; --price sets another")
    return told
