"""What every source gives: images and labels of both splits as arrays, and the names of the classes."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilotstudy.errors import DataError

Arrays = dict[str, NDArray[np.uint8] | NDArray[np.int64]]


@dataclass(frozen=True)
class Labelled:
    """Images [n, C, H, W] and their labels [n]."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class Raw:
    """What a source gives: both splits, and the names of the classes."""

    train: Labelled
    test: Labelled
    classes: tuple[str, ...]

    @property
    def arrays(self) -> Arrays:
        """As they are stored, by name."""
        return {
            "train_images": self.train.images,
            "train_labels": self.train.labels,
            "test_images": self.test.images,
            "test_labels": self.test.labels,
        }


def resized(raw: Raw, size: int | None) -> Raw:
    """The same images as squares of this size."""
    if size is None:
        return raw

    def split(labelled: Labelled) -> Labelled:
        return Labelled(in_size(labelled.images, size, size), labelled.labels)

    return Raw(split(raw.train), split(raw.test), raw.classes)


def in_size(images: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """The same images with so many pixels."""
    from PIL import Image

    def one(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        channels = (Image.fromarray(channel) for channel in image)
        return np.stack([np.asarray(c.resize((width, height), Image.Resampling.BILINEAR)) for c in channels])

    with ThreadPoolExecutor() as pool:
        return np.stack(list(pool.map(one, images)))


LUMINANCE = (0.299, 0.587, 0.114)  # of red, green and blue, as Pillow has it


def fitted(images: NDArray[np.uint8], shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """The same images in another's colours and size [C, H, W]; grey becomes all channels, colour its luminance."""
    channels, height, width = shape
    if images.shape[1] == 1 < channels:
        images = np.repeat(images, channels, axis=1)
    elif images.shape[1] > channels:
        images = np.rint(np.tensordot(images, LUMINANCE, axes=(1, 0)))[:, None].astype(np.uint8)
    return images if images.shape[2:] == (height, width) else in_size(images, height, width)


def alike(where: object, raw: Raw) -> Raw:
    """The same, if images of both splits have one shape: a network is built for one."""
    train, test = (part.images.shape[1:] for part in (raw.train, raw.test))
    if train[0] != test[0]:
        grey = "train" if train[0] == 1 else "test"
        raise DataError(f"{where}: train and test images differ in colour, those of {grey} are grey; save both alike")
    if train != test:
        raise DataError(f"{where}: train and test images differ in size; set data.image_size in the study")
    return raw


def reason(error: BaseException) -> str:
    """An error in one line."""
    lines = str(getattr(error, "reason", None) or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
