"""The Laplace approximation of the last layer."""

from functools import partial
from typing import Literal, Self

import torch
from torch import Tensor, nn

from pilotstudy.method.activations import probe
from pilotstudy.method.checks import check_number
from pilotstudy.method.modes import predicting
from pilotstudy.method.regulariser import Batches, Inputs, Regulariser, Settings
from pilotstudy.method.weights import WeightLayers

Precision = float | Literal["fitted"]
ROUNDS = 100  # of fitting the prior's precision


class Laplace(Regulariser):
    """Last-layer Laplace (Daxberger et al., 2021) with a Kronecker-factored covariance, around a network as trained.

    Around the trained weights W of the last linear layer, its bias included, the posterior is taken for a Gaussian of
    precision N A ⊗ B + τ I: A is the mean of h hᵀ over the training images (h is what goes into the layer, and a 1), B
    that of diag p − p pᵀ. With their eigenvalues and eigenvectors, aᵢ, uᵢ and bⱼ, vⱼ, the logits of an image are
    Gaussian around those of W, with the variance Σᵢ (uᵢᵀh)²/(N aᵢ bⱼ + τ) along vⱼ; sampled predictions draw them. τ is
    `prior_precision`; "fitted": what makes the training images most likely. The point prediction is the network's own.

    The fit is made by `prepare_sampling`, and is no part of the state: it is made anew after loading one.
    """

    inputs_basis: Tensor | None  # uᵢ
    outputs_basis: Tensor | None  # vⱼ
    variances: Tensor | None  # 1/(N aᵢ bⱼ + τ), [i, j]

    def __init__(self, network: nn.Module, example: Tensor, *, prior_precision: Precision = "fitted"):
        super().__init__(network)
        if prior_precision != "fitted":
            check_number("prior_precision", prior_precision, above=0)
        self.prior_precision: Precision = prior_precision
        self.last = WeightLayers(network, example).names[-1]
        outputs, logits = probe(network, [self.last], example)
        if not isinstance(network.get_submodule(self.last), nn.Linear) or outputs[-1].value is not logits:
            raise ValueError("laplace needs a network whose logits are the output of an nn.Linear, which runs last")
        for name in "inputs_basis", "outputs_basis", "variances":
            self.register_buffer(name, None, persistent=False)

    @classmethod
    def build(cls, settings: Settings, network: nn.Module, inputs: Inputs) -> Self:
        return cls(network, inputs.example, **settings.model_dump())

    def set_extra_state(self, state: float) -> None:
        super().set_extra_state(state)
        self.variances = None  # they were of other weights

    def _layer(self) -> nn.Linear:
        layer = self.network.get_submodule(self.last)
        assert isinstance(layer, nn.Linear)
        return layer

    def _factors(self, batches: Batches) -> tuple[Tensor, Tensor, int]:
        """A and B of all images, in double precision, and their number."""
        kept: list[Tensor] = []
        layer, number = self._layer(), 0
        inputs = layer.in_features + (layer.bias is not None)
        a = layer.weight.new_zeros(inputs, inputs, dtype=torch.float64)
        b = layer.weight.new_zeros(layer.out_features, layer.out_features, dtype=torch.float64)
        hook = layer.register_forward_hook(lambda module, args, output: kept.append(args[0]))
        try:
            with predicting(self.network):
                for x, _ in batches:
                    p = self.network(x).double().softmax(1)
                    h = with_one(kept.pop(), layer).double()
                    a += h.T @ h
                    b += p.sum(0).diag() - p.T @ p
                    number += len(x)
        finally:
            hook.remove()
        if not number:
            raise ValueError("prepare_sampling was given no images: give the training images")
        return a / number, b / number, number

    @torch.no_grad()
    def prepare_sampling(self, batches: Batches, samples: int) -> None:
        super().prepare_sampling(batches, samples)
        a, b, number = self._factors(batches)
        values_a, vectors_a = torch.linalg.eigh(a)
        values_b, vectors_b = torch.linalg.eigh(b)
        curvature = number * torch.outer(values_a.clamp_min(0), values_b.clamp_min(0))
        tau = self._fitted_precision(curvature) if self.prior_precision == "fitted" else self.prior_precision
        dtype = self._layer().weight.dtype
        self.inputs_basis, self.outputs_basis = vectors_a.to(dtype), vectors_b.to(dtype)
        self.variances = (1 / (curvature + tau)).to(dtype)

    def _fitted_precision(self, curvature: Tensor) -> Tensor:
        """Where the marginal likelihood's derivative by τ is 0 (MacKay, 1992): τ ‖W‖² = Σ λ/(λ + τ).

        The next τ is the geometric mean of the last and MacKay's. His alone go to and fro between two values for ever
        where the network is so sure of its training images that all λ are far below τ.
        """
        squares = sum(
            (p.double().square().sum() for p in self._layer().parameters()), torch.zeros_like(curvature[0, 0])
        )
        tau = torch.ones_like(squares)
        for _ in range(ROUNDS):
            tau = (tau * (curvature / (curvature + tau)).sum() / squares).sqrt()
        return tau

    def training_logits(self, x: Tensor) -> Tensor:
        """In training, the network's own; in a sampled prediction, a draw."""
        if not self.sampling:
            return super().training_logits(x)
        if self.variances is None:
            raise ValueError("call prepare_sampling(batches, samples) with the training images first: it fits laplace")
        hook = self._layer().register_forward_hook(partial(self._drawn, self.variances))
        try:
            return super().training_logits(x)
        finally:
            hook.remove()

    def _drawn(self, variances: Tensor, layer: nn.Linear, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        assert self.inputs_basis is not None
        assert self.outputs_basis is not None
        along = (with_one(args[0], layer) @ self.inputs_basis).square() @ variances
        return output + (along.sqrt() * torch.randn_like(along)) @ self.outputs_basis.T


def with_one(h: Tensor, layer: nn.Linear) -> Tensor:
    """What goes into a linear layer, and a 1 for its bias if it has one."""
    return h if layer.bias is None else torch.cat([h, h.new_ones(len(h), 1)], dim=1)
