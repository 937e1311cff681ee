"""A pretended CUDA device: CPU tensors that say they are on cuda:0.

    with pretended() as gpu:
        Trainer(trial, data, torch.device("cuda")).train_epoch()
    gpu.waits, gpu.launches

It fails as a GPU would: an operation on tensors of both devices raises, and so does anything that makes the host wait
while a CUDA graph is captured. It counts what a GPU would be asked to do (`launches`) and what makes the host wait for
it (`waits`, by what and where). A captured graph is a list of the operations that were launched, and replaying runs
them again on the same memory, as CUDA does; so whatever a step decides in Python is frozen, as it would be there.

C++ sees CPU tensors, so autograd, autocast and fused optimisers work as they are.
"""

import collections
import contextlib
import traceback
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch.nn.utils import clip_grad
from torch.overrides import TorchFunctionMode
from torch.utils import _foreach_utils
from torch.utils._pytree import tree_leaves, tree_map

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")
# They launch nothing: views, and memory that is not written.
VIEWS = frozenset(
    """empty empty_like new_empty new_empty_strided empty_strided view _unsafe_view t transpose permute expand slice
    select split split_with_sizes chunk detach alias unsqueeze squeeze as_strided _reshape_alias unbind lift_fresh
    narrow diagonal unfold""".split()  # noqa: SIM905
)
DRAWS = ("randn_like", "rand_like", "random_", "uniform_", "normal_", "bernoulli_")
WAITS = {"nonzero": 1, "masked_select": 1, "unique_consecutive": 1, "_unique2": 1, "unique_dim": 1, "bincount": 3}
gpu: "Gpu | None" = None


class Gpu:
    def __init__(self) -> None:
        self.launches: collections.Counter[str] = collections.Counter()
        self.waits: collections.Counter[tuple[str, str]] = collections.Counter()
        self.graph: Graph | None = None  # that is being captured
        self.memory_fraction = 1.0
        self.generator_is_captured = False

    def wait(self, what: str, times: int = 1) -> None:
        if self.graph is not None:
            raise RuntimeError(f"CUDA error: operation not permitted when stream is capturing ({what} at {place()})")
        self.waits[what, place()] += times

    def ran(self, again: Callable[[], Any], out: Any) -> None:
        if self.graph is not None:
            self.graph.steps.append((again, tensors_of(out)))


def tensors_of(values: Any) -> list[torch.Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]


def place() -> str:
    """Where in the package we are."""
    for frame in reversed(traceback.extract_stack()):
        if "/pilotstudy/" in frame.filename:
            return f"{frame.filename.split('/pilotstudy/')[-1]}:{frame.lineno}"
    return "torch"


class Graph:
    """`torch.cuda.CUDAGraph`: operations on memory that stays where it is."""

    def __init__(self) -> None:
        self.steps: list[tuple[Callable[[], Any], list[torch.Tensor]]] = []
        self.before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # memory that capturing must leave as it was

    def keep(self, tensor: torch.Tensor) -> None:
        memory = tensor.untyped_storage()
        if memory.data_ptr() not in self.before:
            flat = torch.empty(0, dtype=torch.uint8).set_(memory)
            self.before[memory.data_ptr()] = flat, flat.clone()

    def put_back(self) -> None:
        for flat, content in self.before.values():
            flat.copy_(content)

    @torch.no_grad()
    def replay(self) -> None:
        for again, outs in self.steps:
            for out, new in zip(outs, tensors_of(again()), strict=True):
                if new is not out:  # else it was written in place
                    out.copy_(new)


@contextlib.contextmanager
def capturing(graph: Graph, stream: Any = None, **options: Any) -> Iterator[None]:
    """`torch.cuda.graph`: what is launched is written down and not done."""
    assert gpu is not None
    state = torch.get_rng_state()
    gpu.graph = graph
    gpu.generator_is_captured = True
    try:
        yield
        gpu.generator_is_captured = False
    finally:
        gpu.graph = None
        graph.put_back()
        torch.set_rng_state(state)


class Pretend(torch.Tensor):
    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> "Pretend":
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            layout=inner.layout,
            device="cpu",
        )
        made.inner = inner
        return made

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Pretend({tuple(self.shape)}, {self.dtype})"

    device = property(lambda self: CUDA)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)

    def get_device(self) -> int:
        return 0

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})


