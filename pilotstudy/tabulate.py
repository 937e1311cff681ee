"""A run's table, beside the paper's if wanted, and its forms: text, Markdown, LaTeX, CSV, JSON, HTML."""

import html
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pilotstudy import paper, report, statements, statistics
from pilotstudy.errors import InputError
from pilotstudy.evidence import PAPER_METRICS, Evidence, Stored, load
from pilotstudy.metrics import BINS
from pilotstudy.runs import Run
from pilotstudy.statements import Row
from pilotstudy.statistics import Estimate

HEADS = {"accuracy": "accuracy", "nll": "NLL", "ece": f"ECE ({BINS} bins)", "brier": "Brier"}
HEADS_OF_OURS = {*HEADS.values(), *statements.METRICS}  # the columns with our own figures
FAMILIES = {"pilot": "Pilot", "add": "Add", "sub": "Sub"}
NAMES = {"l2": "L2", "batchnorm": "Batch norm", "data-aug": "Data aug"}


def label(row: Row) -> str:
    """A row's name as the paper would print it."""
    family, _, mask = row.arm.partition("-")
    if family in FAMILIES:
        mask = mask.replace("-stopgrad", " (stop-gradient)")
        text = f"{FAMILIES[family]}{' MC' if row.mode == 'mc' else ''} {mask}"
    else:
        text = NAMES.get(row.arm) or row.arm.capitalize()
        text = f"MC {text.lower()}" if row.mode == "mc" else text
    if row.mode == "seeds":
        text = f"{text}, ensemble of seeds"
    return text + (", tuned" if row.phase == "confirm" else "")


@dataclass(frozen=True)
class Cell:
    ours: Estimate | None
    best: bool = False  # really: it differs from each of the others
    near: bool = False  # it may be the best
    floor: float | None = None  # of an ECE: what a perfectly calibrated model would score
    published: paper.Figure | None = None

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return self.ours.value - float(self.published.value) if self.ours and self.published else None


@dataclass(frozen=True)
class Line:
    row: Row
    seeds: int
    cells: dict[str, Cell]


@dataclass(frozen=True)
class Table:
    title: str
    lines: list[Line]
    metrics: tuple[str, ...]
    like_paper: bool
    notes: list[str]


def build(
    run: Run,
    *,
    like_paper: bool = False,
    names: Sequence[str] = PAPER_METRICS,
    at: str = "last",
    scaled: bool = False,
    stored: Stored | None = None,
    resamples: int = statistics.RESAMPLES,
) -> Table:
    """`stored`: what `evidence.read` gave, where several tables are made of it."""
    study = run.study()
    place = study.network.name, study.data.name
    printed = paper.rows(*place)
    if like_paper and not printed:
        known = dict.fromkeys(f"{f.network} on {f.data}" for f in paper.figures())
        raise InputError(f"the paper has no figures for {place[0]} on {place[1]}: it has {', '.join(known)}")
    loaded = load(run, at, scaled=scaled, stored=stored)
    evidence = Evidence(loaded, names, resamples)
    own = evidence.rows
    rows = [Row(*found) for found in printed] if like_paper else []
    rows += [row for row in order(own) if row not in rows]  # what the paper does not print comes after
    shown = [row for row in rows if row in own]
    best = {name: evidence.best(name, shown) for name in names}
    lines = []
    for row in rows:
        cells = {}
        for name in names:
            found = evidence.figure(name, row) if row in own else None
            really, near = best[name]
            published = paper.find(*place, row.arm, row.mode, name) if row.phase == "arms" else None
            floor = loaded.floors.get(row) if name == "ece" else None
            cells[name] = Cell(found, row == really, row in near, floor, published if like_paper else None)
        lines.append(Line(row, len(evidence.samples[names[0]][row].seeds) if row in own else 0, cells))
    title = (
        f"{study.title}: test figures at the {at} epoch{', after temperature scaling' if scaled else ''}, "
        f"{evidence.points:,} test images"
    )
    told = notes(lines, like_paper)
    if like_paper:
        images = f"{study.data.train_size:,} images" if study.data.train_size else "all images but those for validation"
        told.append(f"Ours: {images}, {study.training.epochs} epochs; the paper's: 250 epochs for MLPs, 100 for CNNs.")
    return Table(title, lines, tuple(names), like_paper, told)


