"""Text for people: tables, a trial's result, the lines of a training."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pilotstudy.arms import Arm, Choice
from pilotstudy.metrics import BINS
from pilotstudy.prices import SPREAD
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


def csv(rows: Sequence[Mapping[str, Any]]) -> str:
    import csv as writer
    import io

    out = io.StringIO()
    if rows:
        table = writer.DictWriter(out, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    return out.getvalue()


def results_text(rows: Sequence[Mapping[str, Any]], optimism: Sequence[Mapping[str, Any]]) -> str:
    """The figures of most interest with their deviations; the rest is in the other formats."""
    columns = ("accuracy", "nll", "ece", "ece_noise_floor", "brier", "aurc", "entropy")
    lines = [
        {"arm": row["arm"], "mode": row["mode"], "phase": row["phase"], "epoch": row["at"], "seeds": row["seeds"]}
        | {name.replace("_noise", ""): with_spread(row[name], row[f"{name}_sd"]) for name in columns}
        for row in rows
    ]
    text = f"test figures, mean ± sample deviation over seeds, ECE with {BINS} bins\n{table(lines)}"
    if optimism:
        text += (
            f"\n\nvalidation figures of the search's best, and of the same settings on fresh seeds\n{table(optimism)}"
        )
    return text


def with_spread(mean: float, deviation: float | None) -> str:
    return f"{mean:.4f}" + (f" ±{deviation:.4f}" if deviation is not None else "")


def toml(content: Mapping[str, Any], prefix: str = "") -> str:
    """Plain values first, then sections; what is not set is left out."""
    import json

    plain, sections = [], []
    for key, value in content.items():
        if isinstance(value, Mapping):
            sections.append(f"\n[{prefix}{key}]\n{toml(value, f'{prefix}{key}.')}")
        elif isinstance(value, list | tuple) and any(isinstance(entry, Mapping) for entry in value):
            sections += [f"\n[[{prefix}{key}]]\n{toml(entry, f'{prefix}{key}.')}" for entry in value]
        elif value is not None:
            plain.append(f"{key} = {json.dumps(value, ensure_ascii=False)}\n")
    return "".join(plain + sections)


def plan_text(plan: Mapping[str, Any]) -> str:
    if plan["measured"]:
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


def claims_text(judged: Sequence[Any]) -> str:
    """Each claim with its verdict, its numbers and what it rests on."""
    if not judged:
        return "the study states no claims; --claim 'nll: pilot-a-aug < vanilla' tries one"
    lines = []
    for number, one in enumerate(judged, 1):
        place = f" [{one.section}]" if one.section else ""
        late = "  (written after the first results)" if one.stated == "after" else ""
        lines.append(f"{number:2}. {one.verdict.upper()}: {one.says}{place}{late}")
        facts = [f"`{one.holds}`"]
        if one.difference is not None:
            beside = f" beside {one.hardest}, the hardest of {one.opponents}" if one.opponents > 1 else ""
            facts.append(f"left − right {one.difference:+.4f} ({one.low:+.4f} to {one.high:+.4f}){beside}")
        if one.p is not None:
            facts.append(f"p {one.p:.2g}, corrected for all claims {one.p_holm:.2g}")
        lines.append("      " + "; ".join(facts))
        lines.append("      " + "; ".join(filter(None, [one.budget, one.reason])))
    count = {verdict: sum(one.verdict == verdict for one in judged) for verdict in ("holds", "fails", "undecided")}
    firm = sum(one.verdict == "holds" and (one.p_holm or 1) < 0.05 for one in judged)
    lines.append(
        f"\n{count['holds']} hold ({firm} of them after Holm's correction for all claims), {count['fails']} fail, "
        f"{count['undecided']} undecided. Intervals are 95 %, over seeds and test images."
    )
    return "\n".join(lines)