def strip(value: Any) -> Any:
    return value.inner if isinstance(value, Pretend) else value


def wrap(value: Any) -> Any:
    return Pretend(value) if isinstance(value, torch.Tensor) and not isinstance(value, Pretend) else value


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    assert gpu is not None, "a tensor of the pretended device was used outside `with pretended()`"
    name = func._overloadpacket.__name__
    tensors = tensors_of((args, kwargs))
    ours = [t for t in tensors if isinstance(t, Pretend)]
    on_cpu = [t for t in tensors if not isinstance(t, Pretend)]
    if name == "_local_scalar_dense":
        gpu.wait("item")
        return func(*map(strip, args))
    if ours and any(t.ndim for t in on_cpu) and name not in ("copy_", "_to_copy", "set_"):
        shapes = [(tuple(t.shape), "cuda:0" if isinstance(t, Pretend) else "cpu") for t in tensors]
        raise RuntimeError(f"{name}: Expected all tensors to be on the same device, but found {shapes} at {place()}")
    if name in WAITS:
        gpu.wait(name, WAITS[name])
    if name == "repeat_interleave" and kwargs.get("output_size") is None:
        gpu.wait(name)
    if name in ("index", "index_put", "index_put_", "_index_put_impl_") and any(
        isinstance(t, torch.Tensor) and t.dtype in (torch.bool, torch.uint8) for t in tree_leaves(args[1])
    ):
        gpu.wait("index by booleans")
    if name == "equal" or (name == "copy_" and ours and on_cpu):
        gpu.wait(name)
    if gpu.generator_is_captured and gpu.graph is None and name in DRAWS:  # a capture has failed
        raise RuntimeError("Offset increment outside graph capture encountered unexpectedly.")
    if name not in VIEWS:
        gpu.launches[name] += 1
    if kwargs.get("device") is not None:
        kwargs = {**kwargs, "device": CPU}
    a, k = tree_map(strip, (args, kwargs))
    written = [
        value
        for argument, value in zip(func._schema.arguments, a, strict=False)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    if gpu.graph is not None:
        if name == "native_batch_norm":  # its schema does not say that it writes the running moments
            written += a[3:5]
        for tensor in tensors_of(written):
            gpu.graph.keep(tensor)
    out = func(*a, **k)
    is_view = any(result.alias_info is not None and not result.alias_info.is_write for result in func._schema.returns)
    if not is_view:
        gpu.ran(lambda: func(*a, **k), out)
    if written and isinstance(out, torch.Tensor) and out is a[0]:
        return args[0]  # an operation in place gives back what it was given
    return tree_map(wrap, out)


def is_cuda(where: Any) -> bool:
    return where is not None and (isinstance(where, int) or torch.device(where).type == "cuda")


class Move(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, there: bool) -> torch.Tensor:
        if there:
            return Pretend(tensor.detach().clone(memory_format=torch.preserve_format))
        return tensor.inner.detach().clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient, None


class OnDevice(TorchFunctionMode):
    """What is made on, or moved to and from, the device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if func is torch.Tensor.to or (name in ("cuda", "cpu") and args and isinstance(args[0], torch.Tensor)):
            return self.move(func, name, *args, **kwargs)
        if is_cuda(kwargs.get("device")):
            assert gpu is not None
            kwargs["device"] = CPU
            if any(isinstance(a, Pretend) for a in args):  # *_like, new_*
                return func(*args, **kwargs)
            if name in ("tensor", "as_tensor"):
                gpu.wait("host to device")
            gpu.launches[name] += 1
            out = func(*args, **kwargs)
            gpu.ran(lambda: func(*args, **kwargs), out)
            return Pretend(out)
        if args and isinstance(args[0], Pretend):
            if name == "tolist":
                gpu.wait("tolist")
                return args[0].inner.tolist()
            if name == "numpy":
                raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")
            if (
                name == "one_hot"
            ):  # makes an arange of its own in C++; on CUDA it looks for the largest class if not told
                gpu.launches["one_hot"] += 3
                return Pretend(func(args[0].inner, *args[1:], **kwargs))
        return func(*args, **kwargs)

    def move(self, func: Any, name: str, tensor: torch.Tensor, *rest: Any, **kwargs: Any) -> Any:
        assert gpu is not None
        words, target = list(rest), None
        if name in ("cuda", "cpu"):
            target = CUDA if name == "cuda" else CPU
        for i, word in enumerate(words):
            if isinstance(word, torch.Tensor):
                target = word.device
            elif isinstance(word, str | torch.device):
                target, words[i] = torch.device(word), CPU
        if kwargs.get("device") is not None:
            target, kwargs["device"] = torch.device(kwargs["device"]), CPU
        there = target is not None and target.type == "cuda"
        if there and not isinstance(tensor, Pretend):
            gpu.wait("host to device")
            return Move.apply(func(tensor, *words, **kwargs) if name == "to" else tensor, True)
        if target is not None and not there and isinstance(tensor, Pretend):
            gpu.wait("device to host")
            back = Move.apply(tensor, False)
            return func(back, *words, **kwargs) if name == "to" else back
        return func(tensor, *words, **kwargs) if name == "to" else tensor


def grouped(lists: Any, with_indices: bool = False) -> Any:
    found = _foreach_utils._group_tensors_by_device_and_dtype(lists, with_indices)
    ours = any(isinstance(t, Pretend) for t in tree_leaves(lists))
    return {(CUDA if ours else device, dtype): group for (device, dtype), group in found.items()}


class Generator:
    """The device's random generator, which counts as captured until it is given a state from before."""

    def clone_state(self) -> "Generator":
        return self

    def graphsafe_set_state(self, state: "Generator") -> None:
        assert gpu is not None
        gpu.generator_is_captured = False


class Stream:
    def __init__(self, *words: Any, **options: Any) -> None: ...

    def wait_stream(self, other: Any) -> None: ...

    def is_capturing(self) -> bool:
        return gpu is not None and gpu.graph is not None


CARD = SimpleNamespace(name="Pretended", total_memory=24 * 2**30, multi_processor_count=58, major=8, minor=9)


@contextlib.contextmanager
def pretended(card: Any = CARD) -> Iterator[Gpu]:
    global gpu
    gpu = made = Gpu()
    real_autocast = torch.autocast

    def set_fraction(fraction: float, *device: Any) -> None:
        made.memory_fraction = fraction

    cuda = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "get_device_name": lambda device=None: card.name,
        "get_device_properties": lambda device=None: card,
        "get_arch_list": lambda: ["sm_75", "sm_80", "sm_90"],
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
        "set_per_process_memory_fraction": set_fraction,
        "max_memory_reserved": lambda device=None: 2**30,
        "empty_cache": lambda: None,
        "synchronize": lambda device=None: None,
        "is_current_stream_capturing": lambda: made.graph is not None,
        "current_stream": lambda device=None: Stream(),
        "stream": lambda stream: contextlib.nullcontext(),
        "Stream": Stream,
        "CUDAGraph": Graph,
        "graph": capturing,
        "default_generators": (Generator(),),
    }
    # A module's parameters are replaced when it moves: else the data would be put into a plain Parameter.
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    with contextlib.ExitStack() as stack:
        for name, value in cuda.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, value))
        # Optimisers ask it whether they are being captured, and refuse if they cannot be.
        stack.enter_context(mock.patch.object(torch.accelerator, "current_stream", return_value=Stream()))
        # It groups tensors in C++, which sees CPU tensors; what it says of the device decides how gradients are cut.
        stack.enter_context(mock.patch.object(clip_grad, "_group_tensors_by_device_and_dtype", grouped))
        stack.enter_context(mock.patch.object(_foreach_utils, "_foreach_supported_types", [torch.Tensor, Pretend]))
        # C++ sees CPU tensors, so what CUDA would do under autocast, the CPU's autocast does.
        stack.enter_context(mock.patch.object(torch, "autocast", lambda kind, *a, **k: real_autocast("cpu", *a, **k)))
        stack.enter_context(OnDevice())
        try:
            yield made
        finally:
            torch.__future__.set_overwrite_module_params_on_conversion(False)
            gpu = None
