"""What planned looks at a run say: who still needs seeds, and what was spent and saved."""

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import cast

import numpy as np

from pilotstudy.errors import InputError
from pilotstudy.evidence.claims import Standing, Verdict, rows_of, stand
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics import intervals
from pilotstudy.metrics.intervals import Estimate
from pilotstudy.metrics.registry import DEFAULT_OBJECTIVE, resampled_metrics
from pilotstudy.runs.folder import Run
from pilotstudy.study.budget import counts, planned_rows
from pilotstudy.study.looks import Looks, Seeded, Wanted
from pilotstudy.study.spec import Claim
from pilotstudy.study.statements import ENSEMBLE, Row, Statement


def still_wanted(run: Run) -> Wanted:
    """The arms that an open claim is about, and, while there is one, those that may have the best row."""
    evidence = RunEvidence(run)
    looks = evidence.looks
    assert looks
    statements = parsed_claims(evidence) if evidence.finished else {}
    planned = planned_rows(evidence.study, evidence.arms)
    rows = [
        row
        for place, standing in stand(evidence, statements).items()
        if standing.look == looks.taken and is_open(standing, looks.most)
        for row in rows_of(statements[place], planned)
    ]
    if rows:
        rows += perhaps_best(evidence, looks)
    wanted: dict[Seeded, set[str]] = {"arms": set(), "confirm": set()}
    for row in rows:
        wanted[cast(Seeded, row.phase)].add(row.arm)
    return wanted


def parsed_claims(evidence: RunEvidence) -> dict[int, Statement]:
    """The claims of the study that can be read, by their place."""
    statements = {}
    for place, claim in enumerate(evidence.study.claims):
        try:
            statements[place] = Statement.parse(claim.holds, evidence.known, evidence.kinds)
        except InputError:  # whoever judges it says so
            continue
    return statements


def is_open(standing: Standing, most: int) -> bool:
    """Whether a claim is not decided, and perhaps will be with `most` seeds."""
    judgement, shown = standing.judgement, standing.judgement.shown
    if standing.verdict != "undecided" or shown is None or shown.is_barred:
        return False
    if shown.seeds < 2:  # the others diverged, or it is an ensemble of all seeds, which is one network
        return all(row.mode != "seeds" for row in judgement.rows)
    return may_be_decided(shown, most)


def may_be_decided(difference: Estimate, most: int) -> bool:
    """Whether so many seeds could show it, if it is as large as the far end of its 50 % interval.

    To take it as large as it looks would give up a third of what the last look can decide.
    """
    half = intervals.half_width(difference.points_variance, difference.of_seeds, difference.networks_variance, 0.25)
    needed = intervals.seeds_needed(replace(difference, value=abs(difference.value) + half))
    return needed is not None and needed.low <= most


def perhaps_best(evidence: RunEvidence, looks: Looks) -> list[Row]:
    """Which arms' rows may be the best, of those that have all seeds of the last look; none where one surely is.

    A row with diverged seeds will not be.
    """
    search = evidence.study.search
    objective = search.objectives[0] if search else DEFAULT_OBJECTIVE
    if objective not in resampled_metrics():
        return []
    figures = evidence.at_look(looks.current).figures([objective])
    sound = [row for row in figures.rows if row.mode != ENSEMBLE and row not in figures.diverged]
    rows = [row for row in sound if has_all(looks, row)]
    best = figures.best(objective, rows)
    return [row for row in rows if not best.is_real and best.mark(row)]


def has_all(looks: Looks, row: Row) -> bool:
    return looks.given[cast(Seeded, row.phase)].get(row.arm, 0) >= looks.current.seeds


@dataclass(frozen=True)
class ClaimOutcome:
    """How a claim stands after the looks so far: `look`, from 1 on, is the one that decided it, or its last."""

    holds: str
    verdict: Verdict
    look: int | None
    seeds: int
    is_open: bool  # it may still be decided

    @property
    def is_decided(self) -> bool:
        return self.verdict in ("holds", "fails")


@dataclass(frozen=True)
class Outcome:
    """What came of adding seeds until the claims were decided, and what that cost.

    Saved is against the seeds of the last look for every arm. Seconds are of training, all trials together.
    """

    looks: tuple[int, ...]  # how many seeds each has
    taken: int
    claims: tuple[ClaimOutcome, ...]
    trials: int
    trials_saved: int
    seconds: float
    seconds_saved: float

    def record(self) -> dict[str, object]:
        return asdict(self)

    @property
    def words(self) -> list[str]:
        """In two lines."""
        most = self.looks[-1]
        deciding = Counter(claim.look for claim in self.claims if claim.is_decided)
        at = [f"{deciding[n]} at look {n} with {seeds} seeds" for n, seeds in enumerate(self.looks, 1) if deciding[n]]
        decided, still = deciding.total(), sum(claim.is_open for claim in self.claims)
        untested = sum(claim.verdict == "not tested" for claim in self.claims)
        never = len(self.claims) - decided - still - untested
        hardly = f" that {most} seeds would hardly decide" if self.taken < len(self.looks) else ""
        parts = [
            f"{decided} of {len(self.claims)} claims decided" + (f" ({', '.join(at)})" if at else ""),
            f"{never} left undecided{hardly}" if never else "",
            f"{still} open" if still else "",
            f"{untested} could not be tested" if untested else "",
        ]
        return [
            ", ".join(filter(None, parts)),
            f"{self.trials} trials, {self.seconds:.0f} s of training; {self.trials_saved} trials and about "
            f"{self.seconds_saved:.0f} s were saved against {most} seeds for every arm",
        ]


def outcome(evidence: RunEvidence) -> Outcome | None:
    """Of a run whose looks were planned; None of any other."""
    looks = evidence.looks
    if looks is None or looks.exceeded:
        return None
    standings = stand(evidence, parsed_claims(evidence)) if evidence.finished else {}
    given, most = counts(evidence.study, looks), counts(evidence.study)
    seconds = {row.key: row.training_seconds or 0.0 for row in evidence.trial_rows}
    return Outcome(
        looks=tuple(look.seeds for look in looks.plan),
        taken=looks.taken,
        claims=tuple(
            claim_outcome(claim, standings.get(place), looks) for place, claim in enumerate(evidence.study.claims)
        ),
        trials=sum(given.values()),
        trials_saved=sum(most.values()) - sum(given.values()),
        seconds=sum(seconds.values()),
        seconds_saved=saved_seconds(evidence, looks),
    )


def claim_outcome(claim: Claim, standing: Standing | None, looks: Looks) -> ClaimOutcome:
    if standing is None:
        return ClaimOutcome(claim.holds, "not tested", None, 0, is_open=False)
    shown = standing.judgement.shown
    may_be_decided = not (standing.is_complete and looks.last) and is_open(standing, looks.most)
    return ClaimOutcome(
        claim.holds,
        standing.verdict,
        standing.look,
        shown.seeds if shown else 0,
        is_open=may_be_decided and standing.look == looks.taken,
    )


def saved_seconds(evidence: RunEvidence, looks: Looks) -> float:
    """What the seeds that were not needed would have taken, by the mean of the arm's others."""
    saved = 0.0
    for phase, by_arm in looks.given.items():
        for arm, number in by_arm.items():
            own = [row.training_seconds for row in evidence.trial_rows if (row.phase, row.arm) == (phase, arm)]
            known = [seconds for seconds in own if seconds is not None]
            saved += (looks.most - number) * float(np.mean(known)) if known else 0.0
    return saved
