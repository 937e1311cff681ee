"""The linear layer that makes a network's logits, and the features that it sees."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from pilotstudy.method.modes import predicting


class LastLayer:
    """The linear layer whose output is the network's, by its name (see `Activations` for why by its name)."""

    def __init__(self, network: nn.Module, example: Tensor):
        self.name = name_of_last(network, example)

    def of(self, network: nn.Module) -> nn.Linear:
        module = network.get_submodule(self.name)
        assert isinstance(module, nn.Linear)
        return module

    def run(self, network: nn.Module, x: Tensor, edit: Callable[[Tensor], Tensor]) -> Tensor:
        """The logits, where the layer sees `edit(features)` in place of its features [n, units]."""
        hook = self.of(network).register_forward_pre_hook(lambda module, args: (edit(args[0]),))
        try:
            logits: Tensor = network(x)
            return logits
        finally:
            hook.remove()


def name_of_last(network: nn.Module, example: Tensor) -> str:
    """The name of the linear layer whose output is the network's. The network is left as it was."""
    outputs: dict[str, object] = {}

    def note(name: str, module: nn.Module, args: object, output: object) -> None:
        outputs[name] = output

    named = [(name, module) for name, module in network.named_modules() if name and isinstance(module, nn.Linear)]
    hooks = [module.register_forward_hook(partial(note, name)) for name, module in named]
    try:
        with torch.random.fork_rng([example.device] if example.is_cuda else []), predicting(network), torch.no_grad():
            logits: object = network(example)
    finally:
        for hook in hooks:
            hook.remove()
    for name, output in outputs.items():
        if output is logits:
            return name
    raise ValueError("its logits are not the output of a linear layer (nn.Linear), whose features this arm acts on")
