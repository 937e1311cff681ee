"""Batch normalisation of every hidden layer, with torch's default parameters."""

from pilotstudy.arms import Arm, Settings
from pilotstudy.arms.vanilla import build

ORDER = 7

ARMS = [
    Arm("batchnorm", "batch normalisation of every hidden layer", Settings, {}, build, network={"batchnorm": True}),
]
