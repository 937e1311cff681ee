"""A notebook with a run in it, executed by Jupyter and opened as the HTML file that one sends to others."""

import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter

from tests.support.waiting import LONG

NO_NETWORK = {"mathjax_url": "", "require_js_url": "", "mermaid_js_url": ""}


def test_tables_and_figures_are_in_a_notebook(run, visit, tmp_path):
    load = f"import pilotstudy\nrun = pilotstudy.load({str(run.files.folder)!r})"
    cells = [nbformat.v4.new_code_cell(cell) for cell in (load, "run.table()", "run.dashboard('page.html')")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(
        notebook, kernel_name="python3", startup_timeout=LONG, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    (tmp_path / "notebook.html").write_text(HTMLExporter(**NO_NETWORK).from_notebook_node(notebook)[0])
    tab = visit(tmp_path / "notebook.html", ready="iframe")
    assert "Pilot a-aug" in tab.inner_text("table")
    page = tab.frame_locator("iframe")
    page.locator("#plot-forest").scroll_into_view_if_needed()
    page.locator("#plot-forest .main-svg").first.wait_for()
    assert page.locator("#title").inner_text() == "Made up"
