"""Trials for the pretended device."""

import torch

from pilotstudy.arms.catalogue import arm_named
from tests.support.squares import make_trial

CUDA = torch.device("cuda")
SMALL = {"dgm_width": 8, "z": 2, "mask_schedule": "annealed", "mask_rate": 0.9}


def trial_of(arm: str, network: str = "mlp-512", **training):
    settings = {name: value for name, value in SMALL.items() if name in arm_named(arm).settings.model_fields}
    made = make_trial(arm, network=network, **settings)
    return made.model_copy(update={"training": made.training.model_copy(update=training)})
