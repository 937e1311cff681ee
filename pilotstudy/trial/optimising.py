"""The optimisers of a trial: the recipe's, or an arm's own, for the network; Adam for what an arm trains beside it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pilotstudy.errors import InputError
from pilotstudy.method.regulariser import ParameterGroup, Regulariser
from pilotstudy.study.recipe import Training
from pilotstudy.trial.rates import factor_at

CLASSES: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
    "adadelta": torch.optim.Adadelta,
    "adagrad": torch.optim.Adagrad,
    "adamax": torch.optim.Adamax,
    "asgd": torch.optim.ASGD,
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "rmsprop": torch.optim.RMSprop,
    "rprop": torch.optim.Rprop,
}
FUSED = ("adam", "adamw", "sgd")  # one pass over the parameters where the default takes several
State = list[dict[str, Any]]


def has_own_optimiser(regulariser: Regulariser) -> bool:
    """Whether the arm is an optimiser itself, so that the recipe's is not used."""
    return regulariser.make_optimiser(regulariser.parameter_groups(1.0)) is not None


def why_not_captured(training: Training, *, own_optimiser: bool = False) -> str:
    """Why steps with this recipe cannot be captured as a CUDA graph, in a few words; empty if they can."""
    if own_optimiser:
        return "an arm's own optimiser cannot be captured as a CUDA graph"
    name = training.optimiser.name
    if name in ("adam", "adamw") or (name == "sgd" and training.schedule.name == "constant" and not _warms(training)):
        return ""
    return f"{name}{' with a schedule' if name == 'sgd' else ''} cannot be captured as a CUDA graph"


def _warms(training: Training) -> bool:
    return bool(training.schedule.warmup)


class Optimising:
    """Steps of both. `captured`: they are to be captured as a CUDA graph."""

    def __init__(self, regulariser: Regulariser, training: Training, *, captured: bool):
        self.training, self.captured = training, captured
        self.network = regulariser.innermost  # what arms within train beside it is no part of it
        groups = regulariser.parameter_groups(training.learning_rate)
        within = set(map(id, self.network.parameters()))
        own = [group for group in groups if not any(id(p) in within for p in group["params"])]
        ours = [group for group in groups if all(group is not other for other in own)]
        if rest := _forgotten(regulariser, groups):
            ours.append({"params": rest, "lr": training.learning_rate})
        own_decay = max((group.get("weight_decay", 0.0) for group in ours), default=0.0)
        ours = decayed(ours, training.weight_decay)
        self.optimisers = [regulariser.make_optimiser(ours) or self._recipe(ours, own_decay)]
        if own:
            self.optimisers.append(torch.optim.Adam(_plain(own), fused=True, capturable=captured))
        self.is_scheduled = training.schedule.name != "constant" or _warms(training)
        self.rate = training.learning_rate
        self._base = [float(group["lr"]) for group in self.param_groups]
        self._rates_on_device()

    def _recipe(self, groups: list[ParameterGroup], own_decay: float) -> torch.optim.Optimizer:
        """`own_decay`: the arm's weight decay, which some optimisers do not have."""
        try:
            self.training.check_decay(own_decay)
        except ValueError as error:
            raise InputError(f"training.optimiser: {error}") from error
        choice = self.training.optimiser
        options: dict[str, Any] = dict(choice.options)
        if choice.name in FUSED:
            options["fused"] = True
        if choice.name in ("adam", "adamw"):
            options["capturable"] = self.captured
        if choice.name == "adamw":  # torch's default is not 0
            options["weight_decay"] = 0.0
        return CLASSES[choice.name](_plain(groups), lr=self.training.learning_rate, **options)

    def _rates_on_device(self) -> None:
        """A rate that changes must lie on the device, where a captured step reads it."""
        if self.captured and self.is_scheduled:
            for group in self.param_groups:
                where = group["params"][0].device
                group["lr"] = torch.full((), float(group["lr"]), device=where)

    def schedule(self, done: float) -> None:
        """Sets the rates for when so many epochs, and parts of one, are over: all of them follow the schedule."""
        if not self.is_scheduled:
            return
        factor = factor_at(self.training.schedule, done, self.training.epochs)
        self.rate = self.training.learning_rate * factor
        for group, base in zip(self.param_groups, self._base, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(base * factor)
            else:
                group["lr"] = base * factor

    def clip(self) -> None:
        if self.training.gradient_clip is not None:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.training.gradient_clip)

    def zero_grad(self) -> None:
        for optimiser in self.optimisers:
            optimiser.zero_grad()

    def step(self) -> None:
        for optimiser in self.optimisers:
            optimiser.step()

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for optimiser in self.optimisers for group in optimiser.param_groups]

    def state_dict(self) -> State:
        return [optimiser.state_dict() for optimiser in self.optimisers]

    def load_state_dict(self, states: State) -> None:
        for optimiser, state in zip(self.optimisers, states, strict=True):
            optimiser.load_state_dict(state)
        for group in self.param_groups:  # the checkpoint's own may come from another device
            if "capturable" in group:
                group["capturable"] = self.captured
        for group, base in zip(self.param_groups, self._base, strict=True):
            group["lr"] = base
        self._rates_on_device()


def _forgotten(regulariser: Regulariser, groups: Sequence[ParameterGroup]) -> list[nn.Parameter]:
    """Parameters of an arm's own that it has in no group: they are trained as the network's are."""
    known = {id(p) for group in groups for p in group["params"]}
    return [p for p in regulariser.parameters() if id(p) not in known]


def _plain(groups: Sequence[ParameterGroup]) -> list[dict[str, Any]]:
    return [dict(group) for group in groups]


def decayed(groups: Sequence[ParameterGroup], weight_decay: float) -> list[ParameterGroup]:
    """The groups with the recipe's weight decay added to that of an arm; weights only, not biases and norms."""
    if not weight_decay:
        return list(groups)
    changed: list[ParameterGroup] = []
    for group in groups:
        weights = [p for p in group["params"] if p.ndim > 1]
        others = [p for p in group["params"] if p.ndim <= 1]
        own = group.get("weight_decay", 0.0)
        if weights:
            changed.append({**group, "params": weights, "weight_decay": own + weight_decay})
        if others:
            changed.append({**group, "params": others, "weight_decay": own})
    return changed
