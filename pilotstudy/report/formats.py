"""The forms of a table: text, Markdown, LaTeX, CSV, JSON, HTML."""

import html
import json
from collections.abc import Callable
from functools import partial

from pilotstudy.evidence import paper
from pilotstudy.evidence.costs import HEADINGS
from pilotstudy.evidence.figures import diverged_in_words
from pilotstudy.evidence.labels import row_label
from pilotstudy.metrics.ood import metric_named
from pilotstudy.report.latex import Entry, label_of, latex_table, latex_text, smaller
from pilotstudy.report.layout import Column, filled, tables_text
from pilotstudy.report.plain import csv_text
from pilotstudy.report.table import Cell, Line, Table


def number(value: float | None, digits: int = 4) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def ours(cell: Cell) -> str:
    """With its deviation, and a sign if it leads or may be the best."""
    if cell.ours is None:
        return ""
    spread = "" if cell.ours.deviation is None else f" ± {number(cell.ours.deviation)}"
    sign = {"leading": " °", "near": " ≈"}.get(cell.mark, "")  # what is really the best is set off by each form
    return number(cell.ours.value) + spread + sign


def published(cell: Cell) -> str:
    """As the paper prints it."""
    figure = cell.published
    return "" if figure is None else figure.value + (f" ± {figure.spread}" if figure.spread else "")


def doubted(cell: Cell) -> str:
    """As printed, `?` where it cannot be right, `†` where there is something to know."""
    figure = cell.published
    signs = ("?" * bool(figure.doubts) + "†" * bool(figure.remarks)) if figure else ""
    return f"{published(cell)} {signs}".strip()


def seeds_text(line: Line) -> str:
    return ", ".join(filter(None, [str(line.seeds or ""), diverged_in_words(line.diverged, line.seeds)]))


def difference(cell: Cell) -> str:
    return "" if cell.difference is None else f"{cell.difference:+.4f}"


def interval(cell: Cell) -> str:
    return f"{number(cell.ours.low)} to {number(cell.ours.high)}" if cell.ours else ""


def floor(cell: Cell) -> str:
    return number(cell.floor)


def columns(table: Table) -> list[tuple[str, str, Callable[[Cell], str]]]:
    """(metric, heading, text of a cell) of each column after the name and the seeds."""
    beside = [("paper", doubted), ("difference", difference)] if table.like_paper else [("95 %", interval)]
    all_columns: list[tuple[str, str, Callable[[Cell], str]]] = []
    for name in table.metrics:
        all_columns.append((name, metric_named(name).heading, ours))
        if metric_named(name).floor:
            all_columns.append((name, "floor", floor))
        all_columns += [(name, heading, text) for heading, text in beside]
    return all_columns


