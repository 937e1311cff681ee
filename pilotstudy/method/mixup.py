"""Mixup and its relatives: pairs of samples are mixed, and so are their labels."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pilotstudy.method.activations import Activations
from pilotstudy.method.checks import check_number
from pilotstudy.method.modes import predicting
from pilotstudy.method.regulariser import Loss, Regulariser


@dataclass(frozen=True)
class Mix:
    """One draw for a batch: sample i is mixed with `partners[i]`, of which it takes the share 1 − λ."""

    share: Tensor  # λ, a number on the device
    partners: Tensor

    def __call__(self, values: Tensor) -> Tensor:
        """λ v + (1 − λ) v', of v [n, ...]."""
        return self.share * values + (1 - self.share) * values.index_select(0, self.partners)


def draw_share(alpha: float, device: torch.device) -> Tensor:
    """λ ~ Beta(α, α), of any α: the share of the first of two gamma variates of this shape, G U^(1/α).

    G are of the shape α + 1. It is computed from logarithms: torch's own Beta, whose variates underflow, is ½ in a
    quarter of the draws with α = 0.001, and in all of them below 1e-6, where it must be 0 or 1.
    """
    shapes = torch.full((2,), alpha + 1, dtype=torch.float64, device=device)
    g, u = torch._standard_gamma(shapes).log(), torch.rand_like(shapes).neg().log1p()
    return ((g[0] - g[1]) + (u[0] - u[1]) / alpha).sigmoid().to(torch.get_default_dtype())


class Mixup(Regulariser):
    """Mixup (Zhang et al., 2018): x̃ = λ x + (1 − λ) x' and ỹ = λ y + (1 − λ) y', with λ ~ Beta(α, α).

    As in the authors' code there is one λ a batch, and x' are the batch's own images in another order. λ and the order
    are drawn on the device. What arms within do to images, they do before these are mixed.
    """

    def __init__(self, network: nn.Module, *, alpha: float = 0.2):
        super().__init__(network)
        check_number("alpha", alpha, above=0)
        self.alpha = alpha

    def draw_mix(self, x: Tensor) -> Mix:
        return Mix(draw_share(self.alpha, x.device), torch.rand(len(x), device=x.device).argsort())

    def mixed_cross_entropy(self, logits: Tensor, y: Tensor, mix: Mix) -> Tensor:
        """With the targets ỹ, in which cross-entropy is linear."""
        own, partners = self.cross_entropy(logits, y), self.cross_entropy(logits, y[mix.partners])
        return mix.share * own + (1 - mix.share) * partners

    def loss(self, x: Tensor, y: Tensor) -> Loss:
        with self.changed_inputs(x) as changed:
            cross_entropy = self._cross_entropy(changed, y, self.draw_mix(x))
        return Loss(cross_entropy, cross_entropy)

    def _cross_entropy(self, x: Tensor, y: Tensor, mix: Mix) -> Tensor:
        return self.mixed_cross_entropy(self.training_logits(mix(x)), y, mix)


class ManifoldMixup(Mixup):
    """Manifold mixup (Verma et al., 2019): one layer is mixed as mixup mixes the input, drawn anew for each batch.

    It is the input or a hidden layer (see `mixable_layers`), each as likely. The default α is the one that the authors
    train with on CIFAR.
    """

    def __init__(self, network: nn.Module, layers: Sequence[str], example: Tensor, *, alpha: float = 2.0):
        super().__init__(network, alpha=alpha)
        mixable = mixable_layers(network, layers, example)
        if not mixable:
            raise ValueError("it has no hidden layer above the first that all of a sample passes through: use mixup")
        self.activations = Activations(network, mixable, example)

    def _cross_entropy(self, x: Tensor, y: Tensor, mix: Mix) -> Tensor:
        chosen = torch.randint(len(self.activations.layers) + 1, (), device=x.device)

        def edit(layer: int, u: Tensor) -> Tensor:
            # Every layer runs through it, the others with a share of 1: which one it is only the device knows.
            return Mix(torch.where(chosen == layer, mix.share, 1.0), mix.partners)(u)

        return self.mixed_cross_entropy(self.activations.run(self.network, x, edit), y, mix)


def mixable_layers(network: nn.Module, layers: Sequence[str], example: Tensor) -> list[str]:
    """The hidden layers in which a sample can be mixed: those that all of it passes through.

    They are among the named layers but the first, which is linear in the input, so that to mix it is to mix the input;
    and among blocks that have named layers in them. A raw activation is linear in what lies below, so that to mix it is
    to mix the hidden layer there.
    """
    blocks = [
        name
        for name, module in network.named_modules()
        if not isinstance(module, nn.Sequential) and any(layer.startswith(f"{name}.") for layer in layers)
    ]
    return [name for name in (*layers[1:], *blocks) if carries_everything(network, name, example)]


def carries_everything(network: nn.Module, name: str, example: Tensor) -> bool:
    """Whether a hidden layer is the only way from the input to the logits: no gradient passes when it is cut there."""
    cut: list[object] = []

    def detached(module: nn.Module, args: object, output: object) -> object:
        cut.append(output.detach() if isinstance(output, Tensor) else output)
        return cut[-1]

    x = example.detach().clone().requires_grad_()
    hook = network.get_submodule(name).register_forward_hook(detached)
    try:
        with torch.random.fork_rng([x.device] if x.is_cuda else []), predicting(network), torch.enable_grad():
            logits = network(x)
    finally:
        hook.remove()
    if len(cut) != 1 or logits is cut[0]:  # not a hidden layer, or not one that runs once
        return False
    return not logits.requires_grad or torch.autograd.grad(logits.sum(), x, allow_unused=True)[0] is None


class RegMixup(Mixup):
    """RegMixup (Pinto et al., 2022): CE(x, y) + η CE(x̃, ỹ), mixup beside the clean loss, with λ near ½ (α 20).

    As in the authors' code the images and the mixed ones run as one batch.
    """

    def __init__(self, network: nn.Module, *, alpha: float = 20.0, eta: float = 1.0):
        super().__init__(network, alpha=alpha)
        check_number("eta", eta, least=0)
        self.eta = eta

    def _cross_entropy(self, x: Tensor, y: Tensor, mix: Mix) -> Tensor:
        clean, mixed = self.training_logits(torch.cat([x, mix(x)])).chunk(2)
        return self.cross_entropy(clean, y) + self.eta * self.mixed_cross_entropy(mixed, y, mix)
