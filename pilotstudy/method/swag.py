"""SWAG: a Gaussian over the weights, fitted to those of the last epochs."""

import torch
from torch import Tensor, nn

from pilotstudy.method.checks import check_number
from pilotstudy.method.modes import fit_normalisation
from pilotstudy.method.regulariser import Batches, Regulariser, SamplingCost
from pilotstudy.method.weights import Vector


class Swag(Regulariser):
    """Stochastic weight averaging, Gaussian (Maddox et al., 2019).

    After each epoch from `start` (a share of the training) on, the weights w enter their mean, their variance, and the
    `rank` latest deviations D from the mean so far. A sampled prediction is the mean over networks with the weights
    mean + (1/√2) (σ z₁ + D z₂/√(K − 1)), z ~ N(0, 1), for K columns in D; the point prediction is that of the mean,
    once there is one. Batch normalisation is fitted to each of them. Weights that hardly move, as at the end of a
    schedule that decays to zero, make a narrow Gaussian.
    """

    keeps_weights = True

    count: Tensor  # of epochs
    mean: Tensor  # of parameters and running statistics, [size]
    variance: Tensor
    deviations: Tensor  # [rank, size]
    draws: Tensor | None

    def __init__(self, network: nn.Module, *, start: float = 0.5, rank: int = 20):
        super().__init__(network)
        check_number("start", start, least=0, below=1)
        check_number("rank", rank, least=2, whole=True)
        self.start, self.rank = start, rank
        self.vector = Vector(network)
        own, parameters = self.vector.of(network), self.vector.parameters
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros_like(own))
        self.register_buffer("variance", own.new_zeros(parameters))
        self.register_buffer("deviations", own.new_zeros(rank, parameters))
        self.register_buffer("draws", None, persistent=False)

    def set_extra_state(self, state: float) -> None:
        super().set_extra_state(state)
        self.draws = None  # they were of other weights

    @torch.no_grad()
    def after_epoch(self, batches: Batches) -> None:
        super().after_epoch(batches)
        if self.progress < self.start:
            return
        self.count += 1
        number, size = int(self.count), self.vector.parameters
        now = self.vector.of(self.network)[:size]
        before = now - self.mean[:size]
        self.mean[:size] += before / number
        after = now - self.mean[:size]
        self.variance += (before * after - self.variance) / number
        self.deviations[(number - 1) % self.rank] = after
        self.mean.copy_(self._fitted(self.mean, batches))

    def _fitted(self, vector: Tensor, batches: Batches) -> Tensor:
        """The vector with batch normalisation fitted to it."""
        own, counts = self.vector.of(self.network), [b.clone() for b in self.network.buffers()]
        self.vector.put(self.network, torch.cat([vector[: self.vector.parameters], own[self.vector.parameters :]]))
        try:
            fit_normalisation(self.network, (x for x, _ in batches))
            return self.vector.of(self.network)
        finally:
            self.vector.put(self.network, own)
            for buffer, value in zip(self.network.buffers(), counts, strict=True):
                buffer.copy_(value)

    def draw(self) -> Tensor:
        """Parameters, [parameters], of the fitted Gaussian."""
        columns = min(int(self.count), self.rank)
        wide = self.variance.clamp_min(0).sqrt() * torch.randn_like(self.variance)
        if columns > 1:
            z = torch.randn(columns, device=wide.device, dtype=wide.dtype)
            wide = wide + z @ self.deviations[:columns] / (columns - 1) ** 0.5
        return self.mean[: self.vector.parameters] + wide / 2**0.5

    @torch.no_grad()
    def prepare_sampling(self, batches: Batches, samples: int) -> None:
        super().prepare_sampling(batches, samples)
        if self.count:
            self.draws = torch.stack([self._fitted(self.draw(), batches) for _ in range(samples)])
        else:
            self.draws = self.vector.of(self.network).expand(samples, -1)

    def forward(self, x: Tensor) -> Tensor:
        if self.training or not self.count:
            return super().forward(x)
        return self.vector.call(self.network, self.mean, x)

    def sampling_cost(self, samples: int) -> SamplingCost:
        return SamplingCost(samples, samples)

    def sampled_probabilities(self, x: Tensor, samples: int) -> Tensor:
        if self.draws is None or len(self.draws) < samples:
            raise ValueError(f"call prepare_sampling(batches, {samples}) first: it draws the weights to predict with")
        calls = [self.vector.call(self.network, each, x) for each in self.draws[:samples]]
        return torch.stack([logits.softmax(1) for logits in calls])
