"""A run's table, beside the paper's if wanted, and its forms: text, Markdown, LaTeX, CSV, JSON, HTML."""

import html
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pilotstudy import paper, report, statistics
from pilotstudy.errors import InputError
from pilotstudy.evidence import PAPER_METRICS, Evidence, Stored, load
from pilotstudy.metrics import BINS
from pilotstudy.runs import Run
from pilotstudy.statements import Row
from pilotstudy.statistics import Estimate

HEADS = {"accuracy": "accuracy", "nll": "NLL", "ece": f"ECE ({BINS} bins)", "brier": "Brier"}
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


def ours(cell: Cell) -> str:
    if cell.ours is None:
        return ""
    spread = "" if cell.ours.deviation is None else f" ± {number(cell.ours.deviation)}"
    return number(cell.ours.value) + spread + (" ≈" if cell.near and not cell.best else "")


def published(cell: Cell) -> str:
    """As the paper prints it."""
    figure = cell.published
    return "" if figure is None else figure.value + (f" ± {figure.spread}" if figure.spread else "")


def doubted(cell: Cell) -> str:
    return published(cell) + (" ?" if cell.published and cell.published.doubts else "")


def difference(cell: Cell) -> str:
    return "" if cell.difference is None else f"{cell.difference:+.4f}"


def interval(cell: Cell) -> str:
    return f"{number(cell.ours.low)} to {number(cell.ours.high)}" if cell.ours else ""


def floor(cell: Cell) -> str:
    return number(cell.floor)


def columns(table: Table) -> list[tuple[str, str, Callable[[Cell], str]]]:
    """(metric, heading, text of a cell) of each column after the name and the seeds."""
    beside = [("paper", doubted), ("difference", difference)] if table.like_paper else [("95 %", interval)]
    found: list[tuple[str, str, Callable[[Cell], str]]] = []
    for name in table.metrics:
        found.append((name, HEADS.get(name, name), ours))
        if name == "ece":
            found.append((name, "floor", floor))
        found += [(name, head, text) for head, text in beside]
    return found


def grid(table: Table, escape: Callable[[str], str], best: Callable[[str], str]) -> list[list[str]]:
    """The texts of all cells, the heading first; `best` marks what is really the best."""
    heads = columns(table)
    rows = [[escape(text) for text in ("", "seeds", *(head for _, head, _ in heads))]]
    for line in table.lines:
        texts = [escape(label(line.row)), str(line.seeds or "")]
        for name, _, text in heads:
            cell = line.cells[name]
            texts.append(best(escape(text(cell))) if cell.best and text is ours else escape(text(cell)))
        rows.append(texts)
    return rows


def as_text(table: Table) -> str:
    rows = grid(table, str, lambda text: f"{text} *")
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    body = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([table.title, "", *body, "", *table.notes])


def bold_notes(table: Table) -> list[str]:
    return [note.replace("* is", "Bold is", 1) for note in table.notes]


def as_markdown(table: Table) -> str:
    head, *rows = (f"| {' | '.join(row)} |" for row in grid(table, str, lambda text: f"**{text}**"))
    rule = "|---" * (2 + len(columns(table))) + "|"
    return "\n".join([f"**{table.title}**", "", head, rule, *rows, "", *bold_notes(table)])


LATEX = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}"}
LATEX |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
LATEX |= {"±": r"$\pm$", "≈": r"$\approx$", "−": r"$-$", "×": r"$\times$", "→": r"$\to$"}


def latex_text(text: str) -> str:
    """Any text, with what LaTeX gives a meaning to escaped; what its fonts may not have is left out."""
    escaped = "".join(LATEX.get(character, character) for character in text)
    return escaped.encode("latin-1", "ignore").decode("latin-1")


def as_latex(table: Table) -> str:
    """A tabular in a table of its own; it needs \\usepackage{booktabs,graphicx}."""
    head, *rows = (f"    {' & '.join(row)} \\\\" for row in grid(table, latex_text, lambda text: f"\\textbf{{{text}}}"))
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
            f"  \\begin{{tabular}}{{l{'c' * (1 + len(columns(table)))}}}",
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
