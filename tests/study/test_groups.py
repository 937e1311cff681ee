"""Which rows a study will have, and which of them a group stands for."""

import pytest

from pilotstudy.study import reading, spec
from pilotstudy.study.budget import planned_rows
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
