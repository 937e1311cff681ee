"""The modules of any network that have a weight matrix: what goes into them, and their weights of other steps."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.conv import _ConvNd

from pilotstudy.method.activations import check_one_input
from pilotstudy.method.modes import predicting

KINDS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
WeightLayer = nn.Linear | _ConvNd
InputEdit = Callable[[int, WeightLayer, Tensor], Tensor]
OutputEdit = Callable[[int, WeightLayer, Tensor, Tensor], Tensor]


class WeightLayers:
    """The linear and convolutional modules of a network, by name, in the order in which they first run.

    As `Activations`, it keeps names, and nothing stays on the network between passes.
    """

    def __init__(self, network: nn.Module, example: Tensor):
        self.names = _ran(network, example)
        if not self.names:
            raise ValueError("the network has no linear or convolutional layer")

    def of(self, network: nn.Module) -> list[WeightLayer]:
        """The modules themselves."""
        return [network.get_submodule(name) for name in self.names]  # type: ignore[misc]

    def run(
        self, network: nn.Module, x: Tensor, before: InputEdit | None = None, after: OutputEdit | None = None
    ) -> Tensor:
        """The logits, where `before(l, module, h)` gives the input of layer l, `after(l, module, h, u)` its output."""
        hooks = []
        for index, module in enumerate(self.of(network)):
            if before is not None:
                hooks.append(module.register_forward_pre_hook(partial(_before, before, index)))
            if after is not None:
                hooks.append(module.register_forward_hook(partial(_after, after, index)))
        try:
            logits: Tensor = network(x)
            return logits
        finally:
            for hook in hooks:
                hook.remove()


def _before(edit: InputEdit, index: int, module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (edit(index, module, args[0]), *args[1:])  # type: ignore[arg-type]


def _after(edit: OutputEdit, index: int, module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
    return edit(index, module, args[0], output)  # type: ignore[arg-type]


def _ran(network: nn.Module, example: Tensor) -> list[str]:
    """Which of the modules run, without a trace."""
    check_one_input(network)
    ran: dict[str, None] = {}

    def note(name: str, module: nn.Module, args: object) -> None:
        ran.setdefault(name)

    named = [(name, module) for name, module in network.named_modules() if isinstance(module, KINDS)]
    hooks = [module.register_forward_pre_hook(partial(note, name)) for name, module in named]
    try:
        with torch.random.fork_rng([example.device] if example.is_cuda else []), predicting(network), torch.no_grad():
            network(torch.cat([example, example]))
    except (RuntimeError, TypeError) as error:
        said = " ".join(str(error).split())[:200]
        raise ValueError(f"the network does not take an input of shape {list(example.shape)}: {said}") from error
    finally:
        for hook in hooks:
            hook.remove()
    return list(ran)


def input_channels(module: WeightLayer) -> int:
    """How many units, or channels of a feature map, go into it."""
    return module.in_features if isinstance(module, nn.Linear) else module.in_channels


def by_channel(values: Tensor, module: WeightLayer, h: Tensor) -> Tensor:
    """values [.., channels], of each sample or of all, shaped so that they multiply what goes into the module."""
    ones = [1] * (h.ndim - 2)
    rows = values.shape[:-1] or (1,)
    shape = (*rows, *ones, values.shape[-1]) if isinstance(module, nn.Linear) else (*rows, values.shape[-1], *ones)
    return values.view(shape)


class Vector:
    """A network's parameters and its running statistics as one vector; whole numbers, as counts, are left out."""

    def __init__(self, network: nn.Module):
        parameters, buffers = dict(network.named_parameters()), dict(network.named_buffers())
        running = {name: value for name, value in buffers.items() if value.is_floating_point()}
        self.shapes = {name: value.shape for name, value in (parameters | running).items()}
        self.size = sum(shape.numel() for shape in self.shapes.values())
        self.parameters = sum(value.numel() for value in parameters.values())  # they come first

    def of(self, network: nn.Module) -> Tensor:
        """[size], a copy."""
        values = self._values(network)
        return torch.cat([values[name].detach().flatten() for name in self.shapes])

    def _values(self, network: nn.Module) -> dict[str, Tensor]:
        return {**dict(network.named_parameters()), **dict(network.named_buffers())}

    def named(self, vector: Tensor) -> dict[str, Tensor]:
        """The parts of a vector, by name."""
        parts = vector.split([shape.numel() for shape in self.shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    def call(self, network: nn.Module, vector: Tensor, x: Tensor) -> Tensor:
        """What the network would give for x with these weights and statistics; its own stay as they are."""
        logits: Tensor = functional_call(network, self.named(vector), (x,))
        return logits

    @torch.no_grad()
    def put(self, network: nn.Module, vector: Tensor) -> None:
        """Writes the vector into the network."""
        values = self._values(network)
        for name, part in self.named(vector).items():
            values[name].copy_(part)
