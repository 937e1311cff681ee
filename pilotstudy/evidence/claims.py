"""What a run says of claims: holds, fails, undecided, each with its numbers, interval and budget."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from pilotstudy.errors import InputError
from pilotstudy.evidence.figures import Figures, diverged_in_words
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics import intervals
from pilotstudy.metrics.intervals import Estimate
from pilotstudy.runs.folder import Run
from pilotstudy.study.budget import Budget, planned_rows
from pilotstudy.study.looks import Looks
from pilotstudy.study.spec import Claim
from pilotstudy.study.statements import ENSEMBLE, Row, Statement

Verdict = Literal["holds", "fails", "undecided", "not tested"]
Stated = Literal["before", "after"]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A claim and its verdict.

    `holds`: the claim as a statement. `verdict`: corrected for all claims of the study. `difference`: its left side
    less its right, for the opponent that is hardest to decide against. `stated`: whether the claim was made before the
    run's first result was there.
    """

    section: str
    says: str
    holds: str
    verdict: Verdict
    uncorrected: Verdict  # if it were the only claim
    reason: str
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None  # of the verdict; where a group fails, corrected for its opponents
    p_holm: float | None = None  # over all claims of the study
    looks: float = 1  # by which p is multiplied already
    look: int | None = None  # where looks were planned: at which it was decided, or the last that it had
    hardest: str = ""  # in a group: against whom
    opponents: int = 0
    seeds: int = 0
    budget: str = ""
    stated: Stated

    def record(self) -> dict[str, object]:
        return asdict(self)


def judge_all(evidence: RunEvidence, extra: Iterable[Claim] = ()) -> list[Judged]:
    """All claims of a run's study, and `extra` ones, which count as written after it."""
    claims: list[tuple[Claim, Stated]] = [
        (claim, "before" if stated_before(evidence.run, claim) else "after") for claim in evidence.study.claims
    ]
    claims += [(claim, "after") for claim in extra]
    statements: dict[int, Statement] = {}  # by the place of their claim
    problems: dict[int, str] = {}
    for place, (claim, _) in enumerate(claims):
        try:
            statements[place] = Statement.parse(claim.holds, evidence.known, evidence.kinds)
        except InputError as error:  # an earlier version took it
            problems[place] = str(error)
    of_study = {place: statement for place, statement in statements.items() if place < len(evidence.study.claims)}
    standings = stand(evidence, of_study)
    if len(statements) > len(of_study):  # what is asked besides does not change the study's verdicts
        standings = stand_now(evidence, statements) | standings
    budget = evidence.budget
    return [
        Judged(
            section=claim.section,
            says=claim.says,
            holds=claim.holds,
            verdict="not tested",
            uncorrected="not tested",
            reason=problems[place],
            stated=stated,
        )
        if place in problems
        else standings[place].of_claim(claim, stated, budget)
        for place, (claim, stated) in enumerate(claims)
    ]


@dataclass(frozen=True)
class Corrected:
    """A p-value after Holm's correction, and for how many claims that was."""

    p: float
    claims: int


def corrected(family: Mapping[int, float]) -> dict[int, Corrected]:
    """Of the claims that can be tested."""
    adjusted = zip(family, intervals.holm(list(family.values())), strict=True)
    return {place: Corrected(p, len(family)) for place, p in adjusted}


@dataclass(frozen=True)
class Standing:
    """How a claim stands: now, or where looks were planned at one of them, which `is_complete` when all seeds are."""

    judgement: "Judgement"
    correction: Corrected | None
    look: int | None = None  # from 1 on
    is_complete: bool = True

    @property
    def verdict(self) -> Verdict:
        verdict = self.judgement.verdict(self.correction)
        return verdict if self.is_complete or verdict == "not tested" else "undecided"

    @property
    def is_decided(self) -> bool:
        return self.verdict in ("holds", "fails")

    def of_claim(self, claim: Claim, stated: Stated, budget: Budget) -> Judged:
        judged = replace(self.judgement.of_claim(claim, stated, self.correction, budget), look=self.look)
        if self.look is None or budget.looks is None:
            return judged
        rests_on = budget_in_words(self.judgement.rows, budget.at_look(self.look), judged.seeds)
        judged = replace(judged, budget=f"look {self.look} of {len(budget.looks.plan)}: {rests_on}")
        if self.is_complete or judged.verdict == "not tested":
            return judged
        return replace(judged, verdict=self.verdict, uncorrected=self.verdict, reason="the look is not complete")


def stand(evidence: RunEvidence, statements: dict[int, Statement]) -> dict[int, Standing]:
    """How the claims of a study stand, by the rule of its run: looks that were planned, or all that is there."""
    looks = evidence.looks
    return (
        stand_by_look(evidence, statements, looks) if looks and not looks.exceeded else stand_now(evidence, statements)
    )


