"""Puts data, style, script and plotly.js into one HTML file that opens anywhere, with no network."""

import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pilotstudy import files
from pilotstudy.dashboard import data
from pilotstudy.runs import Run


def block(value: Any) -> str:
    """JSON inside a script element: nothing in it can end the element or start another."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def fill(template: str, parts: Mapping[str, str]) -> str:
    """{{name}} → its part, in one pass, so that a part may hold braces itself."""
    folder = files.resource("dashboards")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], (folder / template).read_text("utf-8"))


def asset(*names: str) -> str:
    return "\n".join((files.resource("dashboards") / name).read_text("utf-8") for name in names)


def plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).replace("</script", "<\\/script")


def page(content: Mapping[str, Any]) -> str:
    title = content["run"]["title"] if "run" in content else "pilotstudy"
    return fill(
        "page.html",
        {
            "title": html.escape(title),
            "style": asset("style.css"),
            "data": block(content),
            "plotly": plotly(),
            "script": asset("common.js", "script.js"),
        },
    )


def save(run: Run, path: Path | None = None) -> Path:
    """Writes a run's page, by default into its folder."""
    path = path or run.files.dashboard
    files.write(path, page(data.page_data(run)))
    return path


def save_index(runs: list[Run], runs_dir: Path, path: Path | None = None) -> Path:
    """The index of all runs, with a page for each beside its results."""
    path = path or runs_dir / "index.html"
    rows = []
    for run in runs:
        content = data.safe(run)
        files.write(run.files.dashboard, page(content))
        link = Path(run.files.dashboard)
        rows.append(data.index_row(run, content) | {"link": relative(link, path.parent)})
    files.write(
        path,
        fill(
            "index.html", {"style": asset("style.css"), "data": block(rows), "script": asset("common.js", "index.js")}
        ),
    )
    return path


def relative(path: Path, start: Path) -> str:
    import os
    from urllib.parse import quote

    return quote(os.path.relpath(path.resolve(), start.resolve()))
