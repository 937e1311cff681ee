"""Reading and replacing the raw activations a⁰..aᴸ of any network, by the names of its layers."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from pilotstudy.method.checks import check_names, unknown_layer
from pilotstudy.method.modes import predicting, steady

Edit = Callable[[int, Tensor], Tensor]


class Activations:
    """The raw activations of a network: a⁰ is its input, a¹.. the outputs of the named layers, aᴸ its logits.

    Name the modules whose outputs come *before* an activation function (linear or convolutional layers), without the
    last one: the network's own output is always layer L. They are put in the order in which they run.

    What is kept is names, not modules, and nothing stays on the network between passes. So a copy of a regulariser acts
    on its own network, and two around the same network do not meet. Where one is within another and both change a
    layer, the outer one is first: it sees the raw activation.
    """

    def __init__(self, network: nn.Module, layers: Sequence[str], example: Tensor):
        check_names("layers", layers)
        modules = dict(network.named_modules())
        for name in layers:
            if name not in modules or not name:
                raise unknown_layer(name, modules)
        if not layers:
            raise ValueError("no layers are named: name the linear or convolutional modules, without the last")
        if len(set(layers)) < len(layers):
            raise ValueError(f"a layer is named twice: {', '.join(layers)}")
        outputs, logits = probe(network, layers, example)
        self.layers = [output.name for output in outputs]
        if outputs and outputs[-1].value is logits:
            raise ValueError(f"{self.layers[-1]!r} is the network's output, which is layer L already: leave it out")
        if sorted(self.layers) != sorted(layers):
            raise ValueError(
                f"{len(layers)} layers are named, but {len(outputs)} ran: each must run once a forward pass"
            )
        # As by nn.ReLU(inplace=True). Some modules do so in train mode only.
        in_place = any(getattr(module, "inplace", False) for module in modules.values())
        self.overwritten = in_place or any(output.overwritten() for output in outputs)
        self.shapes = [example.shape[1:], *(output.value.shape[1:] for output in outputs), logits.shape[1:]]
        self.sizes = [shape.numel() for shape in self.shapes]
        # Convolutions have their channels first; a linear layer has them last, as that of a transformer's tokens.
        self.channels_last = [False, *(isinstance(modules[name], nn.Linear) for name in self.layers), False]
        self.chain = is_chain(network, self.layers)

    def run(self, network: nn.Module, x: Tensor, edit: Edit) -> Tensor:
        """The logits, where `edit(l, u)` gives hˡ from uˡ for l = 0..L−1; everything downstream follows h."""
        hooks = [
            network.get_submodule(name).register_forward_hook(partial(_edited, edit, index))
            for index, name in enumerate(self.layers, start=1)
        ]
        try:
            logits: Tensor = network(edit(0, x))
            return logits
        finally:
            for hook in hooks:
                hook.remove()

    @torch.no_grad()
    def record(self, network: nn.Module, x: Tensor, see: Edit = lambda layer, u: u) -> list[Tensor]:
        """a = f_Ψ(x): [a⁰, .., aᴸ⁻¹] as `see(l, u)` gives them, and aᴸ; with no gradient and no other trace."""
        recorded: dict[int, Tensor] = {}

        def keep(layer: int, u: Tensor) -> Tensor:
            seen = see(layer, u)
            recorded[layer] = seen.clone() if self.overwritten and seen.data_ptr() == u.data_ptr() else seen
            return u

        with steady(network):
            logits = self.run(network, x, keep)
        for layer, name in enumerate(self.layers, start=1):
            if layer not in recorded:
                raise ValueError(f"layer {name!r} did not run in this pass: name layers that always run")
        return [*(recorded[layer] for layer in range(len(recorded))), logits]


def _edited(edit: Edit, index: int, module: nn.Module, args: object, output: Tensor) -> Tensor:
    return edit(index, output)


def is_chain(network: nn.Module, layers: Sequence[str]) -> bool:
    """Whether layer l+1 depends on layer l alone and on one sample at a time.

    A sample whose layer l is replaced whole can then enter there: nothing before it has to run. Of modules that are not
    torch's own nobody knows.
    """
    inner = [m for m in network.modules() if m is not network]
    return (
        isinstance(network, nn.Sequential)
        and type(network).forward is nn.Sequential.forward
        and set(layers) <= {name for name, _ in network.named_children()}
        and all(type(m).__module__.startswith("torch.nn.modules.") for m in inner)
        and not any(isinstance(m, nn.modules.batchnorm._NormBase) for m in inner)
    )


@dataclass(frozen=True)
class Output:
    """What a layer put out, and torch's count of the changes made to it by then."""

    name: str
    value: Tensor
    version: int

    def overwritten(self) -> bool:
        return self.value._version != self.version


def probe(network: nn.Module, layers: Sequence[str], example: Tensor) -> tuple[list[Output], Tensor]:
    """What the layers put out, in the order in which they run, and the logits. The network is left as it was."""
    check_one_input(network)
    if not isinstance(example, Tensor):
        raise ValueError(f"example must be a tensor of images, such as images[:1], not a {type(example).__name__}")
    outputs: list[Output] = []
    example = torch.cat([example, example])  # two rows or more: a layer that folds them into others is seen to
    n = len(example)

    def note(name: str, module: nn.Module, args: object, output: object) -> None:
        if not isinstance(output, Tensor):
            kind = type(output).__name__
            raise ValueError(f"layer {name!r} returns a {kind}, not a tensor: name linear or convolutional layers")
        if output.ndim < 2 or len(output) != n:
            raise ValueError(f"layer {name!r} gives {list(output.shape)} for {n} samples: name layers that keep them")
        outputs.append(Output(name, output, output._version))

    hooks = [network.get_submodule(name).register_forward_hook(partial(note, name)) for name in layers]
    devices = [example.device] if example.is_cuda else []
    try:
        with torch.random.fork_rng(devices), predicting(network), torch.no_grad():
            logits: object = network(example)
    except (RuntimeError, TypeError) as error:
        said = " ".join(str(error).split())[:200]
        raise ValueError(f"the network does not take an input of shape {list(example.shape)}: {said}") from error
    finally:
        for hook in hooks:
            hook.remove()
    if not isinstance(logits, Tensor):
        raise ValueError(f"the network returns a {type(logits).__name__}: wrap it so that it returns its logits alone")
    if logits.ndim != 2 or len(logits) != n:
        raise ValueError(f"the network must return logits of shape [{n}, classes], not {list(logits.shape)}")
    return outputs, logits


def check_one_input(network: nn.Module) -> None:
    needed = [
        p.name
        for p in inspect.signature(network.forward).parameters.values()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if len(needed) > 1:
        raise ValueError(f"the network takes {', '.join(needed)}: wrap it in a module that takes one tensor")