def stand_now(evidence: RunEvidence, statements: dict[int, Statement]) -> dict[int, Standing]:
    """With all seeds that are there."""
    judgements = judge(evidence, statements)
    corrections = corrected({place: each.p for place, each in judgements.items() if each.p is not None})
    return {place: Standing(judgement, corrections.get(place)) for place, judgement in judgements.items()}


def stand_by_look(evidence: RunEvidence, statements: dict[int, Statement], looks: Looks) -> dict[int, Standing]:
    """At each planned look anew, from the seeds of then; what is decided at one stays so.

    Holm's correction is for all claims that are still open, those without more seeds included: group-sequential Holm
    (Maurer and Bretz, 2013).
    """
    planned = planned_rows(evidence.study, evidence.arms)
    rows = {place: rows_of(statement, planned) for place, statement in statements.items()}
    testable = {place for place in rows if all(row in planned for row in rows[place])}
    standings: dict[int, Standing] = {}
    for number, look in enumerate(looks.plan[: looks.taken], 1):
        earlier = evidence.at_look(look)
        ended = Counter[tuple[str, str]]((row.phase, row.arm) for row in earlier.trial_rows if row.status.final)
        unsettled = [place for place in statements if place not in standings or not standings[place].is_decided]
        complete = {place for place in unsettled if all(ended[row.phase, row.arm] >= look.seeds for row in rows[place])}
        judgements = judge(
            earlier, {place: statements[place] for place in unsettled if place in complete or number == 1}
        )
        p_values = {place: p for place in complete if (p := judgements[place].p) is not None}
        corrections = corrected({place: p_values.get(place, 1.0) for place in unsettled if place in testable})
        for place, judgement in judgements.items():
            standings[place] = Standing(judgement, corrections.get(place), number, place in complete)
    return standings


def rows_of(statement: Statement, planned: Sequence[Row]) -> list[Row]:
    """All rows that a statement is about; for the ensemble, those that it averages."""
    rows = [row for _, row in statement.terms]
    if statement.group:
        rows += statement.group.members(planned, rows[0])
    members = [row for row in planned if row.in_ensemble]
    return [part for row in rows for part in (members if row.mode == ENSEMBLE else [row])]


def judge(evidence: RunEvidence, statements: dict[int, Statement]) -> "dict[int, Judgement]":
    if not statements:
        return {}
    deep = any(row.mode == "seeds" for statement in statements.values() for _, row in statement.terms)
    planned = planned_rows(evidence.study, evidence.arms)
    judgements: dict[int, Judgement] = {}
    for recalibration, test in dict.fromkeys((each.recalibration, each.test) for each in statements.values()):
        alike = {
            place: each
            for place, each in statements.items()
            if (each.recalibration, each.test) == (recalibration, test)
        }
        metrics = list(dict.fromkeys(statement.metric for statement in alike.values()))
        is_plain = (recalibration, test) == ("none", "test")
        lacking = "" if is_plain else evidence.lacks(recalibration=recalibration, test=test)
        if lacking:  # the rows that there are must be known all the same
            figures = evidence.figures(deep=deep)
        else:
            figures = evidence.figures(metrics, recalibration=recalibration, deep=deep, test=test)
        for place, statement in alike.items():
            reason = lacking or evidence.lacks_metrics([statement.metric])
            judgements[place] = Judgement(statement, figures, planned, reason)
    return judgements


