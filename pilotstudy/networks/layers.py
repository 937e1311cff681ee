"""Which layers any network has: what an arm acts on where nobody has named them."""

import inspect
from functools import partial

import torch
from torch import Tensor, nn

KINDS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


class NoLayersError(ValueError):
    """There is none, which is the matter only of arms that act on layers."""


def found_layers(network: nn.Module, example: Tensor) -> list[str]:
    """The linear and convolutional modules in the order in which they run, without the last, which makes the logits.

    `example`: inputs [n, ...]. Modules that do not run exactly once, or whose output has not a row for each sample, are
    left out. The network is left as it was, with its modes and running statistics, and nothing is drawn.
    """
    if not any(True for _ in network.parameters()):
        raise ValueError("the network has no parameters: there is nothing to train")
    check_one_input(network)
    example = torch.cat([example, example])  # two rows or more: a layer that folds them into others is seen to
    ran: list[str] = []
    keeping: set[str] = set()

    def note(name: str, module: nn.Module, args: object, output: Tensor) -> None:
        ran.append(name)
        if output.ndim > 1 and len(output) == len(example):
            keeping.add(name)

    named = [(name, module) for name, module in network.named_modules() if name and isinstance(module, KINDS)]
    hooks = [module.register_forward_hook(partial(note, name)) for name, module in named]
    try:
        logits = glance(network, example)
    finally:
        for hook in hooks:
            hook.remove()
    check_logits(logits, len(example))
    names = [name for name in ran[:-1] if ran.count(name) == 1 and name in keeping]
    if not names:
        raise NoLayersError("the network has no linear or convolutional layer before the one that makes its logits")
    return names


def glance(network: nn.Module, example: Tensor) -> object:
    """What the network returns in eval mode, with nothing changed by looking."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        with torch.random.fork_rng([example.device] if example.is_cuda else []), torch.no_grad():
            returned: object = network(example)
            return returned
    except Exception as error:  # whatever a network of a user's own may raise
        said = " ".join(str(error).split())[:200]
        raise ValueError(f"the network does not take an input of shape {list(example.shape)}: {said}") from error
    finally:
        for module, training in modes:
            module.training = training


def check_one_input(network: nn.Module) -> None:
    needed = [
        p.name
        for p in inspect.signature(network.forward).parameters.values()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if len(needed) > 1:
        raise ValueError(f"the network takes {', '.join(needed)}: wrap it in a module that takes one tensor")


def check_logits(logits: object, n: int) -> None:
    if not isinstance(logits, Tensor):
        raise ValueError(f"the network returns a {type(logits).__name__}: wrap it so that it returns its logits alone")
    if logits.ndim != 2 or len(logits) != n:
        raise ValueError(f"the network must return logits of shape [{n}, classes], not {list(logits.shape)}")
    if logits.shape[1] < 2:
        raise ValueError("the network returns one logit: it must return one for each class, two or more")
