"""The claims of several runs beside each other, in the forms of `pilotstudy claims RUN RUN ..`."""

import json
from collections.abc import Callable, Sequence

from pilotstudy.evidence.claims import Judged
from pilotstudy.evidence.claims_beside import ClaimBeside
from pilotstudy.report.layout import Column, filled, table_text
from pilotstudy.report.plain import csv_text
from pilotstudy.report.texts import counted

NOTE = (
    "Left minus right of the statement, with its 95 % interval over seeds and test images; where a claim is about a "
    "group, beside the row that is hardest to decide against. A verdict is corrected (Holm) for all claims of its own "
    "study; what is undecided may be either."
)
LATE = " (stated after the results)"


def as_text(claims: Sequence[ClaimBeside], names: Sequence[str], width: int | None) -> str:
    """A line for each claim, a column for each run."""
    if not claims:
        return "the studies state no claims"
    columns = [Column("claim", [claim.says or claim.holds for claim in claims], least=24)]
    columns += [
        Column(name, [in_a_word(claim.verdicts[number]) for claim in claims], least=10)
        for number, name in enumerate(names)
    ]
    counts = [filled(f"{name}: {counted(own)}", width) for name, own in by_run(claims, names) if own]
    return "\n".join([table_text(columns, width), "", *counts, filled(NOTE, width)])


def by_run(claims: Sequence[ClaimBeside], names: Sequence[str]) -> list[tuple[str, list[Judged]]]:
    return [(name, [own for claim in claims if (own := claim.verdicts[number])]) for number, name in enumerate(names)]


def in_a_word(judged: Judged | None) -> str:
    if judged is None:
        return ""
    word = judged.verdict.upper() if judged.verdict in ("holds", "fails") else judged.verdict
    return word if judged.difference is None else f"{word} {judged.difference:+.4f}".replace("-", "−")


def as_markdown(claims: Sequence[ClaimBeside], names: Sequence[str]) -> str:
    """Claims in the order of the studies, under their sections; verdicts with their numbers."""
    lines = [f"| claim | {' | '.join(map(escaped, names))} |", "|---" * (len(names) + 1) + "|"]
    section = ""
    for claim in claims:
        if claim.section != section:
            section = claim.section
            lines.append(f"| *{escaped(section or 'other claims')}* |{' |' * len(names)}")
        cells = " | ".join(map(cell, claim.verdicts))
        lines.append(f"| {escaped(claim.says or claim.holds)}<br>{code(claim.holds)} | {cells} |")
    counts = [f"- {escaped(name)}: {counted(own)}" for name, own in by_run(claims, names) if own]
    return "\n".join([*lines, "", *counts, "", NOTE])


def cell(judged: Judged | None) -> str:
    if judged is None:
        return ""
    word = f"**{judged.verdict}**" if judged.verdict in ("holds", "fails") else judged.verdict
    late = LATE if judged.stated == "after" else ""
    if judged.difference is None:
        return f"{word}{late}: {escaped(judged.reason)}" if judged.reason else f"{word}{late}"
    numbers = f"{judged.difference:+.3f} [{judged.low:+.3f}, {judged.high:+.3f}]".replace("-", "−")
    beside = f" beside {code(judged.hardest)}" if judged.opponents > 1 else ""
    return f"{word}{late}<br>{numbers}{beside}"


def escaped(text: str) -> str:
    """What would end a cell of Markdown, or be taken for HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("\n", " ")


def code(text: str) -> str:
    """In it, only a bar has a meaning."""
    return f"`{text}`".replace("|", "\\|")


def records(claims: Sequence[ClaimBeside], names: Sequence[str]) -> list[dict[str, object]]:
    """One for each claim and run that judges it."""
    return [
        {"run": name} | own.record() for claim in claims for name, own in zip(names, claim.verdicts, strict=True) if own
    ]


FORMATS: dict[str, Callable[[Sequence[ClaimBeside], Sequence[str]], str]] = {
    "markdown": as_markdown,
    "csv": lambda claims, names: csv_text(records(claims, names)).rstrip("\n"),
    "json": lambda claims, names: json.dumps(records(claims, names)),
}
