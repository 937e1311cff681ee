"""Tables in all formats, on a run made up for them."""

import csv
import io
import json
import shutil
import subprocess

import pytest

from pilotstudy.errors import InputError
from pilotstudy.evidence import paper
from pilotstudy.evidence.claims import judge_all
from pilotstudy.evidence.labels import row_label
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.report import formats
from pilotstudy.report.plain import claims_text
from pilotstudy.report.table import build_table
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


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize("like_paper", [False, True])
def test_latex_compiles(run, tmp_path, like_paper):
    body = formats.as_latex(build_table(RunEvidence(run), like_paper=like_paper))
    packages = "\\usepackage{booktabs}\\usepackage{graphicx}"
    (tmp_path / "t.tex").write_text(
        f"\\documentclass{{article}}{packages}\\begin{{document}}\n{body}\n\\end{{document}}"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


def test_a_run_without_results_says_so(tmp_path):
    empty = made(tmp_path / "empty", most=0)
    with pytest.raises(InputError, match="no finished trial"):
        build_table(RunEvidence(empty))
