"""Averages of the weights over training: an exponential one (EMA), or that of the last epochs (SWA)."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from pilotstudy.method.modes import fit_normalisation
from pilotstudy.study.recipe import Average

State = dict[str, object]


class Averaging:
    """Keeps the average of a model's parameters and buffers. While there is none yet, the model itself stands in."""

    def __init__(self, choice: Average, model: nn.Module):
        self.choice, self.model = choice, model
        self.count = 0  # how many went into the average
        self.average: dict[str, Tensor] = {}

    def _tensors(self) -> dict[str, Tensor]:
        return {name: value for name, value in self.model.state_dict().items() if isinstance(value, Tensor)}

    @torch.no_grad()
    def after_step(self) -> None:
        if self.choice.name == "ema":
            # At first the average is over fewer steps than the decay reaches back.
            decay = min(self.choice.decay, (1 + self.count) / (10 + self.count))
            self._add(1 - decay)

    @torch.no_grad()
    def after_epoch(self, progress: float, inputs: Iterable[Tensor]) -> None:
        """`inputs`: the training images, by which batch normalisation is fitted to an average of whole epochs."""
        if self.choice.name == "swa" and progress > self.choice.start:
            self._add(1 / (self.count + 1))
            self._fit_normalisation(inputs)

    def before_start(self, epochs: int) -> int:
        """How many of these epochs were before SWA's start; 0 where there is no start to wait for."""
        return epochs - self.count if self.choice.name == "swa" else 0

    def _add(self, weight: float) -> None:
        now = self._tensors()
        if not self.count:
            self.average = {name: value.clone() for name, value in now.items()}
        for name, value in now.items():
            if value.is_floating_point():
                self.average[name].lerp_(value, weight)
            else:
                self.average[name].copy_(value)
        self.count += 1

    def _fit_normalisation(self, inputs: Iterable[Tensor]) -> None:
        norms = [m for m in self.model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        if not norms:
            return
        with self.used():
            fit_normalisation(self.model.get_submodule("network"), inputs)
            fitted = {name: value.clone() for name, value in self._tensors().items()}
        own = {f"{path}." for path, module in self.model.named_modules() if module in norms}
        for name in self.average:
            if any(name.startswith(path) and "." not in name[len(path) :] for path in own):
                self.average[name].copy_(fitted[name])

    @contextmanager
    def used(self) -> Iterator[None]:
        """Within it the model is the average; afterwards it is as it was."""
        if not self.count:
            yield
            return
        before = {name: value.clone() for name, value in self._tensors().items()}
        training = {module: module.training for module in self.model.modules()}
        self._put(self.average)
        self.model.eval()
        try:
            yield
        finally:
            self._put(before)
            for module, was in training.items():
                module.training = was

    @torch.no_grad()
    def _put(self, values: Mapping[str, Tensor]) -> None:
        for name, value in self._tensors().items():
            value.copy_(values[name])

    def state(self) -> State:
        return {"count": self.count, "average": self.average}

    def restore(self, state: State) -> None:
        count, average = state["count"], state["average"]
        assert isinstance(count, int)
        assert isinstance(average, dict)
        where = next(iter(self._tensors().values())).device
        self.count, self.average = count, {name: value.to(where) for name, value in average.items()}
