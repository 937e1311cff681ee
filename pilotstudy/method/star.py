"""Pilot at the input, starved: a DGM of the input alone, whose draws keep the image's own residual."""

import math
from typing import Literal, Self, get_args

import torch
from torch import Tensor, nn

from pilotstudy.method.checks import check_choice, check_number
from pilotstudy.method.dgm import gaussian_kl
from pilotstudy.method.modes import predicting
from pilotstudy.method.regulariser import Inputs, Loss, ParameterGroup, Regulariser, Settings

Prior = Literal["common", "class"]

MOMENTUM = 0.02  # how far the running residual moves towards that of a batch
LOG_SIGMA = (-7.0, 3.0)  # the posterior's bounds


class VAE(nn.Module):
    """q(z | x) and p(x | z), with the prior N(m, s²) for all classes, or one for each; m and s are learnt.

    The decoder's variance is the running mean of the squared residuals: in closed form what would be learnt.
    """

    residual: Tensor
    started: Tensor

    def __init__(self, size: int, priors: int, *, width: int = 256, z: int = 32):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(size, width), nn.ReLU(), nn.Linear(width, 2 * z))
        self.decoder = nn.Sequential(nn.Linear(z, width), nn.ReLU(), nn.Linear(width, size))
        self.prior_mean = nn.Parameter(torch.zeros(priors, z))
        self.prior_log_sigma = nn.Parameter(torch.zeros(priors, z))
        self.register_buffer("residual", torch.ones(()))
        self.register_buffer("started", torch.tensor(False))

    def prior_of(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """m and s of each sample."""
        rows = y if len(self.prior_mean) > 1 else torch.zeros_like(y)
        return self.prior_mean.index_select(0, rows), self.prior_log_sigma.index_select(0, rows).exp()

    def posterior_of(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_sigma = self.encoder(x).chunk(2, 1)
        return mean, log_sigma.clamp(*LOG_SIGMA).exp()

    @torch.no_grad()
    def learn(self, squares: Tensor) -> None:
        """Moves the decoder's variance towards the mean of these squared residuals."""
        weight = torch.where(self.started, MOMENTUM, 1.0).to(self.residual.dtype)
        self.residual.lerp_(squares.mean().to(self.residual.dtype), weight).clamp_min_(1e-8)
        self.started.fill_(True)


class Star(Regulariser):
    """x̃ = x + dec(z̃) − dec(z), where z ~ q(z | x) and z̃ = m + √(1 − t²)(z − m) + t s ε moves it towards the prior.

    The slider keeps the prior's variance: t = 0 leaves the image as it is, and t = 1 forgets all of it but its
    residual. The DGM sees the input alone; no gradient of its bound reaches the network, and none of the network's
    loss reaches the DGM. `prior`: one for all images (`common`), or one for each `class`. It acts in training alone.
    """

    samples_predictions = False
    gives_logits = True

    def __init__(
        self,
        network: nn.Module,
        example: Tensor,
        *,
        t: float = 0.3,
        prior: Prior = "common",
        dgm_width: int = 256,
        z: int = 32,
        dgm_learning_rate: float = 1e-3,
        gradient_clip: float = 1000.0,
    ):
        super().__init__(network)
        check_number("t", t, least=0, most=1)
        check_choice("prior", prior, get_args(Prior))
        check_number("dgm_width", dgm_width, least=1, whole=True)
        check_number("z", z, least=1, whole=True)
        check_number("dgm_learning_rate", dgm_learning_rate, above=0)
        check_number("gradient_clip", gradient_clip, above=0)
        self.t: float | Tensor = t
        self.dgm_learning_rate, self.gradient_clip = dgm_learning_rate, gradient_clip
        with torch.no_grad(), predicting(network):
            classes = network(example).shape[1]
        self.dgm = VAE(example[0].numel(), classes if prior == "class" else 1, width=dgm_width, z=z)

    @classmethod
    def build(cls, settings: Settings, network: nn.Module, inputs: Inputs) -> Self:
        return cls(network, inputs.example, **settings.model_dump())

    def parameter_groups(self, learning_rate: float) -> list[ParameterGroup]:
        dgm: ParameterGroup = {"params": list(self.dgm.parameters()), "lr": self.dgm_learning_rate}
        return [*super().parameter_groups(learning_rate), dgm]

    def loss(self, x: Tensor, y: Tensor) -> Loss:
        with self.changed_inputs(x) as changed:
            moved, reconstruction, kl = self.moved(changed, y)
            logits = self.training_logits(moved)
        cross_entropy = self.cross_entropy(logits, y)
        terms: dict[str, tuple[Tensor, float | Tensor]] = {
            "reconstruction": (reconstruction.detach().sum(), len(y)),
            "kl": (kl.detach().sum(), len(y)),
        }
        return Loss(cross_entropy + (kl - reconstruction).mean(), cross_entropy, terms, logits)

    def moved(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x̃ of x [n, ...], and of each sample both terms of the DGM's bound [n]."""
        seen = x.detach().flatten(1)
        mean, sigma = self.dgm.posterior_of(seen)
        prior_mean, prior_sigma = self.dgm.prior_of(y)
        z = mean + sigma * torch.randn_like(mean)
        decoded = self.dgm.decoder(z)
        squares = (seen - decoded).square()
        self.dgm.learn(squares)
        variance = self.dgm.residual.clone()  # it moves again before `backward` where a step has several draws
        area = (2 * math.pi * variance).log()
        reconstruction = -squares.sum(1) / (2 * variance) - squares.shape[1] / 2 * area
        with torch.no_grad():
            kept = (1 - self.t * self.t) ** 0.5
            other = prior_mean + kept * (z - prior_mean) + self.t * prior_sigma * torch.randn_like(z)
            shift = self.dgm.decoder(other) - decoded
        kl = gaussian_kl(mean, sigma, prior_mean, prior_sigma)
        return x + shift.view(x.shape).to(x.dtype), reconstruction, kl

    def clip_gradients(self) -> Tensor | None:
        super().clip_gradients()
        norm = nn.utils.get_total_norm([p.grad for p in self.dgm.parameters() if p.grad is not None])
        nn.utils.clip_grads_with_norm_(self.dgm.parameters(), self.gradient_clip, norm)
        return norm
