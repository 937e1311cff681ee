"""Means over seeds of the figures that trials stored, and the optimism of a search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from pilotstudy.evidence.costs import Cost, costs
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics.registry import DEFAULT_OBJECTIVE, METRICS
from pilotstudy.runs.records import Status
from pilotstudy.study.spec import Study
from pilotstudy.study.statements import Row


@dataclass(frozen=True)
class Spread:
    """Mean and sample deviation (with n − 1), which one seed does not have."""

    mean: float
    deviation: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(fmean(values), stdev(values) if len(values) > 1 else None)


@dataclass(frozen=True)
class SummaryRow:
    """The test figures of an arm in one mode, phase and epoch, over seeds."""

    arm: str
    mode: str
    phase: str
    at: str
    seeds: int
    figures: Mapping[str, Spread]  # by metric; without those that a network's predictions cannot tell
    cost: Cost

    def record(self) -> dict[str, object]:
        """For files: a column for each mean, and one for each deviation."""
        columns: dict[str, object] = {
            "arm": self.arm,
            "mode": self.mode,
            "phase": self.phase,
            "at": self.at,
            "seeds": self.seeds,
        }
        for name in METRICS:
            spread = self.figures.get(name)
            columns |= {name: spread.mean if spread else None, f"{name}_sd": spread.deviation if spread else None}
        return columns | self.cost.record()


def summary(evidence: RunEvidence) -> list[SummaryRow]:
    """A row for each arm, mode, phase and epoch."""
    groups: dict[tuple[str, str, str, str], list[Mapping[str, float]]] = {}
    by_row = costs(evidence)
    for row, evaluation in evidence.test_evaluations():
        group = row.arm, evaluation.mode, row.phase, evaluation.at
        groups.setdefault(group, []).append(evaluation.figures)
    return [
        SummaryRow(*group, len(by_seed), spreads(by_seed), by_row[Row(group[0], group[1], group[2])])
        for group, by_seed in groups.items()
    ]


def spreads(by_seed: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    """Of each metric that all seeds have."""
    known = [name for name in METRICS if all(name in figures for figures in by_seed)]
    return {name: Spread.of([figures[name] for figures in by_seed]) for name in known}


@dataclass(frozen=True)
class Optimism:
    """A searched arm's best validation figure, that of the same settings on fresh seeds, and the gap.

    It is optimism over seeds: the validation images are those that chose the settings. `trials`, `seconds`: what the
    search took, the seconds in training.
    """

    arm: str
    objective: str
    search: float
    confirmed: float
    optimism: float
    trials: int
    seconds: float


def chosen_by(study: Study) -> str:
    """The objective that decided what was confirmed, where it is known here."""
    first = study.search.objectives[0] if study.search else DEFAULT_OBJECTIVE
    return first if first in METRICS else DEFAULT_OBJECTIVE


def optimism(evidence: RunEvidence) -> list[Optimism]:
    """Of each arm that was searched and confirmed, by the objective that chose, among the trials that could win."""
    search, objective = evidence.study.search, chosen_by(evidence.study)
    if search is None:
        return []
    best = max if METRICS[objective].better == "higher" else min
    gaps = []
    for arm, spent in evidence.budget.spent.items():
        own = [row for row in evidence.trial_rows if row.arm == arm and row.status is Status.FINISHED]
        searched = [figures for row in own if row.phase == "search" and (figures := row.figures)]
        winners = [figures[objective] for figures in searched if figures["accuracy"] >= search.accuracy_floor]
        fresh = [figures[objective] for row in own if row.phase == "confirm" and (figures := row.figures)]
        if winners and fresh:
            promised, confirmed = best(winners), fmean(fresh)
            gap = confirmed - promised
            gaps.append(Optimism(arm, objective, promised, confirmed, gap, spent.trials, spent.seconds))
    return gaps
