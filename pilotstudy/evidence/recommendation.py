"""What to do: which row to take, at what gain and price, how sure that is, and what would settle the rest.

The rule, in the order in which it is applied:

1. The figure that counts is the study's first search objective, else the NLL. The simplest is the reference (vanilla).
   Candidates are the rows of networks, not of ensembles, with two seeds or more.
2. Candidates are held against the reference by the paired differences that all verdicts rest on, corrected (Holm) for
   the number of rows. Where none is really better, the reference is kept.
3. Of those that are, the ones stay that cannot be told from the best mean among them. Of these the cheapest is taken:
   one that does not really lose more than a point of accuracy, then the fewest passes at test, then the least training
   time (as far as a tenth), then the best mean.
4. To recommend after having seen the test figures is to select, so intervals here are wider than elsewhere: at the
   level at which Holm judged the row, so that they leave out 0 where the verdict is real, and only there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from pilotstudy.arms.arm import Setting
from pilotstudy.evidence.costs import Cost, costs
from pilotstudy.evidence.figures import Figures
from pilotstudy.evidence.labels import row_label
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.evidence.settling import Settling, completing, first_seeds, more_seeds
from pilotstudy.evidence.summary import chosen_by, chosen_settings
from pilotstudy.metrics import intervals
from pilotstudy.metrics.intervals import Estimate
from pilotstudy.metrics.registry import DEFAULT_OBJECTIVE, METRICS, headline_metrics, resampled_metrics
from pilotstudy.runs.status import total_of
from pilotstudy.study.statements import ENSEMBLE, Row

TELLING = 3  # settings of a row that a sentence lists
A_POINT = 0.01  # of accuracy
ALPHA = 1 - intervals.LEVEL


@dataclass(frozen=True)
class Gain:
    """A row's figure less the reference's, with the interval and p-value that are corrected for the number of rows."""

    row: Row
    estimate: Estimate
    low: float
    high: float
    p: float

    @property
    def sign(self) -> int:
        return self.estimate.direction if self.p < ALPHA else 0

    def words(self, digits: int = 3) -> str:
        return f"{self.estimate.value:+.{digits}f} [{self.low:+.{digits}f}, {self.high:+.{digits}f}]".replace("-", "−")


@dataclass(frozen=True)
class Answer:
    """What a run says is to be done. `sentences`: two at most. `row`: what to take; None where that cannot be told."""

    sentences: tuple[str, ...]
    row: str | None = None
    metric: str = DEFAULT_OBJECTIVE
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None  # corrected for the number of rows
    settings: Mapping[str, Setting] = field(default_factory=dict)  # of the row, where a search chose them
    settling: Settling | None = None  # what would settle what is open

    @property
    def text(self) -> str:
        """All of it, in a paragraph."""
        return " ".join([*self.sentences, *([self.settling.says] if self.settling else [])])

    def record(self) -> dict[str, object]:
        return {"says": self.text} | asdict(self)


def answer(evidence: RunEvidence) -> Answer:
    """The recommendation of a run, whatever state it is in."""
    if not evidence.trials:
        return Answer(("No trial has finished yet, so there is nothing to say.",), settling=completing(evidence))
    ended, total = sum(row.status.ended for row in evidence.trial_rows), total_of(evidence.run)
    found = Recommending(evidence).answer()
    if ended >= total:
        return found
    first, *more = found.sentences
    so_far = f"With {ended} of {total} trials done: {first}", *more
    return replace(found, sentences=so_far, settling=completing(evidence))


def gains_over_reference(evidence: RunEvidence) -> tuple[Row, dict[str, list[Gain]]] | None:
    """The reference, and what each candidate gains over it in the headline metrics, judged as the answer judges them.

    None where there is no reference of several seeds.
    """
    rule = Recommending(evidence)
    if rule.reference not in rule.several:
        return None
    return rule.reference, {metric: rule.gains(metric, rule.reference) for metric in headline_metrics()}


class Recommending:
    """The rule, step by step, on the figures of one run."""

    def __init__(self, evidence: RunEvidence):
        self.evidence = evidence
        objective = chosen_by(evidence.study)
        self.metric = objective if objective in resampled_metrics() else DEFAULT_OBJECTIVE
        if evidence.lacks_metrics([self.metric]):
            self.metric = DEFAULT_OBJECTIVE
        names = headline_metrics()
        self.figures: Figures = evidence.figures(
            None if {self.metric, "accuracy"} <= set(names) else list(dict.fromkeys((self.metric, "accuracy", *names)))
        )
        self.words, self.better = METRICS[self.metric].short, METRICS[self.metric].sign
        self.costs = costs(evidence)
        self.rows = [row for row in self.figures.rows if row.mode != ENSEMBLE]
        self.several = [row for row in self.rows if self.figures.seeds(row) > 1]
        fixed = [row for row in self.rows if (row.mode, row.phase) == ("point", "arms")]
        self.reference = next((row for row in fixed if row.role == "reference"), None)

    def answer(self) -> Answer:
        rows, reference = self.rows, self.reference
        if len(rows) == 1:
            return self.said(f"{row_label(rows[0])} is the only row, so there is nothing to choose from.")
        if not self.several:
            return self.said(
                "One seed cannot tell which row to take, whatever the figures: another seed may reverse them.",
                settling=first_seeds(self.evidence),
            )
        if reference is None:
            return self.without_reference()
        if reference not in self.several:
            return self.said(
                f"{row_label(reference)}, which rows are held against, has one seed, which cannot tell what they gain.",
                settling=first_seeds(self.evidence),
            )
        gains = self.gains(self.metric, reference)
        winners = [gain for gain in gains if gain.sign == self.better]
        return self.take(reference, gains, winners) if winners else self.keep(reference, gains)

    def gains(self, metric: str, reference: Row) -> list[Gain]:
        """Of all candidates, corrected together."""
        differences = {row: self.figures.difference(metric, row, reference) for row in self.several if row != reference}
        known = {row: d for row, d in differences.items() if d is not None and d.seeds > 1}
        adjusted = intervals.holm([estimate.p for estimate in known.values()])
        return [
            Gain(row, estimate, *self.interval(estimate, p, len(known)), p)
            for (row, estimate), p in zip(known.items(), adjusted, strict=True)
        ]

    def interval(self, estimate: Estimate, p: float, family: int) -> tuple[float, float]:
        """At the level that makes it touch 0 where `p` is just the level of a verdict."""
        alone = estimate.p_of_one_look
        times = p / alone if 0 < alone < 1 and p < 1 else family * estimate.looks
        half = intervals.half_width(
            estimate.points_variance, estimate.of_seeds, estimate.networks_variance, ALPHA / 2 / max(times, 1)
        )
        return estimate.value - half, estimate.value + half

    def take(self, reference: Row, gains: Sequence[Gain], winners: Sequence[Gain]) -> Answer:
        accuracy = {gain.row: gain for gain in self.gains("accuracy", reference)}
        by_row = {gain.row: gain for gain in winners}
        best = self.figures.best(self.metric, list(by_row))
        assert best.leader
        tied = [best.leader, *best.near]
        chosen = min(tied, key=lambda row: (loses(accuracy.get(row)), *self.price(row)))
        gain, others = by_row[chosen], [row for row in tied if row != chosen]
        label, theirs = row_label(chosen), row_label(reference)
        mind = ""
        if self.metric != "accuracy" and loses(accuracy.get(chosen)):
            mind = f" But it costs accuracy: {points_in_words(accuracy[chosen])}."
        settings = self.settings_in_words(chosen)
        first = (
            f"Take {label}{f' ({settings})' if settings else ''}: {self.words} {self.value(chosen)} against "
            f"{self.value(reference)} of {theirs}, {gain.words()}, which is real "
            f"({p_in_words(gain.p)}, {self.corrected(len(gains))}){self.with_it(accuracy.get(chosen))}; its price: "
            f"{self.price_in_words(chosen, reference, accuracy.get(chosen))}.{mind}"
        )
        return self.said(
            first,
            self.beside(chosen, others, by_row),
            gain=gain,
            settling=self.settling(chosen, others) if others else None,
        )

    def beside(self, chosen: Row, tied: Sequence[Row], winners: Mapping[Row, Gain]) -> str:
        """What else could be taken."""
        if tied:
            ahead = any(self.is_ahead(row, chosen) for row in tied)
            return f"{self.listed(tied)} cannot be told from it{', and it is the cheapest of them' * ahead}."
        passes = self.costs[chosen].passes or 1
        cheaper = [row for row in winners if (self.costs[row].passes or 1) < passes]
        if not cheaper:
            return ""
        instead = min(cheaper, key=self.key)
        settings = self.settings_in_words(instead)
        return (
            f"With {passes_in_words(self.costs[instead].passes or 1)}: {row_label(instead)}"
            f"{f' ({settings})' if settings else ''}, {winners[instead].words()}, also real."
        )

    def keep(self, reference: Row, gains: Sequence[Gain]) -> Answer:
        label, value = row_label(reference), self.value(reference)
        if not gains:
            return self.said(f"Keep {label}: no other row has several seeds to hold against it.", row=reference)
        worse = all(gain.sign == -self.better for gain in gains)
        ahead = [gain for gain in gains if gain.estimate.direction == self.better]
        barred = [gain for gain in ahead if gain.estimate.is_barred]
        counted = self.corrected(len(gains))
        if worse:
            said = (
                f"Keep {label}: its {self.words} of {value} is really better than that of every other row ({counted})."
            )
            return self.said(said, row=reference)
        nothing = f"Keep {label}: nothing beats its {self.words} of {value} for real"
        if not ahead:
            return self.said(f"{nothing}, or by its mean ({counted}).", row=reference)
        sound = [gain for gain in ahead if gain not in barred]
        left_out = f" Diverged seeds count against {self.listed([gain.row for gain in barred])}." if barred else ""
        if not sound:
            return self.said(f"{nothing} ({counted}).{left_out}", row=reference)
        best = max(sound, key=lambda gain: self.better * gain.estimate.value)
        said = (
            f"{nothing}; the best mean is that of {row_label(best.row)}, {self.value(best.row)}, {best.words()}, "
            f"which may be chance ({p_in_words(best.p)}, {counted}).{left_out}"
        )
        return self.said(said, row=reference, settling=self.settling(best.row, [reference]))

    def without_reference(self) -> Answer:
        best = self.figures.best(self.metric, self.several)
        assert best.leader
        tied = [best.leader, *best.near]
        chosen = min(tied, key=self.price)
        others = [row for row in tied if row != chosen]
        how = "which is really the best" if best.is_real else f"the cheapest of {len(tied)} rows that may be the best"
        if len(self.several) == 1:
            how = "the only row of several seeds"
        said = (
            f"Take {row_label(chosen)}: {self.words} {self.value(chosen)}, {how}; what it gains is not known, since "
            "the run has no reference."
        )
        beside = f"{self.listed(others)} cannot be told from it." if others else ""
        return self.said(said, beside, row=chosen, settling=self.settling(chosen, others) if others else None)

    # Words

    def said(
        self, *sentences: str, row: Row | None = None, gain: Gain | None = None, settling: Settling | None = None
    ) -> Answer:
        chosen = gain.row if gain else row
        return Answer(
            sentences=tuple(filter(None, sentences)),
            row=str(chosen) if chosen else None,
            metric=self.metric,
            gain=gain.estimate.value if gain else None,
            low=gain.low if gain else None,
            high=gain.high if gain else None,
            p=gain.p if gain else None,
            settings=self.settings(chosen) if chosen else {},
            settling=settling,
        )

    def value(self, row: Row) -> str:
        return f"{self.figures.figure(self.metric, row).value:.3f}"

    def corrected(self, family: int) -> str:
        return f"corrected for {family} rows" if family > 1 else "one row"

    def listed(self, rows: Sequence[Row], most: int = 3) -> str:
        """Rows by name, the best first."""
        names = [row_label(row) for row in sorted(rows, key=self.key)]
        if len(names) > most:
            names = [*names[: most - 1], f"{len(names) - most + 1} more"]
        return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))

    def key(self, row: Row) -> float:
        return -self.better * self.figures.figure(self.metric, row).value

    def is_ahead(self, row: Row, of: Row) -> bool:
        return self.key(row) < self.key(of)

    def price(self, row: Row) -> tuple[float, float, float]:
        """Passes, training time in tenths of the least (seconds vary by as much), and last the mean."""
        cost, least = self.costs.get(row, Cost()), self.least_seconds
        seconds = round(10 * cost.training_seconds / least) if cost.training_seconds and least else 0
        return cost.passes or 1, seconds, self.key(row)

    @property
    def least_seconds(self) -> float:
        known = [cost.training_seconds for cost in self.costs.values() if cost.training_seconds]
        return min(known, default=0.0)

    def with_it(self, accuracy: Gain | None) -> str:
        """A real gain in accuracy beside that of the figure that counts: no price."""
        if accuracy is None or accuracy.sign <= 0 or self.metric == "accuracy":
            return ""
        return f", with {accuracy_in_words(accuracy, self.figures)}"

    def price_in_words(self, row: Row, reference: Row, accuracy: Gain | None) -> str:
        cost, theirs = self.costs[row], self.costs[reference]
        parts = []
        if accuracy and accuracy.sign <= 0 and self.metric != "accuracy":
            parts.append(accuracy_in_words(accuracy, self.figures))
        parts += self.what_worsens(row, reference)
        if cost.training_seconds and theirs.training_seconds:
            parts.append(
                f"{cost.training_seconds / theirs.training_seconds:.1f} × the training time of {row_label(reference)}"
            )
        else:
            parts.append("a training time that is not known here")
        if cost.passes:
            parts.append(f"{passes_in_words(cost.passes)} at test")
        return ", ".join(parts)

    def what_worsens(self, row: Row, reference: Row) -> list[str]:
        """The other headline figures that are really worse than the reference's."""
        found = []
        for metric in headline_metrics():
            if metric in (self.metric, "accuracy"):
                continue
            own = next((gain for gain in self.gains(metric, reference) if gain.row == row), None)
            if own and own.sign and own.sign == -METRICS[metric].sign:
                value = self.figures.figure(metric, row).value
                found.append(f"a worse {METRICS[metric].short}, {value:.3f} ({own.words()})")
        return found

    def settings_in_words(self, row: Row) -> str:
        """What a search chose for it; of many, those that it moved furthest, and where the others are."""
        settings = [f"{name} {setting_text(value)}" for name, value in self.settings(row).items()]
        if len(settings) <= TELLING:
            return ", ".join(settings)
        rest = f"{len(settings) - TELLING + 1} more settings, which {self.evidence.run.files.hint('results')} lists"
        return f"{', '.join(settings[: TELLING - 1])} and {rest}"

    def settings(self, row: Row) -> dict[str, Setting]:
        return chosen_settings(self.evidence, row.arm) if row.phase == "confirm" else {}

    def settling(self, chosen: Row, others: Sequence[Row]) -> Settling | None:
        """What would tell a row from the best of some others."""
        rival = min(others, key=self.key)
        difference = self.figures.difference(self.metric, chosen, rival)
        if difference is None or difference.seeds < 2:
            return None
        tuned = "confirm" in (chosen.phase, rival.phase)
        return more_seeds(self.evidence, difference, f"{row_label(chosen)} from {row_label(rival)}", tuned=tuned)


def loses(accuracy: Gain | None) -> bool:
    """Whether a row really loses accuracy, and more than a point of it."""
    return accuracy is not None and accuracy.sign < 0 and accuracy.estimate.value < -A_POINT


def points_in_words(accuracy: Gain) -> str:
    low, value, high = (
        round(100 * number, 1) + 0.0 for number in (accuracy.low, accuracy.estimate.value, accuracy.high)
    )  # + 0.0: no −0.0
    return f"{value:+.1f} points [{low:+.1f}, {high:+.1f}]".replace("-", "−")


def accuracy_in_words(accuracy: Gain, figures: Figures) -> str:
    value = f"an accuracy of {figures.figure('accuracy', accuracy.row).value:.3f}"
    doubt = "" if accuracy.sign else ", no real difference"
    return f"{value} ({points_in_words(accuracy)}{doubt})"


def passes_in_words(passes: int) -> str:
    return f"{passes} passes" if passes > 1 else "one pass"


def p_in_words(p: float) -> str:
    return f"p {p:.2g}" if p >= 0.0001 else "p < 0.0001"


def setting_text(value: Setting) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
