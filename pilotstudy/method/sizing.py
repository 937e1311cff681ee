"""How large the DGM is: which layers it sees, how it sees them, and how wide its nets are."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import nn

from pilotstudy.method.activations import Activations
from pilotstudy.method.checks import unknown_layer
from pilotstudy.method.dgm import dgm_parameters
from pilotstudy.method.masks import MaskKind, MaskPrior
from pilotstudy.method.views import View, ViewKind, view_of

DgmView = Literal["auto"] | ViewKind

NARROWEST = 32
SEEN = {"units": "every unit", "pooled": "channel means", "projected": "random projections"}


@dataclass(frozen=True)
class Plan:
    """`layers`: those that the DGM sees, as numbers of 0..L−1 (the logits it always sees); `views`: of each of them."""

    kind: ViewKind
    layers: list[int]
    views: list[View]
    width: int
    parameters: int


def chosen_layers(dgm_layers: str, activations: Activations, mask: MaskKind) -> list[int]:
    """`all`, `penultimate` or names, with commas between them; `input` is the network's input."""
    names = ["input", *activations.layers]
    if not isinstance(dgm_layers, str):
        raise ValueError(f"dgm_layers = {dgm_layers!r}: must be a text, names with commas between them")
    if dgm_layers == "all":
        return list(range(len(names)))
    if dgm_layers == "penultimate":
        chosen = {len(names) - 1}
    else:
        # A nested network's layers may be named as its own.
        bare = {re.sub(r"^(network\.)+", "", name): number for number, name in enumerate(names)}
        numbers = bare | {name: number for number, name in enumerate(names)}
        asked = [name.strip() for name in dgm_layers.split(",")]
        for name in asked:
            if name not in numbers:
                raise unknown_layer(name, ["all", "penultimate", *names])
        chosen = {numbers[name] for name in asked}
    if mask.startswith("x") and 0 not in chosen:
        raise ValueError(f'mask {mask} imputes the input, which dgm_layers = "{dgm_layers}" leaves out: add "input"')
    return sorted(chosen)


class Sizing:
    """The plans there are for a network, and the one to take."""

    def __init__(self, network: nn.Module, activations: Activations, mask: MaskKind, z: int):
        self.activations, self.mask, self.z = activations, mask, z
        self.budget = sum(p.numel() for p in network.parameters())

    def plan(self, kind: ViewKind, layers: Sequence[int], width: int, *, narrower: bool = False) -> Plan:
        """`narrower`: as wide as makes the DGM no larger than the network, but no less than `NARROWEST`."""
        shapes, last = self.activations.shapes, self.activations.channels_last
        views = [view_of(kind, shapes[layer], channels_last=last[layer]) for layer in layers]
        sizes = [view.size for view in views]
        prior = MaskPrior(self.mask, sizes)

        def parameters(width: int) -> int:
            return dgm_parameters([*sizes, self.activations.sizes[-1]], prior.sizes, prior.features, width, self.z)

        if narrower:
            while width > NARROWEST and parameters(width) > self.budget:
                width -= 1
        if all(type(view) is View for view in views):
            kind = "units"
        return Plan(kind, list(layers), views, width, parameters(width))

    def _candidates(self, layers: list[int], width: int, *, fewer: bool) -> Iterator[Plan]:
        yield self.plan("units", layers, width)
        yield self.plan("pooled", layers, width, narrower=True)
        yield self.plan("projected", layers, width, narrower=True)
        if fewer:
            yield self.plan("pooled", layers[-1:], width, narrower=True)

    def fitted(self, layers: list[int], width: int, *, fewer: bool) -> tuple[Plan, list[str]]:
        """The first plan whose DGM is not larger than the network, or the smallest; and what to tell of it.

        `fewer`: whether layers may be left out.
        """
        tried = []
        for plan in self._candidates(layers, width, fewer=fewer):
            tried.append(plan)
            if plan.parameters <= self.budget:
                return plan, [] if plan is tried[0] else [self._note(plan, layers)]
        smallest = min(tried, key=lambda plan: plan.parameters)
        return smallest, [self._note(smallest, layers)]

    def _note(self, plan: Plan, layers: list[int]) -> str:
        where = "" if plan.layers == layers else " of the last hidden layer alone"
        what = f"the DGM sees {SEEN[plan.kind]}{where} and is {plan.width} wide"
        numbers = f"({plan.parameters:,} of {self.budget:,} parameters)"
        if plan.parameters <= self.budget:
            return f"{what}, so that it is not larger than the network {numbers}"
        return f"{what}, the smallest there is, and still larger than the network {numbers}"

    def too_large(self, plan: Plan) -> list[str]:
        """What to tell of a plan that was asked for."""
        if plan.parameters <= self.budget:
            return []
        instead = 'dgm_view = "pooled"' if plan.kind == "units" else 'dgm_view = "auto" or a smaller dgm_width'
        numbers = f"{rounded(plan.parameters)} parameters, the network {rounded(self.budget)}"
        return [f"the DGM has {numbers}: choose {instead}"]


def rounded(number: int) -> str:
    return f"{number / 1e6:.1f} M" if number >= 1e6 else f"{number:,}"
