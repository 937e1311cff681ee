"""Other losses in the place of cross-entropy, for networks that are less sure of themselves."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pilotstudy.method.checks import check_number
from pilotstudy.method.regulariser import Regulariser


class LabelSmoothing(Regulariser):
    """Label smoothing (Szegedy et al., 2016): cross-entropy with the targets (1 − ε) y + ε/K, of K classes.

    `smoothing` is ε.
    """

    def __init__(self, network: nn.Module, *, smoothing: float = 0.1):
        super().__init__(network)
        check_number("smoothing", smoothing, least=0, most=1)
        self.smoothing = smoothing

    def cross_entropy(self, logits: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(logits, y, label_smoothing=self.smoothing)


class Focal(Regulariser):
    """The focal loss −(1 − p)^γ log p, p the label's probability (Lin et al., 2017; for calibration Mukhoti et al.,
    2020, whose γ of 3 is the default): what is sure already counts less.
    """

    def __init__(self, network: nn.Module, *, gamma: float = 3.0):
        super().__init__(network)
        check_number("gamma", gamma, least=0)
        self.gamma = gamma

    def cross_entropy(self, logits: Tensor, y: Tensor) -> Tensor:
        log_p = logits.log_softmax(1).gather(1, y[:, None]).squeeze(1)
        # Where p rounds to 1, a power below 1 has no derivative in 1 − p; there it is 0.
        missing = (-log_p.expm1()).clamp_min(torch.finfo(log_p.dtype).tiny)
        return -(missing**self.gamma * log_p).mean()


class ConfidencePenalty(Regulariser):
    """The confidence penalty (Pereyra et al., 2017): cross-entropy − β H(p), H(p) the entropy of the prediction."""

    def __init__(self, network: nn.Module, *, beta: float = 0.1):
        super().__init__(network)
        check_number("beta", beta, least=0)
        self.beta = beta

    def cross_entropy(self, logits: Tensor, y: Tensor) -> Tensor:
        log_p = logits.log_softmax(1)
        entropy = -(log_p.exp() * log_p).sum(1)
        return F.nll_loss(log_p, y) - self.beta * entropy.mean()
