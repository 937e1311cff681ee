"""What a run says of claims: holds, fails, undecided, each with its numbers, interval and budget."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pilotstudy import arms, statistics
from pilotstudy.evidence import Evidence, Stored, budget, load
from pilotstudy.runs import Run
from pilotstudy.spec import Claim, Study
from pilotstudy.statements import Row, Statement
from pilotstudy.statistics import Estimate

Verdict = Literal["holds", "fails", "undecided", "not tested"]


@dataclass(frozen=True)
class Judged:
    """`difference`: left less right of the statement, for the opponent that is hardest to decide against."""

    section: str
    says: str
    holds: str
    verdict: Verdict
    reason: str
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None  # over all claims of the study
    hardest: str  # in a group: against whom
    opponents: int
    seeds: int
    budget: str
    stated: Literal["before", "after"]  # the first result was there


def judge_all(run: Run, extra: Iterable[Claim] = (), stored: Stored | None = None) -> list[Judged]:
    """All claims of a run's study, and `extra` ones, which count as written after it.

    `stored`: what `evidence.read` gave, where it is at hand.
    """
    stated = [(claim, "before" if stated_before(run, claim) else "after") for claim in run.study().claims]
    stated += [(claim, "after") for claim in extra]
    if not stated:
        return []
    statements = [Statement.parse(claim.holds) for claim, _ in stated]
    deep = any(row.mode == "seeds" for statement in statements for _, row in statement.terms)
    evidence = Evidence(
        load(run, deep=deep, stored=stored), list(dict.fromkeys(statement.metric for statement in statements))
    )
    given, planned = budget(run), planned_rows(run.study())
    tried = [Tried(statement, evidence, planned) for statement in statements]
    family = [i for i, one in enumerate(tried) if one.p is not None]
    adjusted = dict(zip(family, statistics.holm([tried[i].p or 0.0 for i in family]), strict=True))
    return [
        Judged(
            section=claim.section,
            says=claim.says,
            holds=claim.holds,
            verdict=one.verdict,
            reason=one.reason,
            difference=one.shown.value if one.shown else None,
            low=one.shown.low if one.shown else None,
            high=one.shown.high if one.shown else None,
            p=one.p,
            p_holm=adjusted.get(number),
            hardest=one.hardest,
            opponents=len(one.found),
            seeds=one.shown.seeds if one.shown else 0,
            budget=describe(one.rows, given, one.shown.seeds if one.shown else 0),
            stated=when,  # type: ignore[arg-type]
        )
        for number, ((claim, when), one) in enumerate(zip(stated, tried, strict=True))
    ]


class Tried:
    """A statement held against the evidence: one comparison, or one with each row of a group."""

    def __init__(self, statement: Statement, evidence: Evidence, planned: Sequence[Row]):
        self.sign = -1 if statement.relation == "<" else 1
        self.rows = [row for _, row in statement.terms]
        self.found: dict[str, Estimate] = {}
        self.missing = [str(row) for row in self.rows if row not in evidence.rows]
        self.absent: list[str] = []  # of a group: planned, but nothing to compare with
        if not self.missing:
            opponents: Sequence[Row | None] = [None]
            if statement.group:
                opponents = statement.group.members(planned, self.rows[0])
                self.rows += [row for row in opponents if row]
            for opponent in opponents:
                terms = [*statement.terms, *([(-1.0, opponent)] if opponent else [])]
                there = opponent is None or opponent in evidence.rows
                estimate = evidence.contrast(statement.metric, terms, statement.constant) if there else None
                if estimate is not None:
                    self.found[str(opponent or "")] = estimate
                else:
                    self.absent.append(str(opponent))
            if not self.found:
                self.missing = ["anything to compare with"]
        # Against each, how sure is it that the statement is true? The least sure decides.
        self.hardest = max(self.found, key=lambda name: self._doubt(self.found[name]), default="")
        self.shown = self.found.get(self.hardest)
        self.p = self.shown.p if self.shown and self.shown.seeds > 1 else None

    def _doubt(self, estimate: Estimate) -> float:
        """From 0, surely true, to 2, surely false."""
        return estimate.p if estimate.value * self.sign > 0 else 2 - estimate.p

    @property
    def verdict(self) -> Verdict:
        if self.missing:
            return "not tested"
        if any(estimate.seeds < 2 for estimate in self.found.values()):
            return "undecided"
        if all(estimate.sign == self.sign for estimate in self.found.values()):
            # Against every one of them, so no correction is needed; but every one must be there.
            return "undecided" if self.absent else "holds"
        adjusted = statistics.holm([estimate.p for estimate in self.found.values()])
        pairs = zip(self.found.values(), adjusted, strict=True)
        wrong = any(estimate.value * self.sign < 0 and p < 1 - statistics.LEVEL for estimate, p in pairs)
        return "fails" if wrong else "undecided"

    @property
    def reason(self) -> str:
        if self.missing:
            return f"the run has no {', no '.join(self.missing)}"
        if self.verdict != "undecided" or self.shown is None:
            return ""
        if self.absent and all(estimate.sign == self.sign for estimate in self.found.values()):
            return f"there is no result of {', '.join(self.absent)}"
        if self.shown.seeds < 2:
            return "one seed tells nothing of others"
        if self.shown.sign == -self.sign:
            return f"it fails beside {self.hardest} alone, but not after correction for {len(self.found)} comparisons"
        needed = statistics.seeds_needed(self.shown)
        return f"about {needed} seeds would decide it" if needed else "more seeds alone would not decide it"


def planned_rows(study: Study) -> list[Row]:
    """Every row that the study is to have when it is done."""
    rows = [Row(arm, mode) for arm in study.arms for mode in arms.get(arm).modes]
    if sum(row.is_baseline for row in rows) > 1:
        rows.append(Row("ensemble", "ensemble"))
    if study.search and study.search.trials:
        rows += [Row(arm, mode, "confirm") for arm in study.search.arms for mode in arms.get(arm).modes]
    return rows


def describe(rows: Sequence[Row], given: dict[str, Any], seeds: int) -> str:
    """What the rows were given, in words: how many seeds the numbers rest on, of how many that were planned."""
    tuned = [row.arm for row in rows if row.phase == "confirm"]
    planned = given["confirm_seeds"] if tuned and len(tuned) == len(rows) else given["seeds"]
    number = f"{seeds} of {planned}" if seeds < planned else str(planned)
    if not tuned:
        return f"{number} seeds, {given['epochs']} epochs, fixed settings"
    trials = {given["search_trials"].get(arm, 0) for arm in tuned}
    each = f"{min(trials)} trials each" if len(trials) == 1 else f"{min(trials)} to {max(trials)} trials"
    return f"{number} fresh seeds, {given['epochs']} epochs, tuned with {each}"


def stated_before(run: Run, claim: Claim) -> bool:
    """Whether the claim was in the study when no result was known yet."""
    wanted = claim.model_dump(mode="json")
    for entry in run.frozen()["history"]:
        if entry.get("results", 0) == 0 and wanted in entry["study"].get("claims", []):
            return True
    return False


def rows(judged: Iterable[Judged]) -> list[dict[str, Any]]:
    return [asdict(one) for one in judged]
