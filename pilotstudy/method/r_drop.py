"""R-Drop: two passes of dropout that are to agree."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pilotstudy.method.checks import check_number
from pilotstudy.method.dropout import Dropout
from pilotstudy.method.regulariser import Loss


class RDrop(Dropout):
    """R-Drop (Liang et al., 2021): each sample passes twice, each time with other units dropped.

    The paper's loss is CE₁ + CE₂ + (α/2)[KL(p₁‖p₂) + KL(p₂‖p₁)], here halved, so that α = 0 is dropout. Both passes
    are one batch, as in the paper's algorithm, and have the same image where an arm within changes images.
    """

    def __init__(
        self, network: nn.Module, layers: Sequence[str], example: Tensor, *, rate: float = 0.3, alpha: float = 0.6
    ):
        super().__init__(network, layers, example, rate=rate)
        check_number("alpha", alpha, least=0)
        self.alpha = alpha

    def loss(self, x: Tensor, y: Tensor) -> Loss:
        with self.changed_inputs(x) as changed:
            logits = self.training_logits(torch.cat([changed, changed]))
        cross_entropy = self.cross_entropy(logits, torch.cat([y, y]))
        return Loss(cross_entropy + self.alpha / 4 * divergence(*logits.log_softmax(1).chunk(2)), cross_entropy)


def divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """KL(p‖q) + KL(q‖p) = Σ (p − q)(log p − log q), the mean over the batch."""
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(1).mean()
