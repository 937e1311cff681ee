"""The answer: which row is best in what, whether that is real, and the verdicts on the claims."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TypedDict

from pilotstudy.evidence.claims import Judged, judge_all
from pilotstudy.evidence.figures import Figures
from pilotstudy.evidence.labels import row_label
from pilotstudy.evidence.recommendation import answer
from pilotstudy.evidence.reservations import reservations
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics.registry import METRICS
from pilotstudy.study.statements import Row

HIGHLIGHTED = 8  # rows that can be told apart in a figure


@dataclass(frozen=True)
class Card:
    """The best row in one metric."""

    metric: str
    head: str
    row: str
    label: str
    value: float
    low: float
    high: float
    real: bool  # better than every other row
    verdict: str


class AnswerSection(TypedDict):
    take: str  # the row to take, by its label; empty where that cannot be told
    sentences: list[str]  # first what to take; below it what else there is to say
    cards: list[dict[str, object]]
    claims: list[dict[str, object]]
    notes: list[str]  # what goes for all of it
    highlighted: list[str]  # the rows that figures highlight, unless the reader chooses others


def answer_section(evidence: RunEvidence) -> AnswerSection:
    if not evidence.trials:
        said = "No trial has finished yet, so there is nothing to say."
        return {"take": "", "sentences": [said], "cards": [], "claims": [], "notes": [], "highlighted": []}
    figures = evidence.figures()
    cards = [best_card(figures, metric) for metric in figures.metrics if METRICS[metric].sign]
    claims, recommended = judge_all(evidence), answer(evidence)
    taken = next((row_label(row) for row in figures.rows if str(row) == recommended.row), "")
    return {
        "take": taken,
        "sentences": [
            recommended.text,
            *method_sentence(figures),
            *claims_sentence(claims),
        ],
        "cards": [asdict(card) for card in cards],
        "claims": [claim.record() for claim in claims],
        "notes": reservations(evidence.run),
        "highlighted": highlighted(figures.rows, [recommended.row, *(card.row for card in cards)]),
    }


def highlighted(rows: Sequence[Row], wanted: Sequence[str | None]) -> list[str]:
    """The reference, the method, what is wanted (what the answer takes, the best); then others, up to a few."""
    plain = [row for row in rows if (row.mode, row.phase) == ("point", "arms")]
    of_role = {role: [row for row in plain if row.role == role] for role in ("reference", "method")}
    named = [row for row in rows if str(row) in wanted]
    ordered = dict.fromkeys([*of_role["reference"], *of_role["method"][:1], *named, *of_role["method"], *plain])
    return [str(row) for row in list(ordered)[:HIGHLIGHTED]]


def best_card(figures: Figures, metric: str) -> Card:
    words, rows, sign = METRICS[metric].words, figures.rows, METRICS[metric].sign
    best = figures.best(metric, rows)
    leader = best.leader or max(rows, key=lambda row: sign * figures.figure(metric, row).value)
    figure, label = figures.figure(metric, leader), row_label(leader)
    others = [row_label(row) for row in best.near]
    if best.is_real:
        verdict = "really better than every other row"
    elif len(rows) == 1:
        verdict = "the only row"
    elif best.leader is None:
        verdict = "of one seed, which tells nothing of others"
    elif not others:
        verdict = "the only row of several seeds"
    else:
        verdict = f"the best mean; {may_be(others)} may be as good"
    return Card(
        metric=metric,
        head=f"Best {words}",
        row=str(leader),
        label=label,
        value=figure.value,
        low=figure.low,
        high=figure.high,
        real=best.is_real,
        verdict=verdict,
    )


def may_be(others: Sequence[str], most: int = 2) -> str:
    """Rows by name, as many as a card has room for."""
    shown = [*others[: most - 1], f"{len(others) - most + 1} more"] if len(others) > most else others
    return " and ".join(shown)


def method_sentence(figures: Figures) -> list[str]:
    """How the run's first method compares with the reference, where there are both."""
    methods, references = (
        [row for row in figures.rows if (row.mode, row.phase) == ("point", "arms") and row.role == role]
        for role in ("method", "reference")
    )
    if not methods or not references:
        return []
    ours, theirs = methods[0], references[0]
    parts = []
    for metric in figures.metrics:
        difference = figures.difference(metric, ours, theirs)
        if difference is None:
            continue
        values = [f"{figures.figure(metric, row).value:.3f}" for row in (ours, theirs)]
        doubt = "" if difference.sign else " (no difference can be seen at this size)"
        if difference.is_barred:
            doubt = " (diverged seeds count against what looks better)"
        if difference.seeds < 2:
            doubt = " (one seed, which tells nothing of others)"
        parts.append(f"{METRICS[metric].short} {' against '.join(values)}{doubt}")
    return [f"{row_label(ours)} beside {row_label(theirs)}: {'; '.join(parts)}."] if parts else []


def claims_sentence(claims: Sequence[Judged]) -> list[str]:
    """How many hold, fail, and so on."""
    if not claims:
        return []
    if len(claims) == 1:
        verdict = claims[0].verdict
        return [f"The study's one claim {verdict if verdict in ('holds', 'fails') else f'is {verdict}'}."]
    plural = {"holds": "hold", "fails": "fail"}
    counts = {
        verdict: sum(claim.verdict == verdict for claim in claims)
        for verdict in ("holds", "fails", "undecided", "not tested")
    }
    parts = [f"{n} {verdict if n == 1 else plural.get(verdict, verdict)}" for verdict, n in counts.items() if n]
    return [f"Of {len(claims)} claims, {', '.join(parts)}."]
