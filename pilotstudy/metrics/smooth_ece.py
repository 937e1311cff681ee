"""The smooth calibration error, smECE (Błasiok and Nakkiran, 2023), which needs no bins."""

import numpy as np

from pilotstudy.metrics.scores import Array

LEAST_WIDTH = 1e-3  # of the kernel: nothing finer is looked at
NODES = 2**14 + 1  # of the integral: 16 to the least width
MODES_BY_WIDTH = 2.5  # cosines beyond this number over the width are damped to less than 1e-13


def smooth_ece(confidence: Array, correct: Array) -> float:
    """The smECE at the width σ of the kernel that equals it, or at `LEAST_WIDTH` where it is smaller than that.

    At a width σ it is the integral of |r| over [0, 1], where r(t) is the mean over points of correctness less
    confidence, times a Gaussian of t about the confidence, reflected at 0 and 1. It falls with σ, so there is one such
    width.
    """
    from scipy.optimize import brentq

    residuals = Residuals(confidence, correct)
    width = 1.0
    while residuals.error(width) < width:
        width /= 2
        if width < LEAST_WIDTH:
            return residuals.error(LEAST_WIDTH)
    if width == 1:
        return residuals.error(width)
    return residuals.error(float(brentq(lambda s: residuals.error(s) - s, width, 2 * width, xtol=1e-12)))


class Residuals:
    """Correctness less confidence as a function of confidence, in cosines: a reflected Gaussian damps each of them."""

    def __init__(self, confidence: Array, correct: Array):
        self.gaps = (correct - confidence) / len(correct)
        self.turn = np.exp(1j * np.pi * confidence)
        self.turned = np.ones(len(correct), complex)  # `turn` to the power of the last mode
        self.modes = [float(self.gaps.sum())]

    def error(self, width: float) -> float:
        """The smECE at this width of the kernel."""
        from scipy.fft import dct

        number = int(np.ceil(MODES_BY_WIDTH / width)) + 1
        while len(self.modes) < number:
            self.turned *= self.turn
            self.modes.append(float((self.turned.real * self.gaps).sum()))
        damped = np.zeros(NODES)
        damped[:number] = self.modes[:number] * np.exp(-((np.pi * np.arange(number) * width) ** 2) / 2)
        return _integral_of_size(dct(damped, type=1))


def _integral_of_size(values: Array) -> float:
    """∫ |f| over [0, 1] of the line through these values of f at equal distances, also where it crosses 0."""
    left, right = np.abs(values[:-1]), np.abs(values[1:])
    crossing = values[:-1] * values[1:] < 0
    both = left + right
    areas = np.where(crossing, (left**2 + right**2) / np.where(crossing, both, 1.0), both) / 2
    return float(areas.mean())
