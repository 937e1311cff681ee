"""Pilot: a classifier trained together with a DGM over its activations, draws from which are inserted into it."""

from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor, nn

from pilotstudy.method.checks import check_choice, check_flag, check_number
from pilotstudy.method.dgm import DGM, Bound
from pilotstudy.method.masked import Masked, Schedule
from pilotstudy.method.masks import Mask, MaskKind, MaskPrior
from pilotstudy.method.modes import couples_samples
from pilotstudy.method.normaliser import Normaliser, VarianceIn
from pilotstudy.method.regulariser import Loss, ParameterGroup, Regulariser
from pilotstudy.method.sizing import DgmView, Plan, Sizing, chosen_layers
from pilotstudy.method.views import VIEW_KINDS, Views


class Pilot(Masked):
    """Put Pilot around a network by naming its layers (see `Activations`).

    `loss(x, y).total` holds both objectives. They share no parameter and no gradient: the activations are recorded
    detached, and the imputations are constants to the classifier.

    - `network`: any classifier that returns logits [n, classes]; `layers`: the names of the modules before its
      activation functions, without the last; `example`: one input [1, ...].
    - `mask`: where draws are inserted: `a-aug` one whole layer of a sample, `a-drop` units of all layers, `x-aug` the
      whole input, `x-drop` units of the input. `mask_rate`: of how many samples, or units. `mask_schedule`: `annealed`
      lets the rate grow from 0 over the training (set `progress` from 0 to 1).
    - `decoder_variance`: of the noise that a draw adds to the decoder's mean. `variance_in`: in what units: `relative`
      to the layer's running variance (which needs `normalise`), or `raw`, as the layer's values are.
    - `sigma_mu`, `sigma_sigma`: the Normal-Gamma hyperprior on the prior's mean and deviation (appendix A).
    - `dgm_width`, `z`: hidden units of the DGM's nets, and dimensions of its latent variable.
    - `dgm_learning_rate`, `gradient_clip`: of the DGM alone; the classifier's rate is given to `parameter_groups`.
    - `normalise`: whether the DGM sees activations centred by unit and scaled by layer.
    - `dgm_layers`: what the DGM sees and may mask beside the logits, which it sees always: `all` layers and the input,
      `penultimate` (the last hidden layer), or names with commas between them, `input` for the input.
    - `dgm_view`: how it sees a layer: all `units`, `pooled` (a feature map's channel means) or `projected` (64 random
      projections); `auto`: units for the paper's networks, for others what keeps the DGM no larger than the network.
      `notes` say what was chosen.

    Train with `optimiser = Adam(pilot.parameter_groups(1e-3))`, `pilot.loss(x, y).total.backward()`,
    `pilot.clip_gradients()`, `optimiser.step()`; predict with `pilot.predict(x)`, or `pilot.predict(x, samples=10)`.
    """

    gives_logits = True

    def __init__(
        self,
        network: nn.Module,
        layers: Sequence[str],
        example: Tensor,
        *,
        mask: MaskKind = "a-aug",
        mask_rate: float = 0.5,
        mask_schedule: Schedule = "constant",
        decoder_variance: float = 0.1,
        variance_in: VarianceIn = "relative",
        sigma_mu: float = 10.0,
        sigma_sigma: float = 1.0,
        dgm_width: int = 256,
        z: int = 32,
        dgm_learning_rate: float = 1e-3,
        gradient_clip: float = 1000.0,
        normalise: bool = True,
        dgm_layers: str = "all",
        dgm_view: DgmView = "auto",
    ):
        super().__init__(network, layers, example, mask=mask, mask_rate=mask_rate, mask_schedule=mask_schedule)
        positive = {"decoder_variance": decoder_variance, "sigma_mu": sigma_mu}
        positive |= {"dgm_learning_rate": dgm_learning_rate, "gradient_clip": gradient_clip}
        for name, value in positive.items():
            check_number(name, value, above=0)
        check_number("sigma_sigma", sigma_sigma, least=0)
        check_number("dgm_width", dgm_width, least=1, whole=True)
        check_number("z", z, least=1, whole=True)
        check_choice("dgm_view", dgm_view, ("auto", *VIEW_KINDS))
        check_choice("variance_in", variance_in, get_args(VarianceIn))
        check_flag("normalise", normalise)
        if variance_in == "relative" and not normalise:
            raise ValueError('without normalise the DGM sees raw values: set variance_in = "raw", too')
        plan = self._plan(dgm_layers, dgm_view, dgm_width, z)
        self.seen = [*plan.layers, len(self.activations.layers) + 1]  # the DGM's layers, as the network's
        self.views = Views(plan.views)
        sizes = [view.size for view in plan.views]
        self.mask_prior = MaskPrior(mask, sizes)
        sizes = [*sizes, self.activations.sizes[-1]]
        self.dgm = DGM(
            sizes,
            self.mask_prior.layers,
            self.mask_prior.features,
            width=plan.width,
            z=z,
            decoder_variance=decoder_variance,
            sigma_mu=sigma_mu,
            sigma_sigma=sigma_sigma,
        )
        self.normaliser = Normaliser(sizes) if normalise else None
        self.variance_in = variance_in
        self.dgm_learning_rate, self.gradient_clip = dgm_learning_rate, gradient_clip

    def _plan(self, dgm_layers: str, dgm_view: DgmView, width: int, z: int) -> Plan:
        """What the DGM sees and how wide it is; what there is to tell of it becomes a note."""
        mask = self.mask_prior.kind
        sizing = Sizing(self.network, self.activations, mask, z)
        layers = chosen_layers(dgm_layers, self.activations, mask)
        if dgm_view != "auto":
            plan = sizing.plan(dgm_view, layers, width)
            self.notes += sizing.too_large(plan)
        elif getattr(self.innermost, "every_unit", False):
            plan = sizing.plan("units", layers, width)
        else:
            plan, notes = sizing.fitted(layers, width, fewer=dgm_layers == "all" and mask.startswith("a"))
            self.notes += notes
        return plan

    def parameter_groups(self, learning_rate: float) -> list[ParameterGroup]:
        dgm: ParameterGroup = {"params": list(self.dgm.parameters()), "lr": self.dgm_learning_rate}
        return [*super().parameter_groups(learning_rate), dgm]

    def record(self, x: Tensor) -> Tensor:
        """The activations of x, as the DGM's views see them, side by side, [n, D]."""
        numbers = {layer: number for number, layer in enumerate(self.seen)}

        def see(layer: int, u: Tensor) -> Tensor:
            return self.views.of(numbers[layer]).see(u) if layer in numbers else u.new_empty(len(u), 0)

        return torch.cat(self.activations.record(self.network, x, see), dim=1)

    def record_masked(self, x: Tensor, mask: Mask) -> Tensor:
        """The same of the masked samples alone, [m, D]. They run among the others where those have a say."""
        return mask.select(self.record(x)) if couples_samples(self.network) else self.record(mask.select(x))

    def with_insertions(self, x: Tensor, mask: Mask, imputations: list[Tensor]) -> Tensor:
        """Logits with ã_b inserted, samples as in `mask.reorder(x)`; units downstream follow from it."""
        parts = {self.seen[part.layer]: (part, values) for part, values in zip(mask.parts, imputations, strict=True)}
        entering = self.activations.chain and mask.others is not None and self.views.every_unit

        def edit(layer: int, u: Tensor) -> Tensor:
            if layer not in parts:
                return u
            part, values = parts[layer]
            if self.normaliser is not None:
                values = self.normaliser.inverse(values, self.dgm.slices[part.layer])
            if entering:
                return torch.cat([u, values.view(-1, *u.shape[1:]).to(u.dtype)])
            return self.views.of(part.layer).enter(mask, part, u, values)

        if entering:
            return self.activations.run(self.network, x[mask.others], edit)
        return mask.reorder(self.activations.run(self.network, x, edit))

    def _scales(self) -> Tensor | None:
        """Of the layers, where the decoder's variance is in raw units and the DGM sees others."""
        return None if self.normaliser is None or self.variance_in == "relative" else self.normaliser.layer_scales

    def drawn(self, a: Tensor, mask: Mask, shares: Tensor | None = None) -> list[Tensor]:
        """What a prediction inserts into the masked samples among a [n, D]: draws of the DGM."""
        return self.dgm.sample(a, mask, shares, self._scales())

    def inserted(self, a: Tensor, mask: Mask, imputations: list[Tensor]) -> list[Tensor]:
        """What a training step inserts into the masked samples a [m, D]: their imputations."""
        return imputations

    def training_logits(self, x: Tensor) -> Tensor:
        """One stochastic pass; samples in the order given."""
        with self.changed_inputs(x) as changed:
            return self._stochastic_pass(changed)

    def _stochastic_pass(self, x: Tensor) -> Tensor:
        mask = self.draw_mask(x)
        if not mask.parts:
            return super().training_logits(x)
        with torch.no_grad():
            a = self.record(x)
            values = self.drawn(a if self.normaliser is None else self.normaliser(a), mask)
        return mask.restore(self.with_insertions(x, mask, values))

    def loss(self, x: Tensor, y: Tensor) -> Loss:
        with self.changed_inputs(x) as changed:
            return self._loss(changed, y)

    def _loss(self, x: Tensor, y: Tensor) -> Loss:
        mask = self.draw_mask(x)
        if not mask.parts:  # log p(a_b) of nothing is 0 exactly: a sample with no mask adds nothing to the bound
            logits = super().training_logits(x)
            cross_entropy = self.cross_entropy(logits, y)
            return Loss(cross_entropy, cross_entropy, logits=logits)
        a, bound = self.bound(x, mask)
        values = self.inserted(a, mask, bound.imputations)
        logits = self.with_insertions(x, mask, values)
        cross_entropy = self.cross_entropy(logits, mask.reorder(y))
        count = mask.count()
        total = cross_entropy - bound.total / count
        return Loss(total, cross_entropy, self.terms(bound, count), mask.restore(logits))

    def bound(self, x: Tensor, mask: Mask) -> tuple[Tensor, Bound]:
        """What the DGM sees of the masked samples among x [m, D], and its bound on that."""
        a = self.record_masked(x, mask)
        if self.normaliser is not None:
            self.normaliser.update(a, mask.weights)
            a = self.normaliser(a)
        return a, self.dgm.bound(a, mask, self._scales())

    def terms(self, bound: Bound, count: float | Tensor) -> dict[str, tuple[Tensor, float | Tensor]]:
        """What an epoch reports of the DGM, and over how many masked samples."""
        terms = {
            "reconstruction": (bound.reconstruction.detach(), count),
            "kl": (bound.kl.detach(), count),
            "hyperprior": (bound.hyperprior.detach(), count),
        }
        return terms | {f"imputation_error_{self.seen[layer]}": error for layer, error in bound.squared_errors.items()}

    def clip_gradients(self) -> Tensor | None:
        super().clip_gradients()
        gradients = [p.grad for p in self.dgm.parameters() if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        # Clipping what is short enough multiplies it by 1. Only a CPU can be asked whether it is, without waiting.
        if norm.device.type != "cpu" or norm > self.gradient_clip:
            nn.utils.clip_grads_with_norm_(self.dgm.parameters(), self.gradient_clip, norm)
        return norm

    def sampled_probabilities(self, x: Tensor, samples: int) -> Tensor:
        nested = any(isinstance(module, Regulariser) for module in self.network.modules())
        if nested or couples_samples(self.network):  # the passes have more in them than Pilot's draws
            return super().sampled_probabilities(x, samples)
        a = self.record(x)
        point = a[:, self.dgm.slices[-1]].softmax(1)
        if self.normaliser is not None:
            a = self.normaliser(a)
        shares = self.dgm.shares(a) if self.mask_prior.whole_layers else None
        drawn = point.repeat(samples, 1, 1)
        for of_pass in drawn:
            mask = self.draw_mask(x)
            if not mask.parts:
                continue
            # Samples with no mask keep the point prediction, so only the others run again.
            values = self.drawn(a, mask, shares)
            probabilities = self.with_insertions(mask.select(x), mask.among_selected(), values).softmax(1)
            if mask.rows is None:
                of_pass.copy_(probabilities)
            else:
                of_pass.index_copy_(0, mask.rows, probabilities)
        return drawn
