import pytest

from pilotstudy.arms.catalogue import all_arms
from pilotstudy.errors import InputError
from pilotstudy.study import budget, reading, resources

PAPERS = {f"{data}-{net}" for data in ("cifar", "svhn") for net in ("cnn", "mlp", "mlp-small")}
VERDICTS = {f"verdict-{data}-{net}" for data in ("cifar", "svhn") for net in ("cnn", "mlp")}


def test_the_built_in_studies():
    assert set(reading.builtin_studies()) == {"quickstart", "cifar-shift", "candidate"} | PAPERS | VERDICTS
    for name in PAPERS | VERDICTS:
        study = reading.read_study(name)
        assert study.name == name
        data, net = name.removeprefix("verdict-").split("-")[:2]
        assert study.data.name == {"cifar": "cifar10", "svhn": "svhn"}[data]
        assert {"vanilla", "pilot-a-aug", "pilot-a-drop", "dropout", "l2", "batchnorm", "data-aug"} <= study.arms.keys()
        if name in PAPERS:
            assert study.training.epochs == (100 if net == "cnn" else 250)


def test_verdicts_judge_the_claims_that_the_paper_makes_of_the_same_data_and_network():
    def papers(name: str) -> list[str]:
        return [claim.says for claim in reading.read_study(name).claims if not claim.section.startswith("ours")]

    for name in VERDICTS:
        assert papers(name) == papers(name.removeprefix("verdict-"))


def test_a_study_has_every_arm_of_ours():
    """But pilot-held-out: it is younger than the study, a run of which would no longer be the same with it."""
    ours = {arm.name for arm in all_arms().values() if arm.source.startswith("pilotstudy.") and not arm.wraps}
    assert set(reading.read_study("cifar-shift").arms) == ours - {"pilot-held-out"}


def test_an_override_reaches_into_lists():
    other = {"data": "svhn", "kind": "ood"}
    study = reading.read_study("cifar-shift", {"tests.0.size": 7, "tests.1": other})
    assert [(test.data, test.size) for test in study.tests] == [("corrupted:all", 7), ("svhn", None)]


def test_all_training_images_of_a_study_of_some():
    assert reading.read_study("verdict-svhn-cnn").data.train_size == 10_000
    assert reading.read_study("verdict-svhn-cnn", {"data.train_size": "all"}).data.train_size is None
    with pytest.raises(InputError, match=r"data\.train_size = 'al': "):
        reading.read_study("verdict-svhn-cnn", {"data.train_size": "al"})


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
