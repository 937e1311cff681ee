"""Means over seeds of the figures that trials stored, and the optimism of a search."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import fmean, stdev

from pilotstudy.arms.arm import Choice, Range, Setting
from pilotstudy.evidence.costs import Cost, costs
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics.registry import DEFAULT_OBJECTIVE, METRICS
from pilotstudy.runs.records import Status
from pilotstudy.study.space import start_of
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
    leads: frozenset[str] = frozenset()  # metrics in which it has the best mean of its epoch

    @property
    def row(self) -> Row:
        return Row(self.arm, self.mode, self.phase)

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
    rows = [
        SummaryRow(*group, len(by_seed), spreads(by_seed), by_row[Row(group[0], group[1], group[2])])
        for group, by_seed in groups.items()
    ]
    return with_leads(rows, evidence.diverged)


def with_leads(rows: Sequence[SummaryRow], diverged: Collection[Row]) -> list[SummaryRow]:
    """Says which has the best mean of its epoch, by the rules of tables: one seed tells nothing of others, and a row
    with diverged seeds leads only where all have such.
    """
    leads: dict[int, set[str]] = {place: set() for place in range(len(rows))}
    for at in {row.at for row in rows}:
        several = [place for place, row in enumerate(rows) if row.at == at and row.seeds > 1]
        sound = [place for place in several if rows[place].row not in diverged] or several
        for name, metric in METRICS.items():
            known = {
                place: metric.sign * rows[place].figures[name].mean for place in sound if name in rows[place].figures
            }
            if metric.sign and known:
                leads[max(known, key=known.__getitem__)].add(name)
    return [replace(row, leads=frozenset(leads[place])) for place, row in enumerate(rows)]


def spreads(by_seed: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    """Of each metric that all seeds have."""
    known = [name for name in METRICS if all(name in figures for figures in by_seed)]
    return {name: Spread.of([figures[name] for figures in by_seed]) for name in known}


@dataclass(frozen=True)
class Optimism:
    """A searched arm's best validation figure, that of the same settings on fresh seeds, and the gap.

    It is optimism over seeds: the validation images are those that chose the settings. `trials`, `seconds`: what the
    search took, the seconds in training. `settings`: what it chose, in full.
    """

    arm: str
    objective: str
    search: float
    confirmed: float
    optimism: float
    trials: int
    seconds: float
    settings: str


def chosen_by(study: Study) -> str:
    """The objective that decided what was confirmed, where it is known here."""
    first = study.search.objectives[0] if study.search else DEFAULT_OBJECTIVE
    return first if first in METRICS else DEFAULT_OBJECTIVE


def chosen_settings(evidence: RunEvidence, arm: str) -> dict[str, Setting]:
    """What a search chose for an arm: the settings that it was confirmed with, those first that moved furthest."""
    settings = next(row.settings for row in evidence.trial_rows if (row.phase, row.arm) == ("confirm", arm))
    space = evidence.spaces.get(arm, {})
    start = start_of(evidence.study, arm, space)
    found = {name: value for name, value in settings.items() if name in space} or settings
    return dict(sorted(found.items(), key=lambda each: -moved(space.get(each[0]), start.get(each[0]), each[1])))


def moved(space: Range | Choice | None, start: Setting | None, end: Setting) -> float:
    """How far a search went from where it started, as a share of the range."""
    if not isinstance(space, Range) or not isinstance(start, int | float) or not isinstance(end, int | float):
        return float(start != end)
    if space.log and min(start, end, space.low) > 0:
        return abs(log(end / start)) / log(space.high / space.low)
    return abs(end - start) / (space.high - space.low)


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
            chosen = ", ".join(
                f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}"
                for name, value in chosen_settings(evidence, arm).items()
            )
            took = spent.trials, spent.seconds, chosen
            gaps.append(Optimism(arm, objective, promised, confirmed, confirmed - promised, *took))
    return gaps
