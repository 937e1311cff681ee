"""What several runs say together: which rows beat the reference in how many of them, and which rows are to be seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pilotstudy.evidence.labels import row_label
from pilotstudy.evidence.recommendation import Answer, Gain
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics.registry import METRICS, headline_metrics
from pilotstudy.page.rounding import rounded
from pilotstudy.study.statements import Row

FEW = 12  # rows that are shown without having been asked for
NAMED = 6  # rows that a sentence names


@dataclass(frozen=True)
class Against:
    """The rows of one run, held against its reference as its answer holds them."""

    reference: Row
    gains: Mapping[str, Sequence[Gain]]  # by metric

    def verdicts(self, metric: str) -> dict[Row, int]:
        """1: really better than the reference; −1: really worse; 0: it cannot be told."""
        better = METRICS[metric].sign
        return {gain.row: better * gain.sign for gain in self.gains[metric]}

    def record(self) -> dict[str, object]:
        """With [difference, low, high, p, verdict] of every row by metric."""
        return {
            "reference": str(self.reference),
            "gains": {
                metric: {
                    str(gain.row): [
                        *(rounded(part, 6) for part in (gain.estimate.value, gain.low, gain.high)),
                        rounded(gain.p, 2),
                        self.verdicts(metric)[gain.row],
                    ]
                    for gain in gains
                }
                for metric, gains in self.gains.items()
            },
        }


@dataclass(frozen=True)
class Tally:
    """In how many of the runs that have it a row is really better than the reference, and really worse."""

    row: Row
    runs: int
    better: int
    worse: int


def tallies(metric: str, rows: Sequence[Row], judged: Sequence[Against]) -> list[Tally]:
    """Of rows that are candidates in a run, the most often better first."""
    found = []
    for row in rows:
        verdicts = [own[row] for each in judged if row in (own := each.verdicts(metric))]
        if verdicts:
            found.append(Tally(row, len(verdicts), verdicts.count(1), verdicts.count(-1)))
    return sorted(found, key=lambda tally: (-tally.better, tally.worse))


def against_in_words(metric: str, rows: Sequence[Row], against: Sequence[Against | None]) -> list[str]:
    """Sentences about all runs. They count runs: no p-value is made out of those of several."""
    judged = [each for each in against if each]
    if not judged:
        return ["No run has a reference with several seeds, so there is nothing that rows could be held against."]
    found = tallies(metric, rows, judged)
    groups = [
        ("in every run that has it", [t for t in found if t.better == t.runs]),
        ("in some runs, and really worse in none", [t for t in found if 0 < t.better < t.runs and not t.worse]),
        ("in some runs, but really worse in others", [t for t in found if t.better and t.worse]),
    ]
    reference = " or ".join(dict.fromkeys(row_label(each.reference) for each in judged))
    sentences = [
        f"By {METRICS[metric].short}, really better than {reference} {how}: {listed(group)}."
        for how, group in groups
        if group
    ] or [f"By {METRICS[metric].short}, no row is really better than {reference} in any run."]
    if worse := [t for t in found if t.worse and not t.better]:
        ordered = sorted(worse, key=lambda tally: -tally.worse)
        sentences.append(f"Really worse in some runs, and better in none: {listed(ordered)}.")
    if undecided := [t for t in found if not t.worse and not t.better]:
        sentences.append(f"Not to be told from it in any run: {listed(undecided)}.")
    if len(judged) < len(against):
        sentences.append(f"{len(against) - len(judged)} of {len(against)} runs have no reference with several seeds.")
    return sentences


def listed(found: Sequence[Tally]) -> str:
    names = [f"{row_label(tally.row)}{counted(tally)}" for tally in found]
    if len(names) > NAMED:
        names = [*names[: NAMED - 1], f"{len(names) - NAMED + 1} more"]
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def counted(tally: Tally) -> str:
    if tally.better and tally.worse:
        return f" (better in {tally.better}, worse in {tally.worse} of {tally.runs})"
    return f" ({tally.better or tally.worse} of {tally.runs})" if tally.better or tally.worse else ""


def rows_that_matter(
    rows: Sequence[Row], found: Sequence[RunEvidence], answers: Sequence[Answer], against: Sequence[Against | None]
) -> Sequence[Row]:
    """All, where they are few. Else the references, what the answers take, the methods of the studies and the best
    means, and as many of those that are most often better than the reference as there is room for.
    """
    if len(rows) <= FEW:
        return rows
    judged = [each for each in against if each]
    taken = {answer.row for answer in answers}
    wanted = dict.fromkeys([each.reference for each in judged] + [row for row in rows if str(row) in taken])
    methods = [row for row in rows if row.role == "method" and (row.mode, row.phase) == ("point", "arms")]
    best = [
        leader
        for metric in headline_metrics()
        for evidence in found
        if evidence.trials and (leader := (figures := evidence.figures()).best(metric, figures.rows).leader)
    ]
    often = [tally.row for metric in headline_metrics() for tally in tallies(metric, rows, judged)]
    for row in (*methods, *best, *often):
        if len(wanted) < FEW:
            wanted[row] = None
    return [row for row in rows if row in wanted]
