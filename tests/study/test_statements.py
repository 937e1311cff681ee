"""The language of claims."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotstudy.arms.catalogue import all_arms
from pilotstudy.errors import InputError
from pilotstudy.metrics.recalibration import RECALIBRATIONS
from pilotstudy.study import budget, reading
from pilotstudy.study.rows import known_rows
from pilotstudy.study.statements import Row, Statement, group_names
from pilotstudy.study.testsets import kinds_of_tests
from tests.support.made_run import content


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
        ("nll: 0.5 < baselines", "a group stands on the right"),
        ("nll: pilot-a-aug + baselines < 0", "a group stands on the right"),
        ("nll: pilot-a-aug < baselines + 0", "a group stands on the right"),
        ("nll: 1 < 2", "there is no row in it"),
        ("nll: pilot-a-aug < baselines@seeds", "'baselines@seeds': a group has no ensembles of seeds: name one row"),
        ("nll: dropout@mc@seeds < vanilla", "'@mc' and '@seeds' are two ways to predict: give one of them"),
        ("nll: dropout@mc@mc < vanilla", "the mark '@mc' is given twice"),
        ("nll: pilot-a-aug < baselines@mc@mc", "the mark '@mc' is given twice"),
        ("nll: vanilla@mc < l2", "'vanilla@mc': vanilla does not sample its predictions, .* write 'vanilla'"),
        ("nll: l2@mc@tuned < l2", "write 'l2@tuned'"),
        ("nll: ensemble@mc < l2", "the ensemble takes no marks: write 'ensemble'"),
        ("nll: vanilla +- l2 < dropout", "expected one sign at a time, not '+-'"),
        ("nll: vanilla + + l2 < dropout", "expected one sign at a time, not '+ +'"),
        ("nll: vanilla - < dropout", "expected a row or a number after '-'"),
        ("nll: vanilla < dropout +", "expected a row or a number after '+'"),
        ("nll[temprature]: vanilla < dropout", "unknown qualifier 'temprature': did you mean 'temperature'"),
        ("nll[none]: vanilla < dropout", "unknown qualifier 'none'"),
        ("nll[]: vanilla < dropout", "unknown qualifier ''"),
        ("nll[vector: vanilla < dropout", "expected `metric.qualifier.:`"),
        ("nll[vector]x: vanilla < dropout", "expected `metric.qualifier.:`"),
        ("nlll[vector]: vanilla < dropout", "unknown metric 'nlll': did you mean 'nll'"),
        ("nll[vector, vector]: vanilla < dropout", "the qualifier 'vector' is given twice"),
        ("nll[vector, matrix]: vanilla < dropout", "vector and matrix both recalibrate: give one of them"),
    ],
)
def test_wrong_claims_are_told(text, told):
    with pytest.raises(InputError, match=told.replace("+", r"\+")):
        Statement.parse(text)
    with pytest.raises(InputError, match=r"claims\.0\.holds"):
        reading.validate_study(content(claims=[{"says": "x", "holds": text}]), "test")


def test_the_built_in_studies_carry_the_papers_claims():
    by_study = {name: [claim.holds for claim in reading.read_study(name).claims] for name in reading.builtin_studies()}
    assert "nll: pilot-a-aug < others" in by_study["svhn-mlp-small"]
    assert "ece: data-aug < pilot-a-aug" in by_study["svhn-cnn"]
    assert "ece: data-aug < pilot-a-aug" not in by_study["cifar-cnn"]
    assert len(by_study["cifar-cnn"]) >= 20
    for name, stated in by_study.items():
        study = reading.read_study(name)
        rows, tests = known_rows(study), kinds_of_tests(study)
        known = set(study.arms) | {"ensemble", "others", "baselines", "noise", "sampling"}
        for text in stated:
            assert {row.arm for _, row in Statement.parse(text, rows, tests).terms} <= known, (name, text)


@pytest.mark.parametrize("right", ["dropout", "baselines"])
@pytest.mark.parametrize("recalibration", RECALIBRATIONS)
def test_a_qualifier_says_how_the_networks_are_recalibrated(recalibration, right):
    plain = Statement.parse(f"ece: pilot-a-aug < {right}")
    qualified = Statement.parse(f"ece[ {recalibration} ]: pilot-a-aug < {right}")
    assert (plain.qualifiers, plain.recalibration) == ((), "none")
    assert (qualified.qualifiers, qualified.recalibration) == ((recalibration,), recalibration)
    assert replace(qualified, qualifiers=()) == plain


ROWS = [
    str(Row(arm.name, mode, phase))
    for arm in all_arms().values()
    for mode in (*arm.modes, "seeds")
    for phase in ("arms", "confirm")
] + ["ensemble"]
marks = st.lists(st.sampled_from(["mc", "seeds", "tuned", "", "mcc"]), max_size=4)
names = st.sampled_from(["ensemble", "nobody", "", *group_names(all_arms()), *all_arms()])
texts = st.builds(lambda name, marks: "@".join([name, *marks]), names, marks)


@given(texts)
def test_a_row_is_what_its_text_says_or_it_is_refused(text):
    """Every mark counts, and there is one row for one text, but for the order of marks."""
    try:
        row = Row.parse(text)
    except InputError:
        assert text not in ROWS
        return
    assert sorted(str(row).split("@")) == sorted(text.split("@"))
    assert Row.parse(str(row)) == row
    assert str(row) in ROWS


@given(texts)
def test_a_group_is_what_its_text_says_or_the_claim_is_refused(text):
    try:
        statement = Statement.parse(f"nll: pilot-a-aug < {text}")
    except InputError:
        return
    shown = statement.group or statement.terms[1][1]
    assert sorted(str(shown).split("@")) == sorted(text.split("@"))


FIGURES = {"vanilla": 3.0, "dropout@mc": 0.25, "l2@tuned": 17.0, "baselines": 1000.0, "noise@mc": 5000.0}
operands = st.sampled_from(["vanilla", "dropout@mc", "l2@tuned", "0.5", "2"])
sums = st.builds(
    lambda first, others: [first, *(token for pair in others for token in pair)],
    operands,
    st.lists(st.tuples(st.sampled_from("+-"), operands), max_size=4),
)
anything = st.lists(st.sampled_from(["+", "-", "+-", "<", "0.5", *FIGURES]), max_size=5)


def value_of(statement: Statement) -> float:
    value = sum(coefficient * FIGURES[str(row)] for coefficient, row in statement.terms) + statement.constant
    return value - (FIGURES[str(statement.group)] if statement.group else 0)


def value_in_python(left: list[str], right: list[str]) -> float:
    sides = (" ".join(str(FIGURES.get(token, token)) for token in side) for side in (left, right))
    first, second = map(eval, sides)
    return first - second


@given(sums, st.sampled_from("<>"), sums)
def test_every_token_of_a_claim_counts(left, relation, right):
    """It has the value that Python gives the same sums, for any figures of the rows."""
    text = f"nll: {' '.join(left)} {relation} {' '.join(right)}"
    if not {*left, *right} & {*FIGURES}:
        with pytest.raises(InputError, match="there is no row in it"):
            Statement.parse(text)
        return
    statement = Statement.parse(text)
    assert (value_of(statement), statement.relation) == (pytest.approx(value_in_python(left, right)), relation)


@given(anything | sums, anything | sums | st.sampled_from([["baselines"], ["noise@mc"]]))
def test_a_claim_is_taken_as_it_stands_or_not_at_all(left, right):
    try:
        statement = Statement.parse(f"nll: {' '.join(left)} < {' '.join(right)}")
    except InputError:
        return
    assert value_of(statement) == pytest.approx(value_in_python(left, right))
    assert not {"+-", "<"} & {*left, *right}


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("baselines", "vanilla dropout l2 add-a-aug"),
        ("baselines@mc", "dropout@mc add-a-aug@mc"),
        ("baselines@tuned", "dropout@tuned"),
        ("baselines@mc@tuned", "dropout@mc@tuned"),
        ("standard", "dropout l2"),
        ("standard@mc", "dropout@mc"),
        ("noise", "add-a-aug"),
        ("noise@mc", "add-a-aug@mc"),
        ("sampling", "dropout@mc add-a-aug@mc ensemble"),
        ("sampling@mc", "dropout@mc add-a-aug@mc"),
        ("others@mc", "pilot-x-aug@mc dropout@mc add-a-aug@mc"),
        (
            "others",
            "vanilla pilot-x-aug pilot-x-aug@mc dropout dropout@mc l2 add-a-aug add-a-aug@mc ensemble",
        ),
    ],
)
def test_a_mark_on_a_group_means_the_members_rows(group, expected):
    arms = {arm: {} for arm in ("vanilla", "pilot-a-aug", "pilot-x-aug", "dropout", "l2", "add-a-aug")}
    study = reading.validate_study(content(arms=arms), "test")
    statement = Statement.parse(f"nll: pilot-a-aug@mc < {group}")
    members = statement.group.members(budget.planned_rows(study), Row("pilot-a-aug", "mc"))
    assert " ".join(map(str, members)) == expected
