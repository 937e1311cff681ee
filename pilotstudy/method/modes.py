"""Looking at a network without leaving a trace: its modes and its running statistics stay as they are."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase


@contextmanager
def predicting(module: nn.Module) -> Iterator[None]:
    """In eval mode; then each submodule is in its own mode again, so that what was frozen stays frozen."""
    modes = [(m, m.training) for m in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for m, training in modes:
            m.training = training


@contextmanager
def steady(network: nn.Module) -> Iterator[None]:
    """Running statistics do not move, while a pass in train mode still normalises by its batch."""
    moving = [m for m in network.modules() if isinstance(m, _NormBase) and m.training and m.track_running_stats]
    momenta = [m.momentum for m in moving]
    for m in moving:
        m.track_running_stats, m.momentum = False, 0.0  # instance normalisation heeds only the second
    try:
        yield
    finally:
        for m, momentum in zip(moving, momenta, strict=True):
            m.track_running_stats, m.momentum = True, momentum


def couples_samples(network: nn.Module) -> bool:
    """Whether a sample's activations depend, in the modes its modules are in, on the others of its batch."""
    return any(isinstance(m, _BatchNorm) and (m.training or m.running_mean is None) for m in network.modules())


@torch.no_grad()
def fit_normalisation(network: nn.Module, inputs: Iterable[Tensor]) -> None:
    """Fits batch normalisation to the weights as they are: running statistics become plain means over these batches.

    A network without it costs no pass. Batches of one, which it cannot take, are left out.
    """
    norms = [m for m in network.modules() if isinstance(m, _BatchNorm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    with predicting(network):
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the plain mean over all batches
            norm.train()
        for x in inputs:
            if len(x) > 1:
                network(x)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
