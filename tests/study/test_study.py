import pytest

from pilotstudy.arms.catalogue import all_arms
from pilotstudy.errors import InputError
from pilotstudy.study import budget, reading, resources


def test_the_built_in_studies():
    assert set(reading.builtin_studies()) == {
        "quickstart",
        "cifar-shift",
        *(f"{data}-{net}" for data in ("cifar", "svhn") for net in ("cnn", "mlp", "mlp-small")),
    }
    for name in reading.builtin_studies():
        study = reading.read_study(name)
        assert study.name == name
        if name not in ("quickstart", "cifar-shift"):
            assert study.training.epochs == (100 if name.endswith("cnn") else 250)
            assert study.data.name == {"cifar": "cifar10", "svhn": "svhn"}[name.split("-")[0]]
            table = {"vanilla", "pilot-a-aug", "pilot-a-drop", "dropout", "l2", "batchnorm", "data-aug"}
            assert table <= study.arms.keys()


def test_a_study_has_every_arm_of_ours():
    ours = {arm.name for arm in all_arms().values() if arm.source.startswith("pilotstudy.")}
    assert set(reading.read_study("cifar-shift").arms) == ours


def test_overrides_are_toml_values():
    assert reading.parse_override("a.b=3") == ("a.b", 3)
    assert reading.parse_override("a=[1, 2]") == ("a", [1, 2])
    assert reading.parse_override("a=b=c") == ("a", "b=c")
    assert reading.parse_override("data.name=/some/folder") == ("data.name", "/some/folder")
    study = reading.read_study("quickstart", {"arms.pilot-x-aug.mask_rate": 0.25})
    assert study.arms["pilot-x-aug"]["mask_rate"] == 0.25
    assert budget.fixed_trial(study, "dropout", 1).settings == {"rate": 0.5}
    assert budget.fixed_trial(study, "pilot-a-drop", 1).settings["mask_rate"] == 0.5  # not in the study: its defaults


@pytest.mark.parametrize(
    ("given", "share"),
    [("1", 1), (1, 1), ("0.25", 0.25), (0.5, 0.5), ("1/3", 1 / 3), (1 / 3, 1 / 3), ("0", 0), ("auto", "auto")],
)
def test_shares_of_a_gpu(given, share):
    assert resources.share_of_gpu(given) == share


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (2, "trains on one GPU"),
        ("8", "trains on one GPU"),
        *((wrong, "give 1, 1/k") for wrong in (0.3, -1, "x", "1/0", True)),
    ],
)
def test_other_shares_are_refused_with_the_reason(given, why):
    with pytest.raises(ValueError, match=why):
        resources.share_of_gpu(given)
    with pytest.raises(InputError, match=rf"resources.gpus_per_trial = .*{why}"):
        reading.read_study("quickstart", {"resources.gpus_per_trial": given})