class Judgement:
    """A statement held against the figures: one comparison, or one with each row of a group.

    `lacking`: why there are no such figures; empty where there are.
    """

    def __init__(self, statement: Statement, figures: Figures, planned: Sequence[Row], lacking: str = ""):
        self.lacking = lacking
        self.sign = -1 if statement.relation == "<" else 1
        self.figures = figures
        self.rows = [row for _, row in statement.terms]
        self.estimates: dict[str, Estimate] = {}  # by opponent
        self.missing = [str(row) for row in self.rows if row not in figures.rows]
        self.absent: list[str] = []  # of a group: planned, but nothing to compare with
        if not (self.missing or lacking):
            opponents: Sequence[Row | None] = [None]
            if statement.group:
                opponents = statement.group.members(planned, self.rows[0])
                self.rows += [row for row in opponents if row]
            for opponent in opponents:
                terms = [*statement.terms, *([(-1.0, opponent)] if opponent else [])]
                there = opponent is None or opponent in figures.rows
                estimate = figures.contrast(statement.metric, terms, statement.constant) if there else None
                if estimate is not None:
                    self.estimates[str(opponent or "")] = estimate
                else:
                    self.absent.append(str(opponent))
            if not self.estimates:
                without = [
                    f"{statement.metric} of {row}" for row in self.rows if not figures.has(statement.metric, row)
                ]
                self.missing = without or ["rows to compare"]
        # Against each, how sure is it that the statement is true? The least sure decides.
        self.hardest = max(self.estimates, key=lambda opponent: self._doubt(self.estimates[opponent]), default="")
        self.shown = self.estimates.get(self.hardest)
        adjusted = intervals.holm([estimate.p for estimate in self.estimates.values()])
        self.adjusted = dict(zip(self.estimates, adjusted, strict=True))

    @property
    def p(self) -> float | None:
        """Of the verdict: it holds only against each opponent, so the least sure decides, and fails with any one."""
        if self.shown is None or self.shown.seeds < 2:
            return None
        return self.adjusted[self.hardest] if self.shown.direction == -self.sign else self.shown.p

    def _doubt(self, estimate: Estimate) -> float:
        """From 0, surely true, to 2, surely false."""
        return estimate.p_of_one_look if estimate.value * self.sign > 0 else 2 - estimate.p_of_one_look

    @property
    def uncorrected(self) -> Verdict:
        """The verdict if it were the only claim."""
        if self.missing or self.lacking:
            return "not tested"
        if any(estimate.seeds < 2 for estimate in self.estimates.values()):
            return "undecided"
        if all(estimate.sign == self.sign for estimate in self.estimates.values()):
            # Against every one of them, so no correction is needed; but every one must be there.
            return "undecided" if self.absent else "holds"
        wrong = (name for name, estimate in self.estimates.items() if estimate.direction == -self.sign)
        return "fails" if any(self.adjusted[name] < 1 - intervals.LEVEL for name in wrong) else "undecided"

    def verdict(self, correction: Corrected | None) -> Verdict:
        """Corrected for all claims."""
        if self.uncorrected in ("holds", "fails") and correction and correction.p >= 1 - intervals.LEVEL:
            return "undecided"
        return self.uncorrected

    def reason(self, correction: Corrected | None) -> str:
        """Why it is not decided; empty where it is."""
        if self.lacking:
            return self.lacking
        if self.missing:
            return f"the run has no {', no '.join(self.missing)}"
        if self.verdict(correction) != "undecided" or self.shown is None:
            return ""
        if self.uncorrected != "undecided" and correction:
            return f"{self.uncorrected} before correction for {correction.claims} claims"
        if self.absent and all(estimate.sign == self.sign for estimate in self.estimates.values()):
            return f"there is no result of {', '.join(self.absent)}"
        if self.shown.seeds < 2:
            return "one seed tells nothing of others"
        if self.shown.is_barred:
            return f"diverged seeds count against what looks better: {self._diverged()}"
        if self.shown.is_within_floors:
            return "it would be decided as it is, but not with each network's noise floor taken off"
        if self.shown.sign == -self.sign:
            many = len(self.estimates)
            return f"it fails beside {self.hardest} alone, but not after correction for {many} comparisons"
        needed = intervals.seeds_needed(self.shown)
        return f"about {needed} would decide it" if needed else "more seeds alone would not decide it"

    def _diverged(self) -> str:
        figures = self.figures
        return ", ".join(
            f"{row} {diverged_in_words(figures.diverged[row], figures.seeds(row))}"
            for row in dict.fromkeys(self.rows)
            if row in figures.diverged and row in figures.rows
        )

    def of_claim(self, claim: Claim, stated: Stated, correction: Corrected | None, budget: Budget) -> Judged:
        seeds = self.shown.seeds if self.shown else 0
        return Judged(
            section=claim.section,
            says=claim.says,
            holds=claim.holds,
            verdict=self.verdict(correction),
            uncorrected=self.uncorrected,
            reason=self.reason(correction),
            difference=self.shown.value if self.shown else None,
            low=self.shown.low if self.shown else None,
            high=self.shown.high if self.shown else None,
            p=self.p,
            p_holm=correction.p if correction else None,
            looks=self.shown.looks if self.shown else 1,
            hardest=self.hardest,
            opponents=len(self.estimates),
            seeds=seeds,
            budget=budget_in_words(self.rows, budget, seeds),
            stated=stated,
        )


def budget_in_words(rows: Sequence[Row], budget: Budget, seeds: int) -> str:
    """What the rows were given: how many seeds the numbers rest on, of how many that were planned."""
    tuned = [row.arm for row in rows if row.phase == "confirm"]
    planned = budget.confirm_seeds if tuned and len(tuned) == len(rows) else budget.seeds
    number = f"{seeds} of {planned}" if seeds < planned else str(planned)
    if budget.epochs is None:
        return f"{number} seeds, imported predictions"
    if not tuned:
        return f"{number} seeds, {budget.epochs} epochs, fixed settings"
    return f"{number} fresh seeds, {budget.epochs} epochs, tuned with {budget.search_in_words(tuned)}"


def stated_before(run: Run, claim: Claim) -> bool:
    """Whether the claim was in the study when no result was known yet."""
    wanted = claim.model_dump(mode="json")
    for start in run.frozen().history:
        claims = start.study.get("claims")
        if start.results == 0 and isinstance(claims, Sequence) and wanted in claims:
            return True
    return False
