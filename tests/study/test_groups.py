"""Which rows a study will have, and which of them a group stands for."""

import pytest

from pilotstudy.study import reading, spec
from pilotstudy.study.budget import claims_without_rows, planned_rows
from pilotstudy.study.statements import Group, Row
from tests.support.made_run import content

ROWS = (
    "vanilla l2 dropout dropout@mc batchnorm add-a-aug add-a-aug@mc sub-x-drop pilot-a-aug pilot-a-aug@mc pilot-a-drop"
    " ensemble dropout@tuned dropout@mc@tuned l2@tuned pilot-a-aug@tuned l2@seeds"
)


@pytest.mark.parametrize(
    ("group", "subject", "members"),
    [
        ("baselines", "pilot-a-aug", "vanilla l2 dropout batchnorm add-a-aug sub-x-drop"),
        ("baselines", "dropout", "vanilla l2 batchnorm add-a-aug sub-x-drop"),
        ("standard", "pilot-a-aug", "l2 dropout batchnorm"),
        ("noise", "pilot-a-aug", "add-a-aug sub-x-drop"),
        ("sampling", "pilot-a-aug@mc", "dropout@mc add-a-aug@mc ensemble"),
        ("sampling", "vanilla", "dropout@mc add-a-aug@mc ensemble"),
        (
            "others",
            "pilot-a-aug",
            "vanilla l2 dropout dropout@mc batchnorm add-a-aug add-a-aug@mc sub-x-drop pilot-a-drop ensemble",
        ),
        ("others@tuned", "pilot-a-aug@tuned", "dropout@tuned dropout@mc@tuned l2@tuned"),
        ("baselines@tuned", "pilot-a-aug@tuned", "dropout@tuned l2@tuned"),
    ],
)
def test_groups(group, subject, members):
    rows = list(map(Row.parse, ROWS.split()))
    found = Group.parse(group).members(rows, Row.parse(subject))
    assert sorted(map(str, found)) == sorted(members.split())


def study(**changes) -> spec.Study:
    own = {"arms": {"vanilla": {}, "pilot-a-aug": {}, "l2": {}}, "search": {"arms": ["l2"], "trials": 8}}
    return reading.validate_study(content(**own | changes), "test")


def test_the_rows_that_a_study_will_have():
    fixed = {"vanilla", "pilot-a-aug", "pilot-a-aug@mc", "l2", "ensemble"}
    assert set(map(str, planned_rows(study()))) == fixed | {"l2@tuned"}
    assert set(map(str, planned_rows(study(search={"arms": ["l2"], "trials": 0})))) == fixed
    one = planned_rows(study(arms={"vanilla": {}, "pilot-a-aug": {}}, search=None))
    assert set(map(str, one)) == {"vanilla", "pilot-a-aug", "pilot-a-aug@mc"}  # nothing to make an ensemble of


@pytest.mark.parametrize(
    ("claim", "lacks"),
    [
        ("nll: l2 < vanilla", False),
        ("nll: l2@seeds < pilot-a-aug@mc", False),
        ("nll: l2@tuned < vanilla", False),
        ("nll: pilot-a-aug < baselines", False),
        ("nll: vanilla > ensemble", False),
        ("nll: l2 < dropout", True),
        ("nll: l2 < dropout@seeds", True),
        ("nll: vanilla@tuned < l2", True),
        ("nll: pilot-a-aug < noise", True),
        ("nll: l2@tuned < others@tuned", True),
    ],
)
def test_claims_about_rows_that_a_study_has_not(claim, lacks):
    for trials in 0, 8:  # which --trials may change
        claimed = study(claims=[{"says": "", "holds": claim}], search={"arms": ["l2"], "trials": trials})
        assert [each.holds for each in claims_without_rows(claimed)] == [claim] * lacks


def test_they_are_told_when_the_study_is_read(tmp_path, capsys):
    text = """
        data = { name = "fashion", validation = 1000 }
        network = "mlp-512"
        training = { epochs = 1 }
        arms = { vanilla = {}, dropout = {} }
        claims = [{ says = "", holds = "nll: dropout < vanilla" }, { says = "", holds = "nll: l2 < vanilla" }]
    """
    (tmp_path / "mine.toml").write_text(text)
    assert len(reading.read_study(str(tmp_path / "mine.toml")).claims) == 2
    told = "it has no rows for 1 of its claims, so they stay untested: `nll: l2 < vanilla`\n"
    assert capsys.readouterr().err.endswith(told)
