"""Training steps captured as a CUDA graph."""

from collections.abc import Callable

import torch
from torch import Tensor

from pilotstudy.errors import CaptureError
from pilotstudy.method.regulariser import Loss, Regulariser
from pilotstudy.trial.optimising import Optimising

Step = Callable[[Tensor, Tensor], tuple[Loss, Tensor | None]]


class GraphedStep:
    """A training step captured as a CUDA graph: one launch in place of hundreds.

    The first steps of a process are ordinary ones, on a stream of their own, as torch asks for before a capture. The
    next is captured, and replayed from then on. Batches of another size are ordinary steps. Where capturing fails, that
    is a `CaptureError`, after which the trial starts again with ordinary steps: best in another process.
    """

    WARM_UP = 3

    def __init__(
        self,
        step: Step,
        regulariser: Regulariser,
        optimiser: Optimising,
        where: torch.device,
        batch_size: int,
    ):
        self.step, self.regulariser, self.optimiser = step, regulariser, optimiser
        self.where, self.batch_size = where, batch_size
        self.ordinary_steps = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.stream = torch.cuda.Stream(where)

    def __call__(self, x: Tensor, y: Tensor) -> tuple[Loss, Tensor | None]:
        size = self.batch_size
        if len(y) == size and self.ordinary_steps < self.WARM_UP:
            return self._warm_up(x, y)
        if len(y) == size and self.graph is None:
            self.graph = self._capture(x, y)
        self.regulariser.before_step()
        if len(y) != size or self.graph is None:
            return self.step(x, y)
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self.loss, self.norm

    def _warm_up(self, x: Tensor, y: Tensor) -> tuple[Loss, Tensor | None]:
        self.ordinary_steps += 1
        now = torch.cuda.current_stream(self.where)
        self.stream.wait_stream(now)
        with torch.cuda.stream(self.stream):
            done = self.step(x, y)
        now.wait_stream(self.stream)
        return done

    def _capture(self, x: Tensor, y: Tensor) -> torch.cuda.CUDAGraph:
        """Writes down what a step launches; nothing is computed yet."""
        self.x, self.y = x.clone(), y.clone()
        self.regulariser.capture(self.where)
        self.optimiser.zero_grad()  # so that gradients are made in the graph's own memory
        graph = torch.cuda.CUDAGraph()
        generator = torch.cuda.default_generators[self.where.index or 0]
        before = generator.clone_state()
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                self.loss, self.norm = self.step(self.x, self.y)
        except RuntimeError as error:
            generator.graphsafe_set_state(before)  # else it would go on thinking that it is being captured
            raise CaptureError(" ".join(str(error).split())[:200]) from error
        return graph
