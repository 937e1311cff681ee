import pytest

from pilotstudy.arms.arm import Choice, Range
from pilotstudy.arms.catalogue import all_arms

MODERN = {
    "label-smoothing": {"smoothing": 0.1},
    "focal": {"gamma": 3.0},
    "confidence-penalty": {"beta": 0.1},
    "mixup": {"alpha": 0.2},
    "manifold-mixup": {"alpha": 2.0},
    "regmixup": {"alpha": 20.0, "eta": 1.0},
    "r-drop": {"rate": 0.3, "alpha": 0.6},
    "multi-sample-dropout": {"rate": 0.5, "masks": 8},
    "isda": {"strength": 0.5},
    "sam": {"rho": 0.05},
}


def test_the_arms_are_known_and_their_defaults_are_their_papers():
    masks = ("a-aug", "a-drop", "x-aug", "x-drop")
    assert set(all_arms()) == {
        *("vanilla", "dropout", "l2", "batchnorm", "data-aug", "add-a-aug-stopgrad", "add-a-drop-stopgrad"),
        *("add-matched", "pilot-blind", "pilot-held-out", "difference", "pilot-star", "passes"),  # controls of ours
        *("concrete-dropout", "gaussian-dropout", "variational-dropout", "mfvi", "sgld", "swag", "laplace"),
        *(f"{kind}-{mask}" for kind in ("pilot", "add", "sub") for mask in masks),
        *MODERN,
    }
    pilot = all_arms()["pilot-a-aug"].settings()
    assert (pilot.decoder_variance, pilot.sigma_mu, pilot.sigma_sigma) == (0.1, 10.0, 1.0)
    assert all_arms()["dropout"].settings().rate == 0.5
    assert all_arms()["data-aug"].settings().rate == 0.1
    assert all_arms()["sub-a-drop"].settings().variance == 0.1
    assert {name: all_arms()[name].settings().model_dump() for name in MODERN} == MODERN
    assert {
        arm.settings().variance_in for arm in all_arms().values() if "variance_in" in arm.settings.model_fields
    } == {"relative"}


@pytest.mark.parametrize("arm", all_arms().values(), ids=list(all_arms()))
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
