"""What a trial is given, where a study runs, and when it ends before it is done."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import Field, field_validator

from pilotstudy.study.section import Section

Share = float | Literal["auto"]
LEAST = 1e-9  # seconds or dollars: 0 would be no limit


def share_of_gpu(text: object) -> Share:
    """A trial's share of a GPU: 1, 1/k for k trials on one (also as the text "1/3"), 0 for none, or "auto"."""
    if text == "auto":
        return "auto"
    try:
        digits = str(text)
        share = 1 / int(digits[2:]) if digits.startswith("1/") else float(digits)
        trials = round(1 / share) if share else 1
    except (ValueError, ZeroDivisionError, OverflowError):
        share = trials = -1
    if share > 1:
        raise ValueError("a trial trains on one GPU: give 1, or 1/k for k trials on one (0.5, 0.25, 1/3, ..)")
    if not 0 <= share <= 1 or (share and abs(share * trials - 1) > 1e-6):
        raise ValueError("give 1, 1/k for k trials on one GPU (0.5, 0.25, 1/3, ..), 0 for the CPU, or auto")
    return share


class Resources(Section):
    """What each trial is given, and how many run at once.

    `cpus_per_trial`: CPUs, and so torch threads. `gpus_per_trial`: 1/k for k trials on a GPU, 0 for the CPU, or "auto"
    (one trial's memory decides). `concurrency`: trials at once; by default as many as fit. `checkpoint_seconds`: how
    often a trial saves itself, so how much of it a crash can cost; 0 is after every epoch. `mps`: start NVIDIA's MPS on
    nodes that have it, for trials that share a GPU.
    """

    cpus_per_trial: int = Field(1, ge=1)
    gpus_per_trial: Share = 0.0
    concurrency: int | None = Field(None, ge=1)
    checkpoint_seconds: float = Field(10.0, ge=0, strict=False)
    mps: bool = False

    @field_validator("gpus_per_trial", mode="before")
    @classmethod
    def _one_gpu_at_most(cls, share: object) -> Share:
        return 0.0 if share is None else share_of_gpu(share)

    def changed(self, changes: Mapping[str, object]) -> "Resources":
        """The same with these keys changed; a change to None is none."""
        return Resources.model_validate(self.model_dump() | {k: v for k, v in changes.items() if v is not None})


@dataclass(frozen=True)
class Location:
    """Where a study runs and where its data lie. What it computes, and with what, is in the study itself."""

    data_dir: str | None = None
    address: str | None = None  # of a Ray cluster; None: an embedded one


@dataclass(frozen=True)
class Limits:
    """When a run ends before it is done. `max_cost` in dollars, at `price` dollars an hour for each machine.

    `wait`: minutes to wait for a cluster's first node before giving up.
    """

    time_budget: float | None = None
    max_cost: float | None = None
    price: float | None = None
    wait: float = 30.0

    def less(self, seconds: float, dollars: float) -> "Limits":
        """What is left of them; what is used up is as good as nothing."""
        time_budget = None if self.time_budget is None else max(self.time_budget - seconds, LEAST)
        max_cost = None if self.max_cost is None else max(self.max_cost - dollars, LEAST)
        return replace(self, time_budget=time_budget, max_cost=max_cost)