def order(rows: Sequence[Row]) -> list[Row]:
    """Networks as they are, then sampled, then the ensemble; tuned arms last."""
    return sorted(rows, key=lambda row: (row.phase == "confirm", ("point", "mc", "ensemble").index(row.mode)))


def notes(lines: Sequence[Line], like_paper: bool) -> list[str]:
    found = [
        "± is the sample deviation over seeds; intervals are 95 %, over seeds and test images together.",
        "* is better than every other row; ≈ cannot be told from the best. "
        "floor: the ECE of a perfectly calibrated model with the same confidences.",
    ]
    if any(line.seeds == 1 for line in lines):
        found.append("Rows of one network have no deviation; their intervals hold for that network only.")
    if like_paper:
        doubts = dict.fromkeys(
            d for line in lines for c in line.cells.values() if c.published for d in c.published.doubts
        )
        found += [f"? {paper.DOUBTS[doubt]}" for doubt in doubts]
    return found


def number(value: float | None, digits: int = 4) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def ours(cell: Cell, digits: int, plus_minus: str = " ± ") -> str:
    if cell.ours is None:
        return ""
    spread = "" if cell.ours.deviation is None else plus_minus + number(cell.ours.deviation, digits)
    return number(cell.ours.value, digits) + spread


def published(cell: Cell, plus_minus: str = " ± ") -> str:
    figure = cell.published
    return "" if figure is None else figure.value + (plus_minus + figure.spread if figure.spread else "")


def marked(cell: Cell, head: str, text: str) -> str:
    """A cell's text with ≈ if it may be the best, ? if there is a doubt about what the paper prints."""
    if head in HEADS_OF_OURS and cell.near and not cell.best:
        return f"{text} ≈"
    if head == "paper" and cell.published and cell.published.doubts:
        return f"{text} ?"
    return text


def columns(table: Table) -> list[tuple[str, str, Callable[[Cell, str], str]]]:
    """(metric, heading, text of a cell with a given ±) of each column after the name and the seeds."""
    found: list[tuple[str, str, Callable[[Cell, str], str]]] = []
    for name in table.metrics:
        head = HEADS.get(name, name)
        found.append((name, head, lambda cell, pm: ours(cell, 4, pm)))
        if name == "ece":
            found.append((name, "floor", lambda cell, pm: number(cell.floor)))
        if table.like_paper:
            found.append((name, "paper", lambda cell, pm: published(cell, pm)))
            found.append((name, "difference", lambda cell, pm: "" if (d := cell.difference) is None else f"{d:+.4f}"))
        else:
            found.append((name, "95 %", lambda cell, pm: interval(cell)))
    return found


def interval(cell: Cell) -> str:
    return f"{number(cell.ours.low)} to {number(cell.ours.high)}" if cell.ours else ""


def as_text(table: Table) -> str:
    heads = columns(table)
    grid = [["", "seeds", *(head for _, head, _ in heads)]]
    for line in table.lines:
        texts = [label(line.row), str(line.seeds or "")]
        for name, head, cell_text in heads:
            cell = line.cells[name]
            text = marked(cell, head, cell_text(cell, " ± "))
            texts.append(f"{text} *" if cell.best and head in HEADS_OF_OURS else text)
        grid.append(texts)
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    body = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in grid]
    return "\n".join([table.title, "", *body, "", *table.notes])


def bold_notes(table: Table) -> list[str]:
    return [note.replace("* is", "Bold is", 1) for note in table.notes]


def as_markdown(table: Table) -> str:
    heads = columns(table)
    lines = [f"**{table.title}**", "", "| | seeds | " + " | ".join(head for _, head, _ in heads) + " |"]
    lines.append("|---" * (2 + len(heads)) + "|")
    for line in table.lines:
        texts = [label(line.row), str(line.seeds or "")]
        for name, head, cell_text in heads:
            cell = line.cells[name]
            text = marked(cell, head, cell_text(cell, " ± "))
            texts.append(f"**{text}**" if cell.best and head in HEADS_OF_OURS else text)
        lines.append("| " + " | ".join(texts) + " |")
    return "\n".join([*lines, "", *bold_notes(table)])


