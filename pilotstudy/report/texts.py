"""What the commands that read a run print, at any width; without one, all of it."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from pilotstudy.evidence.claims import Judged
from pilotstudy.evidence.compare import Difference, RowComparison, RunComparison
from pilotstudy.evidence.ensembles import EnsembleRow
from pilotstudy.evidence.recommendation import Answer
from pilotstudy.evidence.shift import TestFigure
from pilotstudy.evidence.summary import Optimism, Spread, SummaryRow
from pilotstudy.metrics.ood import metric_named
from pilotstudy.metrics.recalibration import IN_WORDS
from pilotstudy.metrics.registry import headline_metrics
from pilotstudy.metrics.scores import BINS
from pilotstudy.metrics.soft import SOFT_METRICS
from pilotstudy.report.layout import PROSE, Column, Columns, command_text, filled, tables_text
from pilotstudy.report.plain import metric_column, most_important, table

NAME = 16  # that the name of a row may be broken to
LEADS = " °"


def answer_text(answer: Answer, width: int | None) -> str:
    """A paragraph, and below it the command that settles what is open, to copy."""
    room = width or PROSE
    says, command = " ".join(answer.sentences), ""
    if answer.settling:
        command = answer.settling.command
        says = f"{says} {answer.settling.says.removesuffix(f' `{command}`')}"
    return filled(says, room) + (f"\n{command_text(command, room)}" if command else "")


# Results: means of what trials stored


def results_text(rows: Sequence[SummaryRow], optimism: Sequence[Optimism], width: int | None = None) -> str:
    """The most important figures with their deviations, a table for each epoch that was evaluated."""
    titles = {"last": "at the last epoch", "best": "at the epoch with the lowest validation NLL"}
    tables = [
        (titles[at], partial(results_columns, [row for row in rows if row.at == at]))
        for at in dict.fromkeys(row.at for row in rows)
    ]
    parts = [filled(f"test figures, mean ± sample deviation over seeds, ECE with {BINS} bins", width)]
    parts.append(tables_text(tables, width))
    parts.append(filled("° the best mean of several seeds; `pilotstudy table` says whether it is really better", width))
    if optimism:
        parts.append(optimism_text(optimism, width))
        chosen = [filled(gap.settings, width, first=f"  {gap.arm}: ", then="    ") for gap in optimism]
        parts.append("\n".join(["settings that the search chose", *chosen]))
    return "\n\n".join(parts)


def results_columns(rows: Sequence[SummaryRow], narrow: bool) -> list[Column]:
    headline = headline_metrics()
    return [
        Column("row", [str(row.row) for row in rows], least=NAME),
        Column("seeds", [str(row.seeds) for row in rows], right=True),
        *(
            Column(
                metric_column(name),
                [spread_text(row.figures.get(name), narrow) + LEADS * (name in row.leads) for row in rows],
                extra="" if name in headline else metric_column(name),
            )
            for name in most_important()
        ),
    ]


def spread_text(spread: Spread | None, narrow: bool = False) -> str:
    if spread is None:
        return ""
    if spread.deviation is None:
        return f"{spread.mean:.4f}"
    deviation = f"{spread.deviation:.4f}"
    return f"{spread.mean:.4f} ±{deviation.removeprefix('0') if narrow else deviation}"


def optimism_text(optimism: Sequence[Optimism], width: int | None) -> str:
    says = (
        "the search: validation figures of its best, and of the same settings on fresh seeds; the optimism is over "
        "seeds, since the validation images are those that chose; trials and training seconds that it took"
    )
    names = "arm", "objective", "search", "confirmed", "optimism", "trials", "seconds"
    rows = [{name: getattr(gap, name) for name in names} | {"seconds": f"{gap.seconds:.1f}"} for gap in optimism]
    return f"{filled(says, width)}\n{table(rows, width)}"


# Ensembles


def ensembles_text(rows: Sequence[EnsembleRow], width: int | None = None) -> str:
    """A table of the ensembles as they are, and one after recalibration."""
    if not rows:
        return "no ensembles: they need two networks or more"
    tables = []
    for applied in dict.fromkeys(row.recalibration for row in rows):
        title = "as they are" if applied == "none" else f"after {IN_WORDS[applied]}, fitted on validation images"
        own = [row for row in rows if row.recalibration == applied]
        tables.append((title, partial(ensembles_columns, own)))
    notes = (
        "° the best figure. networks: how many an ensemble averages; ensembles: how many such the figures are the mean "
        "of. An ensemble of seeds is a single one, so its figures have no spread over seeds."
    )
    return f"{tables_text(tables, width)}\n\n{filled(notes, width)}"


def ensembles_columns(rows: Sequence[EnsembleRow], narrow: bool = False) -> list[Column]:
    headline = headline_metrics()
    found = [
        Column("row", [str(row.row) for row in rows], least=NAME),
        Column("networks", [str(len(row.members)) for row in rows], right=True),
        Column("ensembles", [str(row.ensembles) for row in rows], right=True),
    ]
    for name in most_important():
        cells = marked(name, [row.figures[name] for row in rows])
        found.append(Column(metric_column(name), cells, extra="" if name in headline else metric_column(name)))
    return [*found, Column("members", [", ".join(row.members) for row in rows], least=40 * narrow, extra="members")]


def marked(metric: str, values: Sequence[float | None]) -> list[str]:
    """Figures, the best with its sign."""
    sign = 0 if metric.endswith("noise_floor") else -1 if metric in SOFT_METRICS else metric_named(metric).sign
    best = max((sign * value for value in values if value is not None), default=0.0)
    return ["" if v is None else f"{v:.4f}" + LEADS * bool(sign and sign * v == best) for v in values]


# Further test sets


def tests_text(figures: Sequence[TestFigure], width: int | None) -> str:
    """A table for each test set, shift first; of each metric the difference to the clean test beside it."""
    if not figures:
        return "the study has no further test sets: see [[tests]] in the README"
    by_test: dict[str, list[TestFigure]] = {}
    for figure in sorted(figures, key=lambda figure: figure.kind != "shift"):
        by_test.setdefault(figure.test, []).append(figure)
    notes = "° the best mean of several seeds; less clean: less the figure on the study's own test images"
    return f"{tables_text(map(table_of_test, by_test.values()), width)}\n\n{filled(notes, width)}"


def table_of_test(figures: Sequence[TestFigure]) -> tuple[str, Columns]:
    """Its title and columns."""
    by_row: dict[str, dict[str, TestFigure]] = {}
    for figure in figures:
        by_row.setdefault(str(figure.row), {})[figure.metric] = figure
    seeds = [max(figure.seeds for figure in row.values()) for row in by_row.values()]
    columns = [Column("row", list(by_row), least=NAME)]
    title = f"{figures[0].test}: {figures[0].images:,} images"
    if len(set(seeds)) == 1:
        title += f", {numbered(seeds[0])}"
    else:
        columns.append(Column("seeds", [str(number) for number in seeds], right=True))
    for metric in dict.fromkeys(figure.metric for figure in figures):
        columns += columns_of_test(metric, [row.get(metric) for row in by_row.values()])
    return title, lambda narrow: columns


def columns_of_test(metric: str, figures: Sequence[TestFigure | None]) -> list[Column]:
    several = [figure.figure if figure and figure.seeds > 1 else None for figure in figures]
    cells = [
        cell or (f"{figure.figure:.4f}" if figure else "")
        for cell, figure in zip(marked(metric, several), figures, strict=True)
    ]
    columns = [Column(metric, cells, group=metric)]
    differences = [figure.difference if figure else None for figure in figures]
    if any(difference is not None for difference in differences):
        less = ["" if difference is None else f"{difference:+.4f}" for difference in differences]
        columns.append(Column("less clean", less, group=metric, least=7))
    return columns


# Comparisons


def row_comparison_text(comparisons: Sequence[RowComparison], width: int | None = None) -> str:
    """A table for each metric: every row less the one that it is held against."""
    if not comparisons:
        return "there is no other row to compare with"
    against = comparisons[0].against
    tables = []
    for metric in dict.fromkeys(each.metric for each in comparisons):
        own = [each for each in comparisons if each.metric == metric]
        differences = [each.difference for each in own]
        names = Column("row", [str(each.row) for each in own], least=NAME)
        title = f"{metric}, less that of {against}{better_in_words(metric)}{seeds_in_words(differences)}"
        tables.append((title, partial(difference_columns, [names], differences, leading(metric, differences))))
    marks = f"° the best mean of several seeds; where no row has it, {against}'s is."
    return f"{tables_text(tables, width)}\n\n{comparison_notes(marks, f'a run of {against}', width)}"


def run_comparison_text(comparisons: Sequence[RunComparison], width: int | None = None) -> str:
    """A table for each metric and run: its rows less the same rows of the first run."""
    tables = []
    for metric, run in dict.fromkeys((each.metric, each.run) for each in comparisons):
        own = [each for each in comparisons if (each.metric, each.run) == (metric, run)]
        differences = [each.difference for each in own]
        first, says = own[0].first_run, differences[0].says
        names = [
            Column("row", [str(each.row) for each in own], least=NAME),
            Column(first, [f"{each.first_figure:.4f}" for each in own], least=6, extra="the figures"),
            Column(run, [f"{each.figure:.4f}" for each in own], least=6, extra="the figures"),
        ]
        title = f"{metric}, {run} less {first}{better_in_words(metric)}{seeds_in_words(differences)}"
        if not own[0].points_are_paired:
            title += f". {says[0].upper()}{says[1:]}."
        tables.append((title, partial(difference_columns, names, differences, None)))
    return f"{tables_text(tables, width)}\n\n{comparison_notes('', 'one of the first run', width)}"


def leading(metric: str, differences: Sequence[Difference]) -> Difference | None:
    """The best mean of several seeds; None where what they are held against has it."""
    sign = metric_named(metric).sign
    ahead = [each for each in differences if each.seeds > 1 and sign * each.difference > 0]
    return max(ahead, key=lambda each: sign * each.difference, default=None)


def better_in_words(metric: str) -> str:
    better = metric_named(metric).better
    return "" if better == "neither" else f" ({better} is better)"


def seeds_in_words(differences: Sequence[Difference]) -> str:
    """Where all rest on as many; else they have a column."""
    numbers = {each.seeds for each in differences}
    return f", {numbered(numbers.pop())}" if len(numbers) == 1 else ""


def numbered(seeds: int) -> str:
    return f"{seeds} seed{'s' * (seeds != 1)}"


def difference_columns(
    names: Sequence[Column], differences: Sequence[Difference], leader: Difference | None, narrow: bool
) -> list[Column]:
    """Verdicts in a word; the sentences are left out first."""

    def column(heading: str, text: Callable[[Difference], str], extra: str = "", least: int = 0) -> Column:
        return Column(heading, [text(each) for each in differences], extra=extra, least=least)

    return [
        *names,
        column("difference", lambda each: f"{each.difference:+.4f}" + LEADS * (each is leader)),
        column("95 %", lambda each: f"{each.low:+.4f} to {each.high:+.4f}"),
        column("p", lambda each: p_text(each.p_holm)),
        column("verdict", lambda each: each.verdict),
        column("needs", needs_text),
        *([] if seeds_in_words(differences) else [column("seeds", lambda each: str(each.seeds))]),
        column(
            "improvement", lambda each: "" if each.improvement is None else f"{each.improvement:.2f}", "improvement"
        ),
        column("p alone", lambda each: p_text(each.p), "p before correction"),
        column("in words", lambda each: each.says, "verdicts in words", 40),
    ]


def p_text(p: float | None) -> str:
    return "" if p is None else "<.0001" if p < 0.0001 else f"{p:.4f}"


def needs_text(difference: Difference) -> str:
    low, high = difference.seeds_needed, difference.seeds_needed_at_most
    if low is None:
        return ""
    return f"{low}+" if high is None else f"{low}-{high}" if high > low else str(low)


def comparison_notes(marks: str, other: str, width: int | None) -> str:
    notes = (
        f"{marks} p: corrected (Holm) for all comparisons of the metric. open: no difference can be seen; in brackets: "
        "not after that correction. needs: seeds that would show a difference as large as this one, where seeds "
        f"alone can. improvement: how likely a run of the row is better than {other} (0.50: as likely as not)."
    )
    return filled(notes.strip(), width)


# Claims


def claims_text(judged: Sequence[Judged], reservations: Sequence[str], width: int | None = None) -> str:
    """Each claim with its verdict, its numbers and what it rests on, and what goes for all of them."""
    if not judged:
        return "the study states no claims"
    lines = [line for number, claim in enumerate(judged, 1) for line in claim_lines(number, claim, width)]
    lines += ["", filled(f"{counted(judged)} {CORRECTED}", width)]
    return "\n".join([*lines, *(filled(text, width) for text in reservations)])


CORRECTED = "Verdicts are corrected for all claims (Holm). Intervals are 95 %, over seeds and test images."


def claim_lines(number: int, claim: Judged, width: int | None) -> list[str]:
    place = f" [{claim.section}]" if claim.section else ""
    late = "  (written after the first results)" if claim.stated == "after" else ""
    facts = [f"`{claim.holds}`"]
    if claim.difference is not None:
        beside = f" beside {claim.hardest}, the hardest of {claim.opponents}" if claim.opponents > 1 else ""
        facts.append(f"left − right {claim.difference:+.4f} ({claim.low:+.4f} to {claim.high:+.4f}){beside}")
    if claim.p is not None:
        facts.append(f"p {claim.p:.2g}, corrected for all claims {claim.p_holm:.2g}")
    rests = "; ".join(filter(None, [claim.budget, claim.reason]))
    indent = " " * 6
    return [
        filled(f"{claim.verdict.upper()}: {claim.says}{place}{late}", width, first=f"{number:2}. ", then=" " * 4),
        filled("; ".join(facts), width, first=indent, then=indent),
        filled(rests, width, first=indent, then=indent),
    ]


def counted(judged: Sequence[Judged]) -> str:
    """How many claims hold, fail and so on, in a sentence."""
    count = Counter(claim.verdict for claim in judged)
    lost = sum(claim.verdict != claim.uncorrected for claim in judged)
    parts = [
        f"{count['holds']} hold{'s' * (count['holds'] == 1)}",
        f"{count['fails']} fail{'s' * (count['fails'] == 1)}",
        f"{count['undecided']} undecided" + (f" ({lost} of them only after the correction)" if lost else ""),
        f"{count['not tested']} not tested" if count["not tested"] else "",
    ]
    return f"Of {len(judged)} claim{'s' * (len(judged) != 1)}, {', '.join(filter(None, parts))}."


def claims_in_short(judged: Sequence[Judged], hint: str, width: int | None) -> str:
    """A line for each. `hint`: the command that has the numbers."""
    lines = []
    for claim in judged:
        difference = "" if claim.difference is None else f" ({claim.difference:+.4f})"
        lines.append(
            filled(
                f"{claim.says or claim.holds}{difference}", width, first=f"{claim.verdict.upper():10}  ", then=" " * 12
            )
        )
    return "\n".join([*lines, filled(f"{counted(judged)} {hint} has the numbers.", width)])
