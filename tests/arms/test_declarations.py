"""What arms say of themselves: labels, roles and groups. Nothing is read out of their names."""

import subprocess
import sys

import numpy as np
import pytest

from pilotstudy.arms import catalogue
from pilotstudy.arms.catalogue import all_arms, arm
from pilotstudy.errors import InputError
from pilotstudy.evidence.labels import row_label
from pilotstudy.evidence.predictions import ensemble_rows
from pilotstudy.study.statements import Row, Statement, group_names


@pytest.fixture(autouse=True)
def _only_for_one_test(monkeypatch):
    """What a test declares, it declares for itself."""
    all_arms()
    monkeypatch.setattr(catalogue, "_arms", dict(catalogue._arms))


def build(settings, network, inputs):
    raise AssertionError("nothing is built here")


def test_rows_are_labelled_as_the_paper_prints_them():
    assert [row_label(Row(arm, mode)) for arm in all_arms() for mode in all_arms()[arm].modes] == [
        "Vanilla",
        *(f"Pilot{mc} {mask}" for mask in ("a-aug", "a-drop", "x-aug", "x-drop") for mc in ("", " MC")),
        *(f"Add{mc} {mask}" for mask in ("a-aug", "a-drop", "x-aug", "x-drop") for mc in ("", " MC")),
        *(f"Sub{mc} {mask}" for mask in ("a-aug", "a-drop", "x-aug", "x-drop") for mc in ("", " MC")),
        *("Add a-aug (stop-gradient)", "Add MC a-aug (stop-gradient)"),
        *("Add a-drop (stop-gradient)", "Add MC a-drop (stop-gradient)"),
        *("Dropout", "MC dropout", "L2", "Batch norm", "Data aug", "Add matched", "Add MC matched"),
        *("Pilot blind", "Pilot MC blind", "Difference", "Pilot star", "Passes", "Pilot held-out", "Pilot MC held-out"),
        *("Label smoothing", "Focal loss", "Confidence penalty", "Mixup", "Manifold mixup", "RegMixup"),
        *("R-Drop", "MC R-Drop", "Multi-sample dropout", "MC multi-sample dropout", "ISDA", "SAM"),
        *("Concrete dropout", "MC concrete dropout", "Gaussian dropout", "MC Gaussian dropout"),
        *("Variational dropout", "MC variational dropout", "MFVI", "MC MFVI", "SGLD", "MC SGLD"),
        *("SWAG", "MC SWAG", "Laplace", "MC Laplace"),
    ]
    assert row_label(Row("dropout", "seeds", "confirm")) == "Dropout, ensemble of seeds, tuned"
    assert row_label(Row("ensemble", "ensemble")) == "Ensemble"


def test_roles_and_groups_are_declared():
    assert [arm.name for arm in all_arms().values() if arm.role == "reference"] == ["vanilla"]
    assert {arm.family for arm in all_arms().values() if arm.role == "method"} == {"pilot"}
    beside = {"control", "modern", "bayesian"}
    assert {arm.group for arm in all_arms().values() if not arm.role} == beside
    assert not any(arm.role for arm in all_arms().values() if arm.group in beside)
    assert set(group_names(all_arms())) == {"others", "baselines", "sampling", "noise", "standard", *beside}
    groups = "noise", "standard"
    members = {group: {arm.name for arm in all_arms().values() if arm.group == group} for group in groups}
    assert members["standard"] == {"dropout", "l2", "batchnorm", "data-aug"}
    assert {all_arms()[name].family for name in members["noise"]} == {"add, sub"}


@pytest.mark.parametrize("name", ["standard", "noise", "others", "baselines", "training"])
def test_no_arm_has_the_name_of_a_group(name):
    with pytest.raises(InputError, match=f"arm '{name}'"):
        arm(name)(build)


@pytest.mark.parametrize("group", ["others", "baselines", "sampling", "ensemble", "vanilla", "mine", "two words", "A"])
def test_no_group_has_a_name_that_means_something_else(group):
    with pytest.raises(InputError, match=f"arm 'mine': group = '{group}'"):
        arm("mine", group=group)(build)
    arm("mine", group="ours")(build)
    with pytest.raises(InputError, match="arm 'ours' has the name of a group"):
        arm("ours")(build)


def test_names_of_ours_are_known_to_whoever_comes_first():
    """In a process of its own, in which no arm has been asked for yet."""
    script = """
import pilotstudy
from pilotstudy.errors import InputError
for name in "noise", "dropout":
    try:
        pilotstudy.arm(name)(lambda settings, network, inputs: network)
    except InputError:
        continue
    raise AssertionError(name)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_an_arm_without_a_role_is_in_no_ensemble_and_no_group():
    arm("pilot-like", "a user's, with an unlucky name", modes=("point", "mc"))(build)
    log_p = {0: np.log(np.full((3, 2), 0.5))}
    rows = {Row("vanilla"): log_p, Row("pilot-like"): log_p}
    assert ensemble_rows(rows, deep=False) == {}
    assert not Row("pilot-like").in_ensemble
    for group in "baselines", "standard", "noise", "sampling":
        stated = Statement.parse(f"nll: vanilla < {group}").group
        assert not any(stated.stands_for(Row("pilot-like", mode)) for mode in ("point", "mc"))
    assert Statement.parse("nll: vanilla < others").group.stands_for(Row("pilot-like"))
    assert (row_label(Row("pilot-like")), row_label(Row("pilot-like", "mc"))) == ("Pilot-like", "MC pilot-like")


def test_a_group_that_an_arm_declares_can_be_claimed_about():
    arm("tempered", "an arm", role="baseline", group="cold")(build)
    group = Statement.parse("nll: pilot-a-aug < cold").group
    rows = [Row("vanilla"), Row("tempered"), Row("tempered", phase="confirm")]
    assert group.members(rows, Row("pilot-a-aug")) == [Row("tempered")]
    assert Row("tempered").in_ensemble
    with pytest.raises(InputError, match="no arm of 'cold' samples its predictions: leave out '@mc'"):
        Statement.parse("nll: pilot-a-aug < cold@mc")