LATEX = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}"}
LATEX |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
LATEX |= {"±": r"$\pm$", "≈": r"$\approx$", "−": r"$-$", "×": r"$\times$", "→": r"$\to$"}


def latex_text(text: str) -> str:
    """Any text, with what LaTeX gives a meaning to escaped; what its fonts may not have is left out."""
    escaped = "".join(LATEX.get(character, character) for character in text)
    return escaped.encode("latin-1", "ignore").decode("latin-1")


def as_latex(table: Table) -> str:
    """A tabular in a table of its own; it needs \\usepackage{booktabs,graphicx}."""
    heads = columns(table)
    titles = " & ".join(latex_text(head) for _, head, _ in heads)
    lines = [
        "\\begin{table}",
        "  \\centering",
        f"  \\caption{{{latex_text(table.title)}. {latex_text(' '.join(bold_notes(table)))}}}",
        "  \\resizebox{\\textwidth}{!}{%" if len(heads) > 6 else "  {%",
        f"  \\begin{{tabular}}{{l{'c' * (1 + len(heads))}}}",
        "    \\toprule",
        f"    Model & Seeds & {titles} \\\\",
        "    \\midrule",
    ]
    before = None
    for line in table.lines:
        group = (line.row.mode, line.row.phase)
        if before not in (None, group):
            lines.append("    \\midrule")
        before = group
        texts = [latex_text(label(line.row)), str(line.seeds or "")]
        for name, head, cell_text in heads:
            cell = line.cells[name]
            text = latex_text(marked(cell, head, cell_text(cell, " ± ")))
            texts.append(f"\\textbf{{{text}}}" if cell.best and head in HEADS_OF_OURS else text)
        lines.append(f"    {' & '.join(texts)} \\\\")
    lines += ["    \\bottomrule", "  \\end{tabular}}", "\\end{table}"]
    return "\n".join(lines)


def as_html(table: Table) -> str:
    heads = columns(table)
    head = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in ["", "seeds", *(h for _, h, _ in heads)])
    lines = [f"<table>\n<caption>{html.escape(table.title)}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>"]
    for line in table.lines:
        cells = [f'<th scope="row">{html.escape(label(line.row))}</th><td>{line.seeds or ""}</td>']
        for name, title, cell_text in heads:
            cell = line.cells[name]
            text = html.escape(marked(cell, title, cell_text(cell, " ± ")))
            cells.append(f"<td>{f'<b>{text}</b>' if cell.best and title in HEADS_OF_OURS else text}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    foot = "".join(f"<p>{html.escape(note)}</p>" for note in bold_notes(table))
    return "\n".join([*lines, f"</tbody>\n</table>\n{foot}"])


def rows(table: Table) -> list[dict[str, Any]]:
    """Plain numbers, a row for each line."""
    found = []
    for line in table.lines:
        row: dict[str, Any] = {
            "row": str(line.row),
            "arm": line.row.arm,
            "mode": line.row.mode,
            "phase": line.row.phase,
        }
        row["seeds"] = line.seeds
        for name, cell in line.cells.items():
            mine = cell.ours
            row |= {
                name: mine.value if mine else None,
                f"{name}_sd": mine.deviation if mine else None,
                f"{name}_low": mine.low if mine else None,
                f"{name}_high": mine.high if mine else None,
                f"{name}_best": cell.best,
                f"{name}_may_be_best": cell.near,
            }
            if name == "ece":
                row["ece_noise_floor"] = cell.floor
            if table.like_paper:
                figure = cell.published
                row |= {
                    f"{name}_paper": float(figure.value) if figure else None,
                    f"{name}_paper_spread": float(figure.spread) if figure and figure.spread else None,
                    f"{name}_difference": cell.difference,
                    f"{name}_doubts": "; ".join(paper.DOUBTS[d] for d in figure.doubts) if figure else "",
                }
        found.append(row)
    return found


FORMATS: dict[str, Callable[[Table], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "latex": as_latex,
    "csv": lambda table: report.csv(rows(table)).rstrip("\n"),
    "json": lambda table: json.dumps({"title": table.title, "rows": rows(table), "notes": table.notes}),
    "html": as_html,
}
