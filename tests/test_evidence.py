"""Tables, ensembles, claims, comparisons and export, on runs made up for them."""

import csv
import io
import json
import shutil
import subprocess
import tomllib

import numpy as np
import pytest
from made_run import FINGERPRINT, content, made
from test_cli import pilotstudy  # noqa: F401

from pilotstudy import claims, comparing, evidence, metrics, paper, spec, tables, tabulate
from pilotstudy.errors import InputError
from pilotstudy.evidence import Evidence
from pilotstudy.exporting import export
from pilotstudy.statements import Row, Statement


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return made(tmp_path_factory.mktemp("runs") / "made")


@pytest.fixture(scope="module")
def found(run):
    return Evidence(evidence.load(run), ("accuracy", "nll", "ece", "entropy"))


def stored(run, arm: str, seed: int, mode: str = "point") -> np.ndarray:
    """Test log-probabilities of one trial at its last epoch, read in a plain way."""
    from pilotstudy.results import Results

    trial = next(
        t for t in Results(run.files).trials.to_pylist() if (t["phase"], t["arm"], t["seed"]) == ("arms", arm, seed)
    )
    some = tables.load_predictions(run.files.trial(trial["key"]).predictions)
    one = next(s for s in some if (s.at, s.mode, s.split) == ("last", mode, "test"))
    return metrics.log_probabilities(one.logits)


def labels(run) -> np.ndarray:
    return evidence.load(run).labels


def test_figures_are_means_over_seeds_of_the_evaluation(run, found):
    from pilotstudy.results import Results, summary

    for line in summary(Results(run.files)):
        if line["at"] == "last":
            row = Row(line["arm"], line["mode"], line["phase"])
            for name in "accuracy", "nll", "ece":
                assert found.figure(name, row).value == pytest.approx(line[name], abs=1e-6)
                assert found.figure(name, row).deviation == pytest.approx(line[f"{name}_sd"], abs=1e-6)


def test_ensembles_average_probabilities(run):
    loaded = evidence.load(run, deep=True)
    baselines = ["vanilla", "dropout", "l2"]
    by_hand = np.mean([np.exp(stored(run, arm, 1)) for arm in baselines], 0)
    np.testing.assert_allclose(np.exp(loaded.rows[Row("ensemble", "ensemble")][1]), by_hand, atol=1e-9)
    seeds = np.mean([np.exp(stored(run, "pilot-a-aug", seed)) for seed in (0, 1, 2)], 0)
    np.testing.assert_allclose(np.exp(loaded.rows[Row("pilot-a-aug", "seeds")][0]), seeds, atol=1e-9)
    rows = {(row["row"], row["scaled"]): row for row in evidence.ensembles(run)}
    assert rows["pilot-a-aug@seeds", False]["nll"] == pytest.approx(
        -np.log(seeds[np.arange(len(seeds)), labels(run)]).mean()
    )
    # Its own temperature is fitted on validation, and here validation is test.
    assert rows["ensemble", True]["nll"] <= rows["ensemble", False]["nll"]
    assert set(metrics.evaluate(np.zeros((5, 2)), np.zeros(5, int))) <= set(rows["ensemble", True])


def test_temperature_scaling_of_rows_is_the_trials_own(run):
    scaled = evidence.load(run, scaled=True).rows[Row("vanilla")][0]
    logits = stored(run, "vanilla", 0)
    temperature = metrics.fit_temperature(logits, labels(run))
    np.testing.assert_allclose(scaled, metrics.log_probabilities(logits, temperature), atol=1e-5)


def test_the_best_is_marked_only_where_it_is(run, found):
    rows = [Row("vanilla"), Row("l2")]
    assert found.best("nll", [*rows, Row("pilot-a-aug")])[0] == Row("pilot-a-aug")
    assert found.best("entropy", rows) == (None, [])  # neither more nor less of it is better
    really, near = found.best("accuracy", rows)
    assert really is None
    assert set(near) == set(rows)
    table = tabulate.build(run)
    for line in table.lines:
        assert line.row.mode != "seeds"
        for cell in line.cells.values():
            assert cell.near or not cell.best
            assert cell.ours.low >= 0