def cost_text(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def cost_texts(line: Line) -> list[str]:
    """The cells of what the row costs, after the others, where that is shown."""
    values = line.cost.record() if line.cost else {}
    return [cost_text(value) for value in values.values()]


def grid(table: Table, escape: Callable[[str], str], best: Callable[[str], str]) -> list[list[str]]:
    """The texts of all cells, the heading first; `best` marks what is really the best."""
    heads = columns(table)
    costs = HEADINGS.values() if table.with_cost else ()
    rows = [[escape(text) for text in ("", "seeds", *(head for _, head, _ in heads), *costs)]]
    for line in table.lines:
        texts = [escape(row_label(line.row)), escape(seeds_text(line))]
        for name, _, text in heads:
            cell = line.cells[name]
            is_best = cell.mark == "best" and text is ours
            texts.append(best(escape(text(cell))) if is_best else escape(text(cell)))
        rows.append(texts + [escape(text) for text in cost_texts(line)])
    return rows


SHORT = {"best": " *", "leading": " °", "near": " ≈", "": ""}


def short(cell: Cell) -> str:
    """The same in less room: `0.8320 ±.0023 °`."""
    if cell.ours is None:
        return ""
    spread = "" if cell.ours.deviation is None else f" ±{number(cell.ours.deviation).removeprefix('0')}"
    return number(cell.ours.value) + spread + SHORT[cell.mark]


def text_columns(table: Table, narrow: bool) -> list[Column]:
    """What can be left out first where there is no room: intervals, then the floor. What was asked for stays."""
    heading, *rows = grid(table, str, lambda text: f"{text} *")
    cells = list(zip(*rows, strict=True)) or [()] * len(heading)
    found = [Column("", cells[0], least=16), Column("seeds", cells[1], least=10)]
    for (name, head, text), own in zip(columns(table), cells[2:], strict=False):
        extra = "95 % intervals" if text is interval else "noise floors" if text is floor else ""
        shown = [short(line.cells[name]) for line in table.lines] if narrow and text is ours else own
        found.append(Column(head, shown, extra=extra, group=name if table.like_paper else ""))
    if table.with_cost:
        costs = zip(HEADINGS.values(), cells[-len(HEADINGS) :], strict=True)
        found += [Column(head, own, right=True) for head, own in costs]
    return found


def as_text(table: Table, width: int | None = None) -> str:
    body = tables_text([("", partial(text_columns, table))], width)
    return "\n".join([filled(table.title, width), "", body, "", *(filled(note, width) for note in table.notes)])


def bold_notes(table: Table) -> list[str]:
    return [note.replace("* is", "Bold is", 1) for note in table.notes]


def as_markdown(table: Table) -> str:
    cells = grid(table, str, lambda text: f"**{text}**")
    head, *rows = (f"| {' | '.join(row)} |" for row in cells)
    rule = "|---" * len(cells[0]) + "|"
    return "\n".join([f"**{table.title}**", "", head, rule, *rows, "", *bold_notes(table)])


def as_latex(table: Table) -> str:
    """A row's intervals, or the paper's figures, stand below its own: beside them, the type would be too small."""
    below, said = (doubted, "Below: the paper's.") if table.like_paper else (bracketed, "In brackets: the intervals.")
    heads = [column for column in columns(table) if column[2] in (ours, floor)]
    seeds = {seeds_text(line) for line in table.lines if line.seeds or line.diverged}
    alike = len(seeds) == 1
    costs = HEADINGS.values() if table.with_cost else ()
    titles = ["", *([] if alike else ["seeds"]), *(head for _, head, _ in heads), *costs]
    entries = []
    for line in table.lines:
        cells = [latex_text(row_label(line.row)), *([] if alike else [latex_text(seeds_text(line))])]
        others = [""] * len(cells)
        for name, _, text in heads:
            cells.append(latex_ours(line.cells[name]) if text is ours else latex_text(text(line.cells[name])))
            others.append(latex_text(below(line.cells[name])) if text is ours else "")
        more = [latex_text(text) for text in cost_texts(line)]
        group = line.row.mode, line.row.phase
        entries.append(Entry(cells + more, others + [""] * len(more), group))
    notes = [*([f"Seeds: {seeds.pop()}."] if alike else []), said, *bold_notes(table)]
    return latex_table(
        latex_text(table.title),
        label_of(table.name),
        latex_text(" ".join(notes)),
        [latex_text(title) for title in titles],
        entries,
    )


def latex_ours(cell: Cell) -> str:
    if cell.ours is None:
        return ""
    value = number(cell.ours.value)
    spread = "" if cell.ours.deviation is None else smaller(rf"$\pm$\,{number(cell.ours.deviation)}")
    sign = {"leading": r"$^\circ$", "near": r"$^\approx$"}.get(cell.mark, "")
    return (rf"\textbf{{{value}}}" if cell.mark == "best" else value) + (rf"\,{spread}" if spread else "") + sign


def bracketed(cell: Cell) -> str:
    return f"[{number(cell.ours.low)}, {number(cell.ours.high)}]" if cell.ours else ""


def as_html(table: Table) -> str:
    head, *rows = grid(table, html.escape, lambda text: f"<b>{text}</b>")
    heading = "".join(f'<th scope="col">{text}</th>' for text in head)
    body = [f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{text}</td>" for text in row[1:])}</tr>' for row in rows]
    foot = "".join(f"<p>{html.escape(note)}</p>" for note in bold_notes(table))
    caption = f"<caption>{html.escape(table.title)}</caption>"
    return "\n".join(
        [f"<table>\n{caption}\n<thead><tr>{heading}</tr></thead>\n<tbody>", *body, f"</tbody>\n</table>\n{foot}"]
    )


def table_rows(table: Table) -> list[dict[str, object]]:
    """Plain numbers, a row for each line."""
    return [line_record(line, like_paper=table.like_paper) for line in table.lines]


def line_record(line: Line, *, like_paper: bool) -> dict[str, object]:
    row = line.row
    record: dict[str, object] = {"row": str(row), "arm": row.arm, "mode": row.mode, "phase": row.phase}
    record |= {"seeds": line.seeds, "diverged": line.diverged}
    for name, cell in line.cells.items():
        mine = cell.ours
        record |= {
            name: mine.value if mine else None,
            f"{name}_sd": mine.deviation if mine else None,
            f"{name}_low": mine.low if mine else None,
            f"{name}_high": mine.high if mine else None,
            f"{name}_best": cell.mark == "best",
            f"{name}_leads": cell.mark in ("best", "leading"),
            f"{name}_may_be_best": cell.mark != "",
        }
        if metric_named(name).floor:
            record[metric_named(name).floor] = cell.floor
        if like_paper:
            printed = cell.published
            record |= {
                f"{name}_paper": float(printed.value) if printed else None,
                f"{name}_paper_spread": float(printed.spread) if printed and printed.spread else None,
                f"{name}_difference": cell.difference,
                f"{name}_doubts": "; ".join(paper.DOUBTS[doubt] for doubt in printed.doubts) if printed else "",
                f"{name}_remarks": "; ".join(paper.REMARKS[remark] for remark in printed.remarks) if printed else "",
            }
    return record | (line.cost.record() if line.cost else {})


FORMATS: dict[str, Callable[[Table], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "latex": as_latex,
    "csv": lambda table: csv_text(table_rows(table)).rstrip("\n"),
    "json": lambda table: json.dumps({"title": table.title, "rows": table_rows(table), "notes": table.notes}),
    "html": as_html,
}
