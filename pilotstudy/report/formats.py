"""The forms of a table: text, Markdown, LaTeX, CSV, JSON, HTML."""

import html
import json
from collections.abc import Callable

from pilotstudy.evidence import paper
from pilotstudy.evidence.costs import HEADINGS
from pilotstudy.evidence.figures import diverged_in_words
from pilotstudy.evidence.labels import row_label
from pilotstudy.metrics.ood import metric_named
from pilotstudy.report.plain import csv_text
from pilotstudy.report.table import Cell, Line, Table


def number(value: float | None, digits: int = 4) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def ours(cell: Cell) -> str:
    """With its deviation, and a sign if it leads or may be the best."""
    if cell.ours is None:
        return ""
    spread = "" if cell.ours.deviation is None else f" ± {number(cell.ours.deviation)}"
    sign = {"leading": " °", "near": " ≈"}.get(cell.mark, "")
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


def as_text(table: Table) -> str:
    rows = grid(table, str, lambda text: f"{text} *")
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    body = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([table.title, "", *body, "", *table.notes])


def bold_notes(table: Table) -> list[str]:
    return [note.replace("* is", "Bold is", 1) for note in table.notes]


def as_markdown(table: Table) -> str:
    cells = grid(table, str, lambda text: f"**{text}**")
    head, *rows = (f"| {' | '.join(row)} |" for row in cells)
    rule = "|---" * len(cells[0]) + "|"
    return "\n".join([f"**{table.title}**", "", head, rule, *rows, "", *bold_notes(table)])


LATEX = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}"}
LATEX |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
LATEX |= {
    "±": r"$\pm$",
    "≈": r"$\approx$",
    "°": r"$^\circ$",
    "†": r"$\dagger$",
    "−": r"$-$",
    "×": r"$\times$",
    "→": r"$\to$",
}


def latex_text(text: str) -> str:
    """Any text, with what LaTeX gives a meaning to escaped; what its fonts may not have is left out."""
    escaped = "".join(LATEX.get(character, character) for character in text)
    return escaped.encode("latin-1", "ignore").decode("latin-1")


def as_latex(table: Table) -> str:
    """A tabular in a table of its own; it needs \\usepackage{booktabs,graphicx}."""
    cells = grid(table, latex_text, lambda text: f"\\textbf{{{text}}}")
    head, *rows = (f"    {' & '.join(row)} \\\\" for row in cells)
    groups = [(line.row.mode, line.row.phase) for line in table.lines]
    for number in range(len(rows) - 1, 0, -1):
        if groups[number] != groups[number - 1]:
            rows.insert(number, "    \\midrule")
    return "\n".join(
        [
            "\\begin{table}",
            "  \\centering",
            f"  \\caption{{{latex_text(table.title)}. {latex_text(' '.join(bold_notes(table)))}}}",
            "  \\resizebox{\\textwidth}{!}{%",
            f"  \\begin{{tabular}}{{l{'c' * (len(cells[0]) - 1)}}}",
            "    \\toprule",
            head,
            "    \\midrule",
            *rows,
            "    \\bottomrule",
            "  \\end{tabular}}",
            "\\end{table}",
        ]
    )


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