def test_the_table_beside_the_papers(run):
    table = tabulate.build(run, like_paper=True)
    printed = [str(Row(*row)) for row in paper.rows("mlp-512", "cifar10")]
    assert [str(line.row) for line in table.lines][: len(printed)] == printed
    rows = {row["row"]: row for row in tabulate.rows(table)}
    assert rows["pilot-a-aug"]["nll_paper"] == 1.31
    assert rows["pilot-a-aug"]["nll_paper_spread"] == 0.02
    assert rows["pilot-a-aug"]["nll_difference"] == pytest.approx(rows["pilot-a-aug"]["nll"] - 1.31)
    assert rows["sub-a-drop"]["nll"] is None  # the paper has it, the run does not
    assert rows["batchnorm"]["ece_doubts"].startswith("ECE above 1 − accuracy")
    assert rows["dropout@tuned"]["nll_paper"] is None
    assert "0.052" in tabulate.as_text(table)


def test_every_form_has_every_row(run):
    table = tabulate.build(run)
    for name, form in tabulate.FORMATS.items():
        text = form(table)
        for line in table.lines:
            assert (str(line.row) if name in ("csv", "json") else tabulate.label(line.row)) in text, name
    assert len(list(csv.DictReader(io.StringIO(tabulate.FORMATS["csv"](table))))) == len(table.lines)
    assert json.loads(tabulate.FORMATS["json"](table))["rows"][0]["row"] == "vanilla"


def test_what_a_user_wrote_is_escaped(tmp_path):
    hostile = made(tmp_path / "hostile", title="<script>alert(1)</script> & 50 % of $x_1$ \\ {a} 🦊", points=60)
    table = tabulate.build(hostile)
    assert "<script>" not in tabulate.as_html(table)
    assert r"\& 50 \% of \$x\_1\$ \textbackslash{} \{a\}" in tabulate.as_latex(table)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize("like_paper", [False, True])
def test_latex_compiles(run, tmp_path, like_paper):
    body = tabulate.as_latex(tabulate.build(run, like_paper=like_paper))
    packages = "\\usepackage{booktabs}\\usepackage{graphicx}"
    (tmp_path / "t.tex").write_text(
        f"\\documentclass{{article}}{packages}\\begin{{document}}\n{body}\n\\end{{document}}"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nll pilot-a-aug < vanilla", "expected `metric: row < row`"),
        ("nlll: pilot-a-aug < vanilla", "did you mean 'nll'"),
        ("nll: pilot-a-agu < vanilla", "did you mean 'pilot-a-aug'"),
        ("nll: pilot-a-aug@mcc < vanilla", "unknown mark '@mcc'"),
        ("nll: pilot-a-aug vanilla < l2", "expected + or -"),
        ("nll: pilot-a-aug < ", "expected `metric: row < row`"),
        ("nll: pilot-a-aug - l2 < baselines", "a group stands on the right"),
        ("nll: baselines < vanilla", "a group stands on the right"),
        ("nll: - pilot-a-aug < baselines", "a group stands on the right"),
        ("nll: 1 < 2", "a group stands on the right"),
    ],
)
def test_wrong_claims_are_told(text, told):
    with pytest.raises(InputError, match=told.replace("+", r"\+")):
        Statement.parse(text)
    with pytest.raises(InputError, match=r"claims\.0\.holds"):
        spec.validate(content(claims=[{"says": "x", "holds": text}]), "test")


def judge(run, *statements: str) -> list[claims.Judged]:
    return claims.judge_all(run, [spec.Claim(says=text, holds=text) for text in statements])[1:]


