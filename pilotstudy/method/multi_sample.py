"""Multi-sample dropout: several dropout masks of the last hidden layer in one step."""

from torch import Tensor, nn

from pilotstudy.method.checks import check_number
from pilotstudy.method.dropout import dropped
from pilotstudy.method.last_layer import LastLayer
from pilotstudy.method.regulariser import Loss, Regulariser


class MultiSampleDropout(Regulariser):
    """Multi-sample dropout (Inoue, 2019): the mean of the losses under several dropout masks of the last layer's input.

    `masks`: how many. Only the last layer runs once for each; what lies below runs once. Sampled predictions draw one
    mask a pass.
    """

    def __init__(self, network: nn.Module, example: Tensor, *, rate: float = 0.5, masks: int = 8):
        super().__init__(network)
        check_number("rate", rate, least=0, below=1)
        check_number("masks", masks, least=1, whole=True)
        self.last_layer = LastLayer(network, example)
        self.rate, self.masks = rate, masks

    def training_logits(self, x: Tensor) -> Tensor:
        return self._logits(x, 1)

    def loss(self, x: Tensor, y: Tensor) -> Loss:
        cross_entropy = self.cross_entropy(self._logits(x, self.masks), y.repeat(self.masks))
        return Loss(cross_entropy, cross_entropy)

    def _logits(self, x: Tensor, masks: int) -> Tensor:
        """[masks · n, classes]: those of the whole batch under the first mask, then under the second, and so on."""
        return self.last_layer.run(self.network, x, lambda features: dropped(features.repeat(masks, 1), self.rate))
