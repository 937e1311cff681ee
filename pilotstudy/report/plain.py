"""Text for people: tables, a trial's result, the lines of a training."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from pilotstudy.arms.arm import Arm, Choice
from pilotstudy.console import Progress, message, on_terminal
from pilotstudy.evidence.claims import Judged
from pilotstudy.evidence.ensembles import EnsembleRow
from pilotstudy.evidence.shift import TestFigure
from pilotstudy.evidence.summary import Optimism, Spread, SummaryRow
from pilotstudy.metrics.registry import METRICS, headline_metrics, with_floors
from pilotstudy.metrics.scores import BINS
from pilotstudy.runs.records import Evaluation, TrialResult
from pilotstudy.schedule.prices import SPREAD

if TYPE_CHECKING:
    from pilotstudy.schedule.plan import Plan


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Columns aligned, numbers to the right, no decoration: readable, and easy to cut apart."""
    if not rows:
        return ""
    header = list(rows[0])
    cells = [[cell_text(row[name]) for name in header] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    numeric = [all(isinstance(row[name], int | float) or row[name] is None for row in rows) for name in header]

    def line(values: Sequence[str]) -> str:
        padded = (v.rjust(w) if n else v.ljust(w) for v, w, n in zip(values, widths, numeric, strict=True))
        return "  ".join(padded).rstrip()

    return "\n".join(line(values) for values in [header, *cells])


def cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4f}"
    return str(value)


# Metrics, under the names that users type


def most_important() -> tuple[str, ...]:
    """Those that fit beside each other on a screen; the rest is in the other formats."""
    return *with_floors(headline_metrics()), "brier", "aurc", "entropy"


def metric_column(name: str) -> str:
    """The heading of a column: `ece_noise_floor` is ece_floor there."""
    return name.replace("_noise", "")


def trial_text(result: TrialResult) -> str:
    """The test figures of one trial."""
    trial = result.trial
    if not result.evaluations:
        return f"{trial.arm}: {result.status} in epoch {result.epochs}"
    names = *with_floors(headline_metrics()), "adaptive_ece", "classwise_ece", "mce", "brier", "aurc", "entropy"

    def line(evaluation: Evaluation) -> dict[str, object]:
        epoch = result.epochs if evaluation.at == "last" else result.best_epoch
        own: dict[str, object] = {
            "epoch": f"{evaluation.at} ({epoch})",
            "mode": evaluation.mode,
            "temperature": f"{evaluation.temperature:.2f}" if evaluation.scaled else "",
        }
        return own | {metric_column(name): evaluation.figures[name] for name in names}

    lines = [line(evaluation) for evaluation in result.evaluations if evaluation.split == "test"]
    head = (
        f"{trial.arm} on {trial.data.name}, {trial.network.name}, seed {trial.seed}: "
        f"test figures, {BINS} bins; ece_floor is what a perfectly calibrated model would score"
    )
    return f"{head}\n{table(lines)}"


class EpochLines(Progress):
    """A training's progress: a bar on a terminal, a line for each epoch elsewhere."""

    def __init__(self, title: str, epochs: int):
        super().__init__(title, epochs)

    def __call__(self, record: Mapping[str, float]) -> None:
        shown = [name for name in headline_metrics() if METRICS[name].every_epoch]
        figures = " ".join(f"{name} {record[f'validation_{name}']:.3f}" for name in shown)
        note = f"loss {record['train_loss']:.3f}  validation: {figures}  {record['images_per_second']:,.0f} images/s"
        if on_terminal():
            self.done = int(record["epoch"]) - 1
            self.advance(note)
        else:
            message(f"{self.title}: epoch {record['epoch']}/{self.total}  {note}")


def arms_rows(arms: Iterable[Arm]) -> list[dict[str, object]]:
    """What there is to know of each arm before it is used."""
    return [
        {
            "arm": arm.name,
            "about": arm.about,
            "role": arm.role,
            "group": arm.group,
            "modes": list(arm.modes),
            "settings": arm.settings().model_dump(),
            "search": {
                name: {"options": list(space.options)} if isinstance(space, Choice) else vars(space)
                for name, space in arm.space.items()
            },
        }
        for arm in arms
    ]


def arms_text(arms: Iterable[Arm]) -> str:
    """A table of the arms, and one of the settings of each family of them."""
    arms = list(arms)
    rows = [
        {"arm": arm.name, "group": arm.group or arm.role, "modes": " ".join(arm.modes), "what it does": arm.about}
        for arm in arms
    ]
    lines = [table(rows)]
    families: dict[str, Arm] = {}
    for arm in arms:
        if arm.settings.model_fields:
            families.setdefault(arm.family, arm)
    for family, arm in families.items():
        settings = [
            {"setting": name, "default": str(value), "searched": space_text(arm, name)}
            for name, value in arm.settings().model_dump().items()
        ]
        lines.append(f"\n{family}: --set arms.ARM.SETTING=VALUE\n{table(settings)}")
    return "\n".join(lines)


def space_text(arm: Arm, setting: str) -> str:
    """What a search may choose for a setting."""
    space = arm.space.get(setting)
    if space is None:
        return ""
    if isinstance(space, Choice):
        return ", ".join(map(str, space.options))
    return f"{space.low:g} to {space.high:g}{' (log)' if space.log else ''}"


def csv_text(rows: Sequence[Mapping[str, object]]) -> str:
    import csv
    import io

    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return out.getvalue()


