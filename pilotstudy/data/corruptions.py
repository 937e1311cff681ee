"""Images as a worse camera would give them: six corruptions of five strengths each, the same bytes on every machine.

After Hendrycks and Dietterich, 2019, with the strengths of their CIFAR-10-C. What is random follows from the number of
an image within its data set, so a subset has the pixels of the whole.
"""

import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

STRENGTHS = range(1, 6)
SEED = 2019
BLOCK = 1024  # images that are changed at once: as floats they take four times the room
SIZE = 32  # of the images that the widths are given for

Images = NDArray[np.uint8]  # [n, C, H, W]
Floats = NDArray[np.float32]  # the same, 0 to 1
Rows = NDArray[np.int64]


def noise(images: Floats, rows: Rows, deviation: float) -> Floats:
    """Gaussian noise on every value, the same draws at every strength."""
    draws = [np.random.default_rng([SEED, row]).standard_normal(images.shape[1:], np.float32) for row in rows.tolist()]
    return images + np.float32(deviation) * np.stack(draws)


def blur(images: Floats, rows: Rows, deviation: float) -> Floats:
    """A Gaussian filter, as wide in proportion to the image's height; beyond an edge lies more of its pixels."""
    deviation *= images.shape[2] / SIZE
    reach = int(np.ceil(4 * deviation))
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / deviation) ** 2)
    weights = (weights / weights.sum()).astype(np.float32)
    for axis in 2, 3:
        width = [(reach, reach) if each == axis else (0, 0) for each in range(4)]
        padded, length = np.pad(images, width, "edge"), images.shape[axis]
        shifted = (np.take(padded, range(at, at + length), axis) for at in range(len(weights)))
        images = np.asarray(sum(weight * each for weight, each in zip(weights, shifted, strict=True)))
    return images


def contrast(images: Floats, rows: Rows, share: float) -> Floats:
    """A share of what each channel differs from its mean over the image."""
    means = images.mean((2, 3), keepdims=True)
    return np.asarray(means + np.float32(share) * (images - means))


def brightness(images: Floats, rows: Rows, more: float) -> Floats:
    """Added to the brightest channel of each pixel (the V of HSV); the others follow in proportion."""
    value = images.max(1, keepdims=True)
    brighter = np.minimum(value + np.float32(more), 1)
    return np.asarray(np.where(value > 0, images * (brighter / np.where(value > 0, value, 1)), brighter))


def jpeg(images: Floats, rows: Rows, quality: float) -> Floats:
    """Written as JPEG and read again."""
    from PIL import Image

    def again(image: Images) -> Images:
        file = io.BytesIO()
        Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)).save(
            file, "JPEG", quality=int(quality)
        )
        pixels = np.asarray(Image.open(file))
        return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)

    with ThreadPoolExecutor() as pool:
        return as_floats(np.stack(list(pool.map(again, as_bytes(images)))))


def pixelate(images: Floats, rows: Rows, share: float) -> Floats:
    """Made smaller, to this share of height and width, and larger again, each pixel the mean of what it covers."""
    height, width = (_through(length, max(1, int(length * share))) for length in images.shape[2:])
    return np.asarray(height @ images @ width.T)


def _through(length: int, smaller: int) -> Floats:
    """The matrix [length, length] of a line of pixels that goes through so many fewer."""
    return (_box(smaller, length) @ _box(length, smaller)).astype(np.float32)


def _box(before: int, after: int) -> NDArray[np.float64]:
    """The matrix [after, before] whose rows average the pixels with their centres in a new one, or take the nearest."""
    scale = before / after
    distance = np.arange(before) + 0.5 - (np.arange(after)[:, None] + 0.5) * scale
    inside = (np.abs(distance) < max(scale, 1) / 2) | (distance == max(scale, 1) / 2)
    return np.asarray(inside / inside.sum(1, keepdims=True))


Corruption = Callable[[Floats, Rows, float], Floats]
CORRUPTIONS: dict[str, tuple[Corruption, tuple[float, ...]]] = {  # each with what its five strengths are
    "noise": (noise, (0.04, 0.06, 0.08, 0.09, 0.10)),
    "blur": (blur, (0.4, 0.6, 0.7, 0.8, 1.0)),
    "contrast": (contrast, (0.75, 0.5, 0.4, 0.3, 0.15)),
    "brightness": (brightness, (0.05, 0.1, 0.15, 0.2, 0.3)),
    "jpeg": (jpeg, (80, 65, 58, 50, 40)),
    "pixelate": (pixelate, (0.95, 0.9, 0.85, 0.75, 0.65)),
}


def corrupt(images: Images, rows: Rows, name: str, strength: int) -> Images:
    """These rows of the images [n, C, H, W], changed."""
    change, strengths = CORRUPTIONS[name]
    changed = np.empty((len(rows), *images.shape[1:]), np.uint8)
    for start in range(0, len(rows), BLOCK):
        block = slice(start, start + BLOCK)
        changed[block] = as_bytes(change(as_floats(images[rows[block]]), rows[block], strengths[strength - 1]))
    return changed


def as_floats(images: Images) -> Floats:
    return np.asarray(images.astype(np.float32) / np.float32(255))


def as_bytes(images: Floats) -> Images:
    return np.rint(np.clip(images, 0, 1) * 255).astype(np.uint8)
