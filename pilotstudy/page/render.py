"""Puts data, style, script and plotly.js into one HTML file that opens anywhere, with no network."""

import base64
import gzip
import html
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from pilotstudy import storage
from pilotstudy.page.comparison import comparison_data
from pilotstudy.page.content import index_row, page_data, page_data_or_problem
from pilotstudy.page.results import shown_metrics
from pilotstudy.runs.folder import Run

# The scripts of each page, joined in this order into one module.
SHARED = ("dom.js", "choices.js", "table.js", "theme.js")
SCRIPTS = {
    "page": (
        *SHARED,
        "data.js",
        "plot.js",
        "parts.js",
        "figure.js",
        "printing.js",
        "rows.js",
        "shown-rows.js",
        "selection.js",
        "points.js",
        "reliability.js",
        "answer.js",
        "results.js",
        "calibration.js",
        "shift.js",
        "shift-heat.js",
        "shift-lines.js",
        "search.js",
        "parallel.js",
        "settings.js",
        "training.js",
        "filter.js",
        "trial.js",
        "trials.js",
        "made.js",
        "main.js",
    ),
    "compare": (
        *SHARED,
        "data.js",
        "plot.js",
        "parts.js",
        "figure.js",
        "printing.js",
        "rows.js",
        "compare.js",
        "compare-answer.js",
        "compare-runs.js",
        "compare-panels.js",
        "compare-matrix.js",
        "compare-claims.js",
        "compare-main.js",
    ),
    "index": (*SHARED, "index.js"),
}
COMPARISON = Path("comparison.html")  # of several runs, which is in no run's folder


def block(value: object) -> str:
    """JSON inside a script element: nothing in it can end the element or start another."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def fill(template: str, parts: Mapping[str, str]) -> str:
    """{{name}} → its part, in one pass, so that a part may hold braces itself."""
    folder = storage.packaged("dashboards")
    return re.sub(r"\{\{(\w+)\}\}", lambda name: parts[name[1]], (folder / template).read_text("utf-8"))


def asset(*names: str) -> str:
    return "\n".join((storage.packaged("dashboards") / name).read_text("utf-8") for name in names)


def script(name: str) -> str:
    """The script of a page, put together."""
    return asset(*(f"script/{part}" for part in SCRIPTS[name]))


@cache
def plotly() -> str:
    """The build for plots with x and y: https://www.npmjs.com/package/plotly.js-cartesian-dist-min, 4.1.1.

    In gzip and base64, which a page unpacks itself: a third of its size.
    """
    code = asset("plotly/plotly-cartesian.min.js").encode()
    return base64.b64encode(gzip.compress(code, mtime=0)).decode()


def page(content: Mapping[str, object]) -> str:
    """The page of a run's data, or of what is wrong with it."""
    run = content.get("run")
    title = str(run["title"]) if isinstance(run, Mapping) else "pilotstudy"
    return fill(
        "page.html",
        {
            "title": html.escape(title),
            "style": asset("style.css"),
            "data": block(content),
            "plotly": plotly(),
            "script": script("page"),
        },
    )


def save(run: Run, path: Path | None = None) -> Path:
    """Writes a run's page, by default into its folder."""
    path = path or run.files.dashboard
    storage.write(path, page(page_data(run)))
    return path


def comparison_page(content: Mapping[str, object], names: Sequence[str]) -> str:
    """The page of several runs, from their data."""
    return fill(
        "compare.html",
        {
            "title": html.escape(f"Compared: {', '.join(names)}"),
            "style": asset("style.css", "compare.css"),
            "data": block(content),
            "plotly": plotly(),
            "script": script("compare"),
        },
    )


def save_comparison(runs: Sequence[Run], path: Path | None = None) -> Path:
    """Writes the page of several runs, by default into the current folder."""
    path = path or COMPARISON
    storage.write(path, comparison_page(comparison_data(runs), [run.name for run in runs]))
    return path


def save_index(runs: list[Run], runs_dir: Path, path: Path | None = None) -> Path:
    """The index of all runs, with a page for each beside its results."""
    path = path or runs_dir / "index.html"
    rows = []
    for run in runs:
        of_run = page_data_or_problem(run)
        storage.write(run.files.dashboard, page(of_run))
        link = Path(run.files.dashboard)
        rows.append(index_row(run, of_run) | {"link": relative(link, path.parent)})
    content = block({"runs": rows, "metrics": shown_metrics()})
    index = fill("index.html", {"style": asset("style.css"), "data": content, "script": script("index")})
    storage.write(path, index)
    return path


def relative(path: Path, start: Path) -> str:
    import os
    from urllib.parse import quote

    return quote(os.path.relpath(path.resolve(), start.resolve()))