def results_text(rows: Sequence[SummaryRow], optimism: Sequence[Optimism]) -> str:
    """The most important figures with their deviations."""
    text = f"test figures, mean ± sample deviation over seeds, ECE with {BINS} bins\n{table(results_lines(rows))}"
    if optimism:
        gaps = table([asdict(gap) for gap in optimism])
        text += (
            "\n\nthe search: validation figures of its best, and of the same settings on fresh seeds; the optimism is "
            "over seeds,\nsince the validation images are those that chose; trials and training seconds that it took\n"
            f"{gaps}"
        )
    return text


def results_lines(rows: Sequence[SummaryRow]) -> list[dict[str, object]]:
    lines: list[dict[str, object]] = []
    for row in rows:
        line = {"arm": row.arm, "mode": row.mode, "phase": row.phase, "epoch": row.at, "seeds": row.seeds}
        figures = {metric_column(name): spread_text(row.figures[name]) for name in most_important()}
        lines.append(line | figures)
    return lines


def spread_text(spread: Spread) -> str:
    return f"{spread.mean:.4f}" + (f" ±{spread.deviation:.4f}" if spread.deviation is not None else "")


def ensembles_text(rows: Sequence[EnsembleRow]) -> str:
    return table(ensembles_lines(rows))


def ensembles_lines(rows: Sequence[EnsembleRow]) -> list[dict[str, object]]:
    """The most important figures."""
    names = ("row", "recalibration", "seeds", *most_important(), "members")
    return [{name: record[name] for name in names} for record in (row.record() for row in rows)]


def tests_text(figures: Sequence[TestFigure]) -> str:
    """A line for each test set and row, shift first; of each metric the difference to the clean test beside it."""
    if not figures:
        return "the study has no further test sets: see [[tests]] in the README"
    tables = []
    for kind in "shift", "ood":
        of_kind = [figure for figure in figures if figure.kind == kind]
        metrics = dict.fromkeys(figure.metric for figure in of_kind)
        columns = [name for metric in metrics for name in (metric, *([f"{metric} less clean"] * _has(of_kind, metric)))]
        lines: dict[tuple[str, str], dict[str, object]] = {}
        for figure in of_kind:
            own = {"test": figure.test, "row": str(figure.row), "seeds": figure.seeds} | dict.fromkeys(columns)
            line = lines.setdefault((figure.test, str(figure.row)), own)
            line[figure.metric] = figure.figure
            if figure.difference is not None:
                line[f"{figure.metric} less clean"] = figure.difference
        if lines:
            tables.append(table(list(lines.values())))
    return "\n\n".join(tables)


def _has(figures: Sequence[TestFigure], metric: str) -> bool:
    return any(figure.difference is not None for figure in figures if figure.metric == metric)


def plan_text(plan: "Plan") -> str:
    if plan["memory_gib"] is not None:
        estimate, tail = "", f"{plan['memory_gib']:.1f} GiB of memory"
    else:
        estimate, tail = f" (estimate, {SPREAD})", "no such GPU is here to measure"
    if plan["gpu_memory_gib"] is not None:
        tail += f", {plan['gpu_memory_gib']:.1f} GiB of a GPU's"
    lines = [
        table(plan["arms"]),
        "",
        f"{plan['trials']} trials, {plan['concurrency']} at a time on {plan['device']}: "
        f"about {duration(plan['seconds'])}{estimate}, ends about {plan['ends']}; {tail}",
    ]
    for row in plan["machines"]:
        one = row["machines"] == 1
        name = plan["machine"] if one else f"{row['machines']} machines"
        price = f" at {plan['price']:.2f} $ an hour{estimate}" if one else ""
        lines.append(f"{name}: {duration(row['seconds'])}, about {row['dollars']:.2f} ${price}")
    return "\n".join([*lines, *plan["notes"]])


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def claims_text(judged: Sequence[Judged], reservations: Sequence[str]) -> str:
    """Each claim with its verdict, its numbers and what it rests on, and what goes for all of them."""
    if not judged:
        return "the study states no claims"
    lines = [line for number, claim in enumerate(judged, 1) for line in claim_lines(number, claim)]
    count = Counter(claim.verdict for claim in judged)
    lost = sum(claim.verdict != claim.uncorrected for claim in judged)
    undecided = f"{count['undecided']} undecided" + (f" ({lost} of them only after the correction)" if lost else "")
    untested = f", {count['not tested']} not tested" if count["not tested"] else ""
    lines.append(
        f"\n{count['holds']} hold, {count['fails']} fail, {undecided}{untested}. Verdicts are corrected for all claims "
        "(Holm). Intervals are 95 %, over seeds and test images."
    )
    return "\n".join([*lines, *reservations])


def claim_lines(number: int, claim: Judged) -> list[str]:
    place = f" [{claim.section}]" if claim.section else ""
    late = "  (written after the first results)" if claim.stated == "after" else ""
    facts = [f"`{claim.holds}`"]
    if claim.difference is not None:
        beside = f" beside {claim.hardest}, the hardest of {claim.opponents}" if claim.opponents > 1 else ""
        facts.append(f"left − right {claim.difference:+.4f} ({claim.low:+.4f} to {claim.high:+.4f}){beside}")
    if claim.p is not None:
        facts.append(f"p {claim.p:.2g}, corrected for all claims {claim.p_holm:.2g}")
    return [
        f"{number:2}. {claim.verdict.upper()}: {claim.says}{place}{late}",
        "      " + "; ".join(facts),
        "      " + "; ".join(filter(None, [claim.budget, claim.reason])),
    ]