def test_verdicts(run, found):
    lower, wrong, tie, group, missing = judge(
        run,
        "nll: pilot-a-aug < vanilla",
        "nll: vanilla < pilot-a-aug",
        "accuracy: l2 > vanilla",
        "nll: pilot-a-aug < baselines",
        "nll: pilot-x-aug < vanilla",
    )
    assert (lower.verdict, wrong.verdict, tie.verdict) == ("holds", "fails", "undecided")
    expected = found.difference("nll", Row("pilot-a-aug"), Row("vanilla"))
    assert (lower.difference, lower.low) == pytest.approx((expected.value, expected.low), rel=1e-5)
    assert lower.p == pytest.approx(expected.p, rel=1e-3)
    assert tie.reason
    assert group.opponents == 3
    assert group.hardest == "dropout"
    assert missing.verdict == "not tested"
    assert "pilot-x-aug" in missing.reason
    assert lower.budget == "3 seeds, 6 epochs, fixed settings"


def test_a_group_holds_only_against_each_and_fails_with_one(run):
    weak, strong = judge(run, "nll: vanilla < others", "entropy: vanilla < others")
    assert (weak.verdict, strong.verdict) == ("fails", "holds")
    assert strong.hardest == "l2"


def test_a_group_cannot_hold_before_all_of_it_is_there(tmp_path):
    half = made(tmp_path / "half", most=6)  # vanilla and Pilot, of four arms
    early, pair = judge(half, "nll: pilot-a-aug < others", "nll: pilot-a-aug < vanilla")
    assert (early.verdict, pair.verdict) == ("undecided", "holds")
    assert "no result of" in early.reason
    assert "dropout" in early.reason
    fewer = made(tmp_path / "fewer", most=5)
    (pair,) = judge(fewer, "nll: pilot-a-aug < vanilla")
    assert pair.budget.startswith("2 of 3 seeds")
    from pilotstudy.exporting import methods

    assert "Of 26 planned trials 5 finished and count" in methods(fewer)


def test_contrasts_of_contrasts_margins_and_equal_budgets(run, found):
    drop, margin, tuned = judge(
        run,
        "accuracy: pilot-a-aug - pilot-a-aug@mc < dropout - dropout@mc",
        "accuracy: pilot-a-aug > vanilla - 0.9",
        "nll: pilot-a-aug@tuned < dropout@tuned",
    )
    figure = {str(row): found.figure("accuracy", row).value for row in found.rows}
    by_hand = (figure["pilot-a-aug"] - figure["pilot-a-aug@mc"]) - (figure["dropout"] - figure["dropout@mc"])
    assert drop.difference == pytest.approx(by_hand)
    assert margin.verdict == "holds"
    assert margin.difference == pytest.approx(figure["pilot-a-aug"] - figure["vanilla"] + 0.9)
    assert tuned.budget == "3 fresh seeds, 6 epochs, tuned with 4 trials each"


def test_one_seed_decides_nothing(tmp_path):
    single = made(tmp_path / "single", seeds=[0], search=None)
    (judged,) = claims.judge_all(single)
    assert judged.verdict == "undecided"
    assert judged.reason == "one seed tells nothing of others"
    table = tabulate.build(single)
    assert not any(cell.best for line in table.lines for cell in line.cells.values())


def test_a_claim_written_after_the_run_is_marked(tmp_path):
    again = made(tmp_path / "again", points=60)
    later = {"says": "late", "holds": "nll: dropout < vanilla"}
    study = spec.validate(content(claims=[*content()["claims"], later]), "test")
    again.freeze(study, {}, FINGERPRINT)
    assert [one.stated for one in claims.judge_all(again)] == ["before", "after"]
    # Said anew before anything ran, it counts as said before.
    fresh = made(tmp_path / "fresh", points=60, most=0)
    fresh.freeze(study, {}, FINGERPRINT)
    assert [claims.stated_before(fresh, claim) for claim in study.claims] == [True, True]


def test_the_built_in_studies_carry_the_papers_claims():
    by_study = {name: [claim.holds for claim in spec.load(name).claims] for name in spec.builtin()}
    assert "nll: pilot-a-aug < others" in by_study["svhn-mlp-small"]
    assert "ece: data-aug < pilot-a-aug" in by_study["svhn-cnn"]
    assert "ece: data-aug < pilot-a-aug" not in by_study["cifar-cnn"]
    assert len(by_study["cifar-cnn"]) >= 20
    for name, stated in by_study.items():
        known = set(spec.load(name).arms) | {"ensemble", "others", "baselines", "noise", "sampling"}
        for text in stated:
            assert {row.arm for _, row in Statement.parse(text).terms} <= known, (name, text)


