"""The images of one trial: which train, which validate, how pixels become inputs, and on which device they lie."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pilotstudy.arms.arm import Inputs
from pilotstudy.data.dataset import DataSet
from pilotstudy.data.splits import split
from pilotstudy.errors import InputError
from pilotstudy.study.spec import Data
from pilotstudy.trial.scaling import Scaling


class TrialImages:
    """The training images of a study's data, split and scaled, on the trial's device."""

    def __init__(self, settings: Data, data: DataSet, where: torch.device, seed: int = 0):
        self.where = where
        train_rows, validation_rows = split(
            data.train_labels,
            settings.validation,
            settings.train_size,
            subset=seed if settings.train_subset == "by-seed" else None,
        )
        self.train_rows, self.validation_rows = torch.from_numpy(train_rows), torch.from_numpy(validation_rows)
        self.held_out_rows = self.train_rows[:0]
        scaling = Scaling.fit(settings.scaling, data.train_images, train_rows)
        example = scaling(torch.from_numpy(data.train_images[train_rows[:1]]))
        size = len(train_rows)
        self.described = Inputs(example, scaling.mean, scaling.deviation, train_size=size)  # on the CPU, for models
        self.scaling = scaling.to(where)
        # On a GPU the images go there once, as uint8; on a CPU this is the memory map itself.
        self.pixels = torch.from_numpy(data.train_images).to(where)
        self.labels = torch.from_numpy(data.train_labels).to(where)

    def inputs(self, pixels: Tensor) -> Tensor:
        """What a network is given for these pixels, on the trial's device."""
        return self.scaling(pixels.to(self.where))

    def set_aside(self, share: float, seed: int) -> None:
        """Takes this share of the training images, and of each class, from all that follows but `held_out_batches`."""
        if not share:
            return
        rows = self.train_rows
        held_out = max(2, round(share * len(rows)))  # batch normalisation cannot take one
        if held_out >= len(rows):
            raise InputError(f"held_out = {share}: {len(rows)} training images are too few to set some aside")
        labels = self.labels[rows.to(self.where)].cpu().numpy()
        self.train_rows, self.held_out_rows = (rows[torch.from_numpy(r)] for r in split(labels, held_out, None, seed))

    def all_inputs(self, size: int) -> Iterator[Tensor]:
        """What a network is given for all training images, in their own order."""
        for batch in self.train_rows.to(self.where).split(size):
            if len(batch) > 1 or len(self.train_rows) == 1:
                yield self.inputs(self.pixels.index_select(0, batch))

    def in_order(self, size: int) -> "InOrder":
        """All training images with their labels, in their own order."""
        return InOrder(self, size)

    def batches(self, seed: int, epoch: int, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """An epoch's batches, in an order that depends on seed and epoch only."""
        order = np.random.default_rng([seed, epoch]).permutation(len(self.train_rows))
        rows = self.train_rows[torch.from_numpy(order)].to(self.where)
        for batch in rows.split(size):
            if len(batch) > 1 or len(rows) == 1:  # batch normalisation cannot take a batch of one
                yield self.inputs(self.pixels.index_select(0, batch)), self.labels[batch]

    def held_out_batches(self, seed: int, epoch: int, size: int) -> Iterator[Tensor]:
        """As many batches as an epoch has, each as large as the others, of the images that were set aside.

        They come in passes over these images, in orders that depend on seed and epoch only.
        """
        steps = math.ceil(len(self.train_rows) / size)
        size = min(size, len(self.held_out_rows))
        whole = len(self.held_out_rows) // size  # batches of a pass
        random = np.random.default_rng([seed, epoch, 22])
        passes = [random.permutation(len(self.held_out_rows))[: whole * size] for _ in range(math.ceil(steps / whole))]
        rows = self.held_out_rows[torch.from_numpy(np.concatenate(passes))].to(self.where)  # at once: no step waits
        for batch in rows.split(size):
            yield self.inputs(self.pixels.index_select(0, batch))


@dataclass(frozen=True)
class InOrder:
    """All training images in batches, unaugmented, in a fixed order: can be gone through several times."""

    images: TrialImages
    size: int

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for batch in self.images.train_rows.to(self.images.where).split(self.size):
            yield self.images.inputs(self.images.pixels.index_select(0, batch)), self.images.labels[batch]
