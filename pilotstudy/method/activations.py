"""Reading and replacing the raw activations a⁰..aᴸ of any network, by the names of its layers."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor, nn

Edit = Callable[[int, Tensor], Tensor]


class Activations:
    """The raw activations of `network`: a⁰ is its input, a¹.. the outputs of the named layers, aᴸ its logits.

    Name the modules whose outputs come *before* an activation function (linear or convolutional layers), in the order
    in which they run, without the last one: the network's own output is always layer L.
    """

    def __init__(self, network: nn.Module, layers: Sequence[str], example: Tensor):
        modules = dict(network.named_modules())
        for name in layers:
            if name not in modules or not name:
                near = get_close_matches(name, modules, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(filter(None, modules))}"
                raise ValueError(f"the network has no layer {name!r}: {hint}")
        self.network = network
        self._edit: Edit | None = None
        for index, name in enumerate(layers, start=1):
            modules[name].register_forward_hook(self._hook(index))
        training = network.training
        network.eval()
        recorded = self.record(example)
        network.train(training)
        if len(recorded) != len(layers) + 2:
            raise ValueError(
                f"{len(layers)} layers are named, but {len(recorded) - 2} ran: each must run once a forward pass"
            )
        if recorded[-1] is recorded[-2]:
            raise ValueError(f"{layers[-1]!r} is the network's output, which is layer L already: leave it out")
        if recorded[-1].ndim != 2:
            raise ValueError(f"the network must return logits of shape [n, classes], not {list(recorded[-1].shape)}")
        # In a chain, layer l+1 depends on layer l alone and on one sample at a time. So a sample whose layer l is
        # replaced whole can enter there: nothing before it has to run.
        couples = any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in modules.values())
        children = [name for name, _ in network.named_children()]
        self.chain = isinstance(network, nn.Sequential) and set(layers) <= set(children) and not couples
        self.sizes = [a[0].numel() for a in recorded]

    def _hook(self, index: int) -> Callable[[nn.Module, Any, Tensor], Tensor | None]:
        def hook(module: nn.Module, args: Any, output: Tensor) -> Tensor | None:
            return None if self._edit is None else self._edit(index, output)

        return hook

    def run(self, x: Tensor, edit: Edit) -> Tensor:
        """The logits, where `edit(l, u)` gives hˡ from uˡ for l = 0..L−1; everything downstream follows h."""
        self._edit = edit
        try:
            logits: Tensor = self.network(edit(0, x))
            return logits
        finally:
            self._edit = None

    @torch.no_grad()
    def record(self, x: Tensor) -> list[Tensor]:
        """a = f_Ψ(x): [a⁰, .., aᴸ], with no gradient."""
        recorded: list[Tensor] = []

        def keep(layer: int, u: Tensor) -> Tensor:
            recorded.append(u)
            return u

        logits = self.run(x, keep)
        return [*recorded, logits]
