"""What a trial trains: its network within its arm's regulariser."""

from dataclasses import replace

import torch
from torch import nn

from pilotstudy.arms.arm import Inputs
from pilotstudy.arms.catalogue import arm_named
from pilotstudy.errors import InputError
from pilotstudy.method.activations import Activations
from pilotstudy.method.regulariser import Regulariser
from pilotstudy.networks.catalogue import build_network
from pilotstudy.networks.layers import NoLayersError, found_layers
from pilotstudy.networks.network import Shape
from pilotstudy.study.spec import Trial


def build_model(trial: Trial, shape: Shape, classes: int, inputs: Inputs, where: torch.device) -> Regulariser:
    """The arms of a seed start from the same weights: they are drawn first, before anything that an arm draws."""
    arm = arm_named(trial.arm)
    settings = arm.settings.model_validate(trial.settings)
    torch.manual_seed(trial.seed)
    network = build_network(trial.network.name, shape, classes, trial.network.options | dict(arm.network))
    try:
        layers = trial.network.layers or _declared(network) or _found(network, inputs.example)
        if trial.network.layers:
            Activations(network, layers, inputs.example)  # wrong names are told, whether or not the arm uses them
        built = arm.build(settings, network, replace(inputs, layers=list(layers)))
    except ValueError as error:
        raise InputError(f"network {trial.network.name!r} with {trial.arm}: {error}") from error
    if not isinstance(built, Regulariser):
        raise InputError(f"arm {trial.arm!r} built a {type(built).__name__}, not a pilotstudy.Regulariser")
    keeps_weights = any(part.keeps_weights for part in built.modules() if isinstance(part, Regulariser))
    if keeps_weights and trial.training.average.name != "none":
        raise InputError(f"{trial.arm} keeps weights of its own over training: leave out training.average")
    return built.to(where)


def _declared(network: nn.Module) -> list[str]:
    """The names in its attribute `layers`; none where that is something else of the network's own."""
    layers = getattr(network, "layers", None)
    if isinstance(layers, list | tuple) and all(isinstance(name, str) for name in layers):
        return list(layers)
    return []


def _found(network: nn.Module, example: torch.Tensor) -> list[str]:
    """None for a network without hidden layers; arms that need one say so."""
    try:
        return found_layers(network, example)
    except NoLayersError:
        return []