def test_comparisons_within_and_between_runs(run, tmp_path):
    rows = comparing.within(run, Row("vanilla"), ["nll", "accuracy"])
    nll = {row["row"]: row for row in rows if row["metric"] == "nll"}
    assert nll["pilot-a-aug"]["says"] == "lower (better)"
    assert nll["pilot-a-aug"]["improvement"] == 1.0
    assert all(row["p_holm"] >= row["p"] for row in rows)
    same = next(row for row in rows if (row["metric"], row["row"]) == ("accuracy", "l2"))
    assert same["says"].startswith("no difference can be seen at this size (3 seeds, 300 test images)")
    with pytest.raises(InputError, match="has no row 'pilot-x-aug'"):
        comparing.within(run, Row("pilot-x-aug"), ["nll"])

    copy = made(tmp_path / "copy")
    other = made(tmp_path / "other", network={"name": "mlp-1024"})
    rows = comparing.between([run, copy, other], ["nll"])
    twin = [row for row in rows if row["run"] == "copy" and "tuned" not in row["row"]]
    assert all(row["difference"] == row["low"] == row["high"] == 0 and row["p"] == 1 for row in twin)
    assert {row["points"] for row in rows} == {"paired"}
    assert all(row["low"] < row["difference"] < row["high"] for row in rows if row["run"] == "other")


def test_export_is_whole_and_can_be_run_again(run, tmp_path):
    folder = tmp_path / "out"
    assert export(run, folder) == len(list(folder.iterdir()))
    study = tomllib.loads((folder / "study.toml").read_text())
    assert spec.validate(study, "exported") == run.study()
    methods = (folder / "methods.txt").read_text()
    for word in "3 seeds (0, 1, 2)", "4 trials", FINGERPRINT, "torch", "15 equal-width bins":
        assert word in methods
    with pytest.raises(InputError, match="exists already"):
        export(run, folder)


def test_the_commands(run, pilotstudy):  # noqa: F811
    where = ("--runs-dir", run.files.folder.parent)
    code, out, _ = pilotstudy("claims", "made", *where)
    assert code == 0
    assert "HOLDS: Pilot a-aug has a lower NLL than vanilla" in out
    assert json.loads(pilotstudy("claims", "made", "--json", *where)[1])[0]["verdict"] == "holds"
    assert "pilot-a-aug@mc" in pilotstudy("compare", "made", "--metric", "nll", *where)[1]
    assert "ensemble" in pilotstudy("ensembles", "made", *where)[1]
    assert pilotstudy("table", "made", "--format", "latex", "--like", "paper", *where)[1].startswith("\\begin{table}")
    assert pilotstudy("table", "made", "--format", "pdf", *where)[0] == 2
    assert pilotstudy("compare", "made", "--metric", "nlll", *where)[0] == 2


def test_a_run_without_results_says_so(tmp_path):
    empty = made(tmp_path / "empty", most=0)
    with pytest.raises(InputError, match="no finished trial"):
        tabulate.build(empty)


def test_a_damaged_table_is_one_line(pilotstudy, tmp_path):  # noqa: F811
    run = made(tmp_path / "torn", points=40, most=6)
    whole = run.files.trials.read_bytes()
    run.files.all_epochs.write_bytes(b"PAR1")  # this one is not needed
    for command in "results", "table", "dashboard", "status":
        run.files.trials.write_bytes(whole[: len(whole) // 2])
        code, _, err = pilotstudy(command, "torn", "--runs-dir", str(tmp_path))
        assert (code, err.count("\n")) == (3, 1), command
        assert "trials.parquet is damaged" in err
        run.files.trials.write_bytes(whole)
        assert pilotstudy(command, "torn", "--runs-dir", str(tmp_path))[0] == 0
