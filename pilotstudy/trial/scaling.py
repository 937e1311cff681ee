"""How pixels become inputs."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class Scaling:
    """How uint8 pixels become inputs: (pixel / 255 − mean) / deviation, a value for each channel."""

    mean: Tensor
    deviation: Tensor

    @classmethod
    def fit(
        cls, kind: Literal["unit", "standardised"], images: NDArray[np.uint8], rows: NDArray[np.int64]
    ) -> "Scaling":
        """Standardised: with the mean and deviation of each channel over these rows of the images."""
        channels = images.shape[1]
        if kind == "unit":
            return cls(torch.zeros(channels), torch.ones(channels))
        counts = np.zeros((channels, 256))
        for start in range(0, len(rows), 4096):
            pixels = images[rows[start : start + 4096]]
            counts += [np.bincount(pixels[:, channel].ravel(), minlength=256) for channel in range(channels)]
        weights, values = counts / counts.sum(1, keepdims=True), np.arange(256) / 255
        mean = weights @ values
        deviation = np.sqrt(np.maximum(weights @ values**2 - mean**2, 1e-8))
        return cls(torch.tensor(mean, dtype=torch.float32), torch.tensor(deviation, dtype=torch.float32))

    def to(self, where: torch.device) -> "Scaling":
        """The same for pixels on this device."""
        return Scaling(self.mean.to(where), self.deviation.to(where))

    @cached_property
    def _factor(self) -> Tensor:
        return (1 / (255 * self.deviation)).view(-1, 1, 1)

    @cached_property
    def _offset(self) -> Tensor:
        return (self.mean / self.deviation).view(-1, 1, 1)

    def __call__(self, pixels: Tensor) -> Tensor:
        """[n, C, H, W] uint8 → float32."""
        return pixels.float().mul_(self._factor).sub_(self._offset)
