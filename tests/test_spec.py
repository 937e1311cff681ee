import pytest

from pilotstudy import spec
from pilotstudy.arms import Choice, Range, arms


def test_the_built_in_studies_are_the_papers():
    assert set(spec.builtin()) == {
        "quickstart",
        *(f"{data}-{net}" for data in ("cifar", "svhn") for net in ("cnn", "mlp", "mlp-small")),
    }
    for name in spec.builtin():
        study = spec.load(name)
        assert study.name == name
        if name != "quickstart":
            assert study.training.epochs == (100 if name.endswith("cnn") else 250)
            assert study.data.name == {"cifar": "cifar10", "svhn": "svhn"}[name.split("-")[0]]
            table = {"vanilla", "pilot-a-aug", "pilot-a-drop", "dropout", "l2", "batchnorm", "data-aug"}
            assert table <= study.arms.keys()


def test_the_arms_are_the_papers_and_so_are_their_defaults():
    masks = ("a-aug", "a-drop", "x-aug", "x-drop")
    assert set(arms()) == {
        *("vanilla", "dropout", "l2", "batchnorm", "data-aug", "add-a-aug-stopgrad", "add-a-drop-stopgrad"),
        *(f"{kind}-{mask}" for kind in ("pilot", "add", "sub") for mask in masks),
    }
    pilot = arms()["pilot-a-aug"].settings()
    assert (pilot.decoder_variance, pilot.sigma_mu, pilot.sigma_sigma) == (0.1, 10.0, 1.0)
    assert arms()["dropout"].settings().rate == 0.5
    assert arms()["data-aug"].settings().rate == 0.1
    assert arms()["sub-a-drop"].settings().variance == 0.1


@pytest.mark.parametrize("arm", arms().values(), ids=list(arms()))
def test_the_defaults_lie_in_the_search_space_and_its_ends_are_valid(arm):
    defaults = arm.settings().model_dump()
    for name, space in arm.space.items():
        if isinstance(space, Choice):
            assert defaults[name] in space.options
            ends = list(space.options)
        else:
            assert isinstance(space, Range)
            assert space.low <= defaults[name] <= space.high
            ends = [int(v) if space.whole else v for v in (space.low, space.high)]
        for end in ends:
            arm.settings.model_validate(defaults | {name: end})


def test_overrides_are_toml_values():
    assert spec.parse_override("a.b=3") == ("a.b", 3)
    assert spec.parse_override("a=[1, 2]") == ("a", [1, 2])
    assert spec.parse_override("a=b=c") == ("a", "b=c")
    assert spec.parse_override("data.name=/some/folder") == ("data.name", "/some/folder")
    study = spec.load("quickstart", {"arms.pilot-x-aug.mask_rate": 0.25})
    assert study.arms["pilot-x-aug"]["mask_rate"] == 0.25
    assert spec.trial(study, "dropout", 1).settings == {"rate": 0.5}
    assert spec.trial(study, "pilot-a-drop", 1).settings["mask_rate"] == 0.5  # not in the study: its defaults
