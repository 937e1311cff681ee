"""Several passes a step: what can be done around any arm that disturbs a network while it trains."""

from typing import get_args

import torch
from torch import Tensor, nn

from pilotstudy.method.checks import check_choice, check_number
from pilotstudy.method.masked import Schedule
from pilotstudy.method.r_drop import divergence
from pilotstudy.method.regulariser import Loss, Regulariser


class Passes(Regulariser):
    """Around another regulariser: several of its disturbed passes in a step, and an undisturbed one beside them.

    (1 − w) CE(p) + w (1/K) Σ_k CE(p_k) + κ (1/2K) Σ_k [KL(p‖p_k) + KL(p_k‖p)], with p of the undisturbed pass, which
    the last term takes as it is (no gradient), and p_k of pass k. `draws` is K, `disturbed` w and `consistency` κ.
    `disturbed_schedule` annealed lets w grow from 0 over the training. A DGM's bound is that of all K passes. Where w
    is 1 and κ is 0 no undisturbed pass is run.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        draws: int = 1,
        disturbed: float = 0.5,
        disturbed_schedule: Schedule = "constant",
        consistency: float = 0.0,
    ):
        super().__init__(network)
        check_number("draws", draws, least=1, whole=True)
        check_number("disturbed", disturbed, above=0, most=1)
        check_choice("disturbed_schedule", disturbed_schedule, get_args(Schedule))
        check_number("consistency", consistency, least=0)
        if self.inner is not None and not self.inner.gives_logits:
            name = type(self.inner).__name__
            raise ValueError(f"{name} has an objective of its own, of which it cannot tell the passes apart")
        self.draws, self.disturbed, self.consistency = draws, disturbed, consistency
        self.annealed = disturbed_schedule == "annealed"
        self.share_on_device: Tensor | None = None

    def share_now(self) -> float:
        """w."""
        return self.disturbed * (self.progress if self.annealed else 1.0)

    def capture(self, device: torch.device) -> None:
        super().capture(device)
        self.share_on_device = torch.full((), self.share_now(), device=device)

    def before_step(self) -> None:
        super().before_step()
        if self.share_on_device is not None:
            self.share_on_device.fill_(self.share_now())

    def sampled_probabilities(self, x: Tensor, samples: int) -> Tensor:
        """Those of the arm within, which may draw otherwise than pass by pass."""
        return (
            super().sampled_probabilities(x, samples)
            if self.inner is None
            else self.inner.sampled_probabilities(x, samples)
        )

    def loss(self, x: Tensor, y: Tensor) -> Loss:
        arm = self.inner
        if arm is None:
            return super().loss(x, y)
        with self.changed_inputs(x) as changed:
            loss = arm.loss(changed.repeat(self.draws, *[1] * (x.ndim - 1)), y.repeat(self.draws))
            if self.disturbed == 1 and not self.annealed and not self.consistency:
                return loss
            logits = self.innermost(changed)
        beside = loss.total - loss.cross_entropy  # a DGM's bound, or a penalty
        share = self.share_now() if self.share_on_device is None else self.share_on_device
        cross_entropy = torch.lerp(arm.cross_entropy(logits, y), loss.cross_entropy, share)
        total = beside + cross_entropy
        if self.consistency:
            assert loss.logits is not None
            own = logits.detach().log_softmax(1).repeat(self.draws, 1)
            total = total + self.consistency / 2 * divergence(own, loss.logits.log_softmax(1))
        return Loss(total, cross_entropy, loss.terms, loss.logits)
