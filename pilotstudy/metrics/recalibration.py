"""Ways to recalibrate a network after training, fitted on its validation logits."""

from typing import Literal, get_args

Recalibration = Literal["none", "temperature", "vector", "matrix", "platt"]
RECALIBRATIONS: tuple[Recalibration, ...] = get_args(Recalibration)[1:]
