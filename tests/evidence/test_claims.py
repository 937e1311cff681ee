"""Claims and their verdicts, on runs made up for them."""

import re

import pytest

from pilotstudy.evidence import claims
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.report.export import methods_paragraph
from pilotstudy.report.table import build_table
from pilotstudy.study import reading, spec
from pilotstudy.study.resources import Location
from pilotstudy.study.statements import Row
from tests.support.made_run import FINGERPRINT, content, made


def judge(run, *statements: str) -> list[claims.Judged]:
    return claims.judge_all(RunEvidence(run), [spec.Claim(says=text, holds=text) for text in statements])[1:]


def test_verdicts(run, figures):
    lower, wrong, tie, group, missing = judge(
        run,
        "nll: pilot-a-aug < vanilla",
        "nll: vanilla < pilot-a-aug",
        "accuracy: l2 > vanilla",
        "nll: pilot-a-aug < baselines",
        "nll: pilot-x-aug < vanilla",
    )
    assert (lower.uncorrected, wrong.uncorrected, tie.uncorrected) == ("holds", "fails", "undecided")
    expected = figures.difference("nll", Row("pilot-a-aug"), Row("vanilla"))
    assert (lower.difference, lower.low) == pytest.approx((expected.value, expected.low), rel=1e-5)
    assert lower.p == pytest.approx(expected.p, rel=1e-3)
    assert tie.reason
    assert group.opponents == 3
    assert group.hardest == "dropout"
    assert missing.verdict == "not tested"
    assert "pilot-x-aug" in missing.reason
    assert lower.budget == "3 seeds, 6 epochs, fixed settings"


def test_afterthoughts_are_corrected_and_leave_the_studys_verdicts_alone(run):
    """What would hold alone, and does not among many, says so."""
    (alone,) = claims.judge_all(RunEvidence(run))
    many = [f"nll: pilot-a-aug < vanilla + 0.00{digit}" for digit in range(9)]
    first, *others = claims.judge_all(RunEvidence(run), [spec.Claim(says=text, holds=text) for text in many])
    assert first == alone
    assert (alone.verdict, alone.uncorrected, alone.p) == ("holds", "holds", alone.p_holm)
    assert {claim.uncorrected for claim in others} == {"holds"}
    for claim in others:
        assert claim.verdict == ("holds" if claim.p_holm < 0.05 else "undecided")
    lost = [claim for claim in others if claim.verdict == "undecided"]
    assert lost
    assert {claim.reason for claim in lost} == {"holds before correction for 10 claims"}


def test_a_group_holds_only_against_each_and_fails_with_one(run):
    weak, strong = judge(run, "nll: vanilla < others", "entropy: vanilla < others")
    assert (weak.uncorrected, strong.uncorrected) == ("fails", "holds")
    assert strong.hardest == "l2"


def test_a_group_cannot_hold_before_all_of_it_is_there(tmp_path):
    half = made(tmp_path / "half", most=6)  # vanilla and Pilot, of four arms
    early, pair = judge(half, "nll: pilot-a-aug < others", "nll: pilot-a-aug < vanilla")
    assert (early.verdict, pair.uncorrected) == ("undecided", "holds")
    assert "no result of" in early.reason
    assert "dropout" in early.reason
    fewer = made(tmp_path / "fewer", most=5)
    (pair,) = judge(fewer, "nll: pilot-a-aug < vanilla")
    assert pair.budget.startswith("2 of 3 seeds")
    assert "Of 26 planned trials 5 finished and count" in methods_paragraph(RunEvidence(fewer))


def test_contrasts_of_contrasts_margins_and_equal_budgets(run, figures):
    drop, margin, tuned = judge(
        run,
        "accuracy: pilot-a-aug - pilot-a-aug@mc < dropout - dropout@mc",
        "accuracy: pilot-a-aug > vanilla - 0.9",
        "nll: pilot-a-aug@tuned < dropout@tuned",
    )
    figure = {str(row): figures.figure("accuracy", row).value for row in figures.rows}
    by_hand = (figure["pilot-a-aug"] - figure["pilot-a-aug@mc"]) - (figure["dropout"] - figure["dropout@mc"])
    assert drop.difference == pytest.approx(by_hand)
    assert margin.verdict == "holds"
    assert margin.difference == pytest.approx(figure["pilot-a-aug"] - figure["vanilla"] + 0.9)
    said = r"3 fresh seeds, 6 epochs, tuned with 4 trials each \(equal in trials: pilot-a-aug \d+ s, dropout \d+ s\)"
    assert re.fullmatch(said, tuned.budget)


def test_one_seed_decides_nothing(tmp_path):
    single = RunEvidence(made(tmp_path / "single", seeds=[0], search=None))
    (judged,) = claims.judge_all(single)
    assert judged.verdict == "undecided"
    assert judged.reason == "one seed tells nothing of others"
    table = build_table(single)
    assert not any(cell.mark for line in table.lines for cell in line.cells.values())


def test_a_claim_written_after_the_run_is_marked(tmp_path):
    again = made(tmp_path / "again", points=60)
    later = {"says": "late", "holds": "nll: dropout < vanilla"}
    study = reading.validate_study(content(claims=[*content()["claims"], later]), "test")
    again.freeze(study, Location(), FINGERPRINT)
    assert [claim.stated for claim in claims.judge_all(RunEvidence(again))] == ["before", "after"]
    # Said anew before anything ran, it counts as said before.
    fresh = made(tmp_path / "fresh", points=60, most=0)
    fresh.freeze(study, Location(), FINGERPRINT)
    assert [claims.stated_before(fresh, claim) for claim in study.claims] == [True, True]
