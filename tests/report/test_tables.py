"""Tables in all formats, on a run made up for them."""

import csv
import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from pilotstudy.errors import InputError
from pilotstudy.evidence import paper
from pilotstudy.evidence.claims import judge_all
from pilotstudy.evidence.labels import row_label
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.report import formats
from pilotstudy.report.latex import latex_text
from pilotstudy.report.table import Cell, Line, Table, build_table
from pilotstudy.report.texts import claims_text
from pilotstudy.study.spec import Claim
from pilotstudy.study.statements import Row
from tests.support.made_run import made


def test_the_table_beside_the_papers(run):
    table = build_table(RunEvidence(run), like_paper=True)
    printed = [str(Row(*row)) for row in paper.printed_rows("mlp-512", "cifar10")]
    assert [str(line.row) for line in table.lines][: len(printed)] == printed
    rows = {row["row"]: row for row in formats.table_rows(table)}
    assert rows["pilot-a-aug"]["nll_paper"] == 1.31
    assert rows["pilot-a-aug"]["nll_paper_spread"] == 0.02
    assert rows["pilot-a-aug"]["nll_difference"] == pytest.approx(rows["pilot-a-aug"]["nll"] - 1.31)
    assert rows["sub-a-drop"]["nll"] is None  # the paper has it, the run does not
    assert rows["batchnorm"]["ece_doubts"].startswith("ECE above 1 − accuracy")
    assert rows["dropout@tuned"]["nll_paper"] is None
    assert "0.052" in formats.as_text(table)


def test_the_last_line_of_claims_counts_those_that_are_not_tested(run):
    lacking = Claim(says="", holds="nll: vanilla < batchnorm", only=())
    judged = judge_all(RunEvidence(run), [lacking, lacking])
    assert sum(claim.verdict == "not tested" for claim in judged) == 2
    assert " undecided, 2 not tested. Verdicts" in claims_text(judged, ())
    assert "not tested." not in claims_text(judged[:-2], ())


def test_every_form_has_every_row(run):
    table = build_table(RunEvidence(run))
    for name, form in formats.FORMATS.items():
        text = form(table)
        for line in table.lines:
            assert (str(line.row) if name in ("csv", "json") else row_label(line.row)) in text, name
    assert len(list(csv.DictReader(io.StringIO(formats.FORMATS["csv"](table))))) == len(table.lines)
    assert json.loads(formats.FORMATS["json"](table))["rows"][0]["row"] == "vanilla"


def test_what_a_user_wrote_is_escaped(tmp_path):
    hostile = made(tmp_path / "hostile", title="<script>alert(1)</script> & 50 % of $x_1$ \\ {a} 🦊", points=60)
    table = build_table(RunEvidence(hostile))
    assert "<script>" not in formats.as_html(table)
    assert r"\& 50 \% of \$x\_1\$ \textbackslash{} \{a\}" in formats.as_latex(table)


def test_no_letter_is_lost_in_latex():
    maths = r"$\geq$ 5$^\circ$ $\approx$ $\sigma$$^2$ $\mu$ $\Omega$ $\dagger$ $<$b$>$"
    assert latex_text("≥ 5° ≈ σ² µ Ω † <b>") == maths
    assert latex_text("Größe Łódź naïve") == r"Gr\"{o}\ss{}e \L{}\'{o}d\'{z} na\"{i}ve"
    assert latex_text("🦊 漢 ½\n\x07") == "[fox face] [U+6F22] 1/2  "
    every = "".join(map(chr, range(32, 0x3000)))
    assert latex_text(every).isascii()


def compiled(folder: Path, body: str) -> tuple[str, str]:
    """What pdflatex says, and the text of the pages."""
    text = f"\\documentclass{{article}}\\usepackage{{booktabs}}\\begin{{document}}\n{body}\n\\end{{document}}"
    (folder / "t.tex").write_text(text)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    pages = subprocess.run(
        ["pdftotext", "-layout", "t.pdf", "-"], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout, pages.stdout


NO_LATEX = pytest.mark.skipif(not shutil.which("pdflatex") or not shutil.which("pdftotext"), reason="needs LaTeX")


@NO_LATEX
@pytest.mark.parametrize("like_paper", [False, True])
def test_latex_fits_the_page_in_type_that_can_be_read(run, tmp_path, like_paper):
    body = formats.as_latex(build_table(RunEvidence(run), like_paper=like_paper))
    assert "\\label{tab:made}" in body
    assert "resizebox" not in body
    said, pages = compiled(tmp_path, body)
    assert "Overfull" not in said
    assert ("0.562 ± 0.012" in pages) == like_paper  # the paper's


@NO_LATEX
def test_latex_of_odd_texts_and_many_rows(tmp_path):
    letters = "".join(latex_text(chr(code)) + " " for code in [*range(33, 0x250), *range(0x370, 0x400), 0x1F98A])
    lines = [Line(Row(f"arm-{n}"), 3, {"nll": Cell(None)}) for n in range(100)]
    said, pages = compiled(tmp_path, f"{letters}\n\n{formats.as_latex(Table('Long', lines, ('nll',), False, []))}")
    assert "too large" not in said  # for a page
    assert pages.count("Table 1: Long") == 3
    assert "Arm-99" in pages


def test_a_run_without_results_says_so(tmp_path):
    empty = made(tmp_path / "empty", most=0)
    with pytest.raises(InputError, match="no finished trial"):
        build_table(RunEvidence(empty))
