"""Text for people: tables, a trial's result, the lines of a training."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pilotstudy.arms.arm import Arm, Choice
from pilotstudy.console import Progress, message, on_terminal
from pilotstudy.metrics.registry import METRICS, headline_metrics, with_floors
from pilotstudy.metrics.scores import BINS
from pilotstudy.report.layout import Column, filled, table_text
from pilotstudy.runs.records import Evaluation, TrialResult
from pilotstudy.schedule.prices import SPREAD

if TYPE_CHECKING:
    from pilotstudy.schedule.plan import Plan


def table(rows: Sequence[Mapping[str, object]], width: int | None = None, extras: Collection[str] = ()) -> str:
    """Columns aligned, numbers to the right, no decoration: readable, and easy to cut apart.

    `extras`: columns that may be left out where the width does not do for all.
    """
    if not rows:
        return ""
    columns = []
    for place, name in enumerate(rows[0]):
        cells = [cell_text(row[name]) for row in rows]
        numeric = all(isinstance(row[name], int | float) or row[name] is None for row in rows)
        has_words = not numeric and (place == 0 or any(" " in cell for cell in cells))
        columns.append(Column(name, cells, numeric, 16 if has_words else 0, name if name in extras else ""))
    return table_text(columns, width)


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


def trial_text(result: TrialResult, width: int | None = None) -> str:
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
    return f"{filled(head, width)}\n{table(lines, width)}"


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


def arms_text(arms: Iterable[Arm], width: int | None = None) -> str:
    """A table of the arms, and one of the settings of each family of them."""
    arms = list(arms)
    rows = [
        {"arm": arm.name, "group": arm.group or arm.role, "modes": " ".join(arm.modes), "what it does": arm.about}
        for arm in arms
    ]
    lines = [table(rows, width)]
    families: dict[str, Arm] = {}
    for arm in arms:
        if arm.settings.model_fields:
            families.setdefault(arm.family, arm)
    for family, arm in families.items():
        settings = [
            {"setting": name, "default": str(value), "searched": space_text(arm, name)}
            for name, value in arm.settings().model_dump().items()
        ]
        lines.append(f"\n{family}: --set arms.ARM.SETTING=VALUE\n{table(settings, width)}")
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


def plan_text(plan: "Plan", width: int | None = None) -> str:
    if plan["memory_gib"] is not None:
        estimate, tail = "", f"{plan['memory_gib']:.1f} GiB of memory"
    else:
        estimate, tail = f" (estimate, {SPREAD})", "no such GPU is here to measure"
    if plan["gpu_memory_gib"] is not None:
        tail += f", {plan['gpu_memory_gib']:.1f} GiB of a GPU's"
    lines = [
        table(plan["arms"], width),
        "",
        filled(
            f"{plan['trials']} trials, {plan['concurrency']} at a time on {plan['device']}: "
            f"about {duration(plan['seconds'])}{estimate}, ends about {plan['ends']}; {tail}",
            width,
        ),
    ]
    for row in plan["machines"]:
        one = row["machines"] == 1
        name = plan["machine"] if one else f"{row['machines']} machines"
        price = f" at {plan['price']:.2f} $ an hour{estimate}" if one else ""
        lines.append(filled(f"{name}: {duration(row['seconds'])}, about {row['dollars']:.2f} ${price}", width))
    return "\n".join([*lines, *(filled(note, width) for note in plan["notes"])])


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
