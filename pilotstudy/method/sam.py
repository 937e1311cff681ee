"""SAM: sharpness-aware minimisation."""

import torch
from torch import Tensor, nn

from pilotstudy.method.checks import check_number
from pilotstudy.method.modes import steady
from pilotstudy.method.regulariser import Loss, Regulariser


class SAM(Regulariser):
    """SAM (Foret et al., 2021): the gradient at w is taken at w + ρ g/‖g‖, where g is the gradient of the batch's loss.

    `loss` moves the weights there, and `clip_gradients`, between `backward` and the optimiser's step, puts them back to
    the bit. What is reported is the loss where they were moved to. Running statistics move once a step, at w. An arm
    within changes the images once for both passes; its other draws are new in each.
    """

    def __init__(self, network: nn.Module, *, rho: float = 0.05):
        super().__init__(network)
        check_number("rho", rho, least=0)
        self.rho = rho
        self.originals: list[tuple[nn.Parameter, Tensor]] = []  # weights as they were, while they are moved

    def loss(self, x: Tensor, y: Tensor) -> Loss:
        self.put_back()
        with self.changed_inputs(x) as changed:
            self.move(super().loss(changed, y).total)
            with steady(self.network):
                return super().loss(changed, y)

    def move(self, loss: Tensor) -> None:
        """w → w + ρ g/‖g‖."""
        weights = [p for p in self.network.parameters() if p.requires_grad]
        gradients = torch.autograd.grad(loss, weights, allow_unused=True)
        moved = [
            (weight, gradient) for weight, gradient in zip(weights, gradients, strict=True) if gradient is not None
        ]
        norm = nn.utils.get_total_norm([gradient for _, gradient in moved])
        with torch.no_grad():
            self.originals = [(weight, weight.clone()) for weight, _ in moved]
            for weight, gradient in moved:
                weight.add_(self.rho / (norm + 1e-12) * gradient)
        torch.clear_autocast_cache()  # it has the weights as they were

    @torch.no_grad()
    def put_back(self) -> None:
        for weight, original in self.originals:
            weight.copy_(original)
        self.originals = []

    def clip_gradients(self) -> Tensor | None:
        self.put_back()
        return super().clip_gradients()
