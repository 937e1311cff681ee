"""Image files as uint8 arrays: in grey or colour, with 8 bits of whatever a file has."""

import io
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pilotstudy.console import Progress
from pilotstudy.data.raw import reason
from pilotstudy.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

Encoded = bytes | None | Callable[[], bytes]  # an image file's content, or what reads it
SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".ppm", ".pgm", ".tif", ".tiff"}
BITS_PER_SAMPLE, SAMPLE_FORMAT, PHOTOMETRIC = 258, 339, 262  # TIFF's tags
BLOCK = 256


def decode_all(
    encoded: Sequence[Encoded], names: Sequence[str], image_size: int | None, title: str
) -> NDArray[np.uint8]:
    """Images [n, C, H, W]. Grey where every image is grey, else in colour."""

    def decode_block(start: int) -> list[NDArray[np.uint8]]:
        block = slice(start, start + BLOCK)
        return [decode(content, name, image_size) for content, name in zip(encoded[block], names[block], strict=True)]

    starts = range(0, len(encoded), BLOCK)
    images: list[NDArray[np.uint8]] = []
    # Pillow decodes without holding the interpreter's lock.
    with ThreadPoolExecutor() as pool, Progress(f"decoding {title}", len(starts)) as progress:
        for block in pool.map(decode_block, starts):
            images += block
            progress.advance(f"({len(images):,} images)")
    channels = max((image.shape[0] for image in images), default=1)
    images = [image if len(image) == channels else np.repeat(image, channels, axis=0) for image in images]
    for image, name in zip(images, names, strict=True):
        if image.shape != images[0].shape:
            size, first = "×".join(map(str, image.shape[1:])), "×".join(map(str, images[0].shape[1:]))
            raise DataError(f"{name} is {size}, the first image {first}: set data.image_size in the study to resize")
    return np.stack(images) if images else np.empty((0, 1, 1, 1), np.uint8)


def decode(content: Encoded, name: str, image_size: int | None) -> NDArray[np.uint8]:
    """One image [C, H, W]."""
    from PIL import Image, UnidentifiedImageError

    try:
        content = content() if callable(content) else content
        if not content:
            raise DataError(f"{name} holds no image: repair or remove it")
        with Image.open(io.BytesIO(content)) as image:
            picture = eight_bits(image, name)
    except DataError:
        raise
    except Exception as error:  # Pillow raises many kinds, from SyntaxError to struct.error
        # What Pillow says of a file of no known kind is where in memory it lies.
        why = "of no known kind" if isinstance(error, UnidentifiedImageError) else reason(error)
        raise DataError(f"{name} is not an image that can be decoded ({why}): repair or remove it") from error
    if image_size:
        picture = picture.resize((image_size, image_size), Image.Resampling.BILINEAR)
    pixels = np.asarray(picture)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def eight_bits(image: "Image", name: str) -> "Image":
    """The image in mode L or RGB. Pillow clips what has more than 8 bits of grey; here it is scaled."""
    from PIL import Image

    if image.mode == "F":
        raise DataError(f"{name} has floating-point pixels, whose range is not known: save it with 8 or 16 bits")
    if image.mode.split(";")[0] != "I":
        return image.convert("L" if image.mode in ("1", "L", "LA") else "RGB")
    # A file's own depth decides, not how bright one image happens to be. Only TIFF has others than 16 bits here.
    tags: Any = getattr(image, "tag_v2", {})
    bits = tags.get(BITS_PER_SAMPLE, (16,))[0]
    if bits > 16 or tags.get(SAMPLE_FORMAT, (1,))[0] != 1:
        raise DataError(f"{name} has {bits}-bit pixels that cannot be scaled: save it with 8 or 16 bits, unsigned")
    pixels = scaled(np.asarray(image), 2**bits - 1)
    return Image.fromarray(255 - pixels if tags.get(PHOTOMETRIC) == 0 else pixels)


def scaled(pixels: NDArray[Any], most: int = 65535) -> NDArray[np.uint8]:
    """Values from 0 to `most` as the nearest of 0 to 255."""
    return ((pixels.astype(np.uint32) * 510 + most) // (2 * most)).astype(np.uint8)
