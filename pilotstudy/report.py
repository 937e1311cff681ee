"""Text for people: tables, a trial's result, the lines of a training."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pilotstudy.arms import Arm, Choice
from pilotstudy.metrics import BINS
from pilotstudy.progress import Progress, message, on_terminal


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Columns aligned, numbers to the right, no decoration: readable, and easy to cut apart."""
    if not rows:
        return ""
    header = list(rows[0])
    cells = [[text(row[name]) for name in header] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    numeric = [all(isinstance(row[name], int | float) or row[name] is None for row in rows) for name in header]

    def line(values: Sequence[str]) -> str:
        padded = (v.rjust(w) if n else v.ljust(w) for v, w, n in zip(values, widths, numeric, strict=True))
        return "  ".join(padded).rstrip()

    return "\n".join(line(values) for values in [header, *cells])


def text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4f}"
    return str(value)


def trial_text(result: Mapping[str, Any]) -> str:
    """The test figures of one trial."""
    if not result["evaluations"]:
        return f"{result['trial']['arm']}: {result['status']} in epoch {result['epochs']}"
    columns = ("accuracy", "nll", "ece", "ece_noise_floor", "adaptive_ece", "classwise_ece", "mce", "brier", "aurc")
    rows = [
        {
            "epoch": f"{row['at']} ({result['epochs'] if row['at'] == 'last' else result['best_epoch']})",
            "mode": row["mode"],
            "temperature": f"{row['temperature']:.2f}" if row["scaled"] else "",
            **{name.replace("_noise", ""): row[name] for name in (*columns, "entropy")},
        }
        for row in result["evaluations"]
        if row["split"] == "test"
    ]
    trial = result["trial"]
    head = (
        f"{trial['arm']} on {trial['data']['name']}, {trial['network']['name']}, seed {trial['seed']}: "
        f"test figures, {BINS} bins; ece_floor is what a perfectly calibrated model would score"
    )
    return f"{head}\n{table(rows)}"


class EpochLines(Progress):
    """A training's progress: a bar on a terminal, a line for each epoch elsewhere."""

    def __init__(self, title: str, epochs: int):
        super().__init__(title, epochs)

    def __call__(self, record: Mapping[str, float]) -> None:
        note = (
            f"loss {record['train_loss']:.3f}  validation: accuracy {record['validation_accuracy']:.3f} "
            f"nll {record['validation_nll']:.3f} ece {record['validation_ece']:.3f}  "
            f"{record['images_per_second']:,.0f} images/s"
        )
        if on_terminal():
            self.done = int(record["epoch"]) - 1
            self.advance(note)
        else:
            message(f"{self.title}: epoch {record['epoch']}/{self.total}  {note}")


def arms_rows(arms: Iterable[Arm]) -> list[dict[str, Any]]:
    return [
        {
            "arm": arm.name,
            "about": arm.about,
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
    arms = list(arms)
    rows = [{"arm": arm.name, "modes": " ".join(arm.modes), "what it does": arm.about} for arm in arms]
    lines = [table(rows)]
    seen = []
    for arm in arms:
        if arm.settings.model_fields and arm.settings not in seen:
            seen.append(arm.settings)
            family = arm.name.split("-")[0] if arm.name != "data-aug" else arm.name
            settings = [
                {"setting": name, "default": str(value), "searched": searched(arm, name)}
                for name, value in arm.settings().model_dump().items()
            ]
            lines.append(
                f"\n{'add, sub' if family == 'add' else family}: --set arms.ARM.SETTING=VALUE\n{table(settings)}"
            )
    return "\n".join(lines)


def searched(arm: Arm, name: str) -> str:
    space = arm.space.get(name)
    if space is None:
        return ""
    if isinstance(space, Choice):
        return ", ".join(map(str, space.options))
    return f"{space.low:g} to {space.high:g}{' (log)' if space.log else ''}"
