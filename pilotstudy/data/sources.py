"""Where images come from: the embedded subset, torchvision's downloads, Parquet folders and image folders."""

import io
import json
import lzma
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilotstudy.errors import DataError
from pilotstudy.files import PACKAGE
from pilotstudy.progress import Progress

DOWNLOADS = ("cifar10", "svhn", "fashion-mnist")
HELD_OUT = ("test", "validation", "valid", "val")  # which split is the test data: the first of these that there is
FASHION_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".ppm", ".pgm", ".tif", ".tiff"}


@dataclass(frozen=True)
class Raw:
    """Images [n, C, H, W] uint8 and labels [n] int64 of both splits, and the classes' names."""

    arrays: dict[str, NDArray[Any]]  # train_images, train_labels, test_images, test_labels
    classes: tuple[str, ...]


def embedded() -> Raw:
    packed = (PACKAGE / "data" / "fashion" / "fashion.npz.xz").read_bytes()
    with np.load(io.BytesIO(lzma.decompress(packed))) as arrays:
        return Raw(dict(arrays), FASHION_CLASSES)


def download(name: str, folder: Path) -> Raw:
    """torchvision's data set, downloaded into `folder` (with torchvision's own progress bar)."""
    from torchvision import datasets

    makers: dict[str, Callable[[bool], Any]] = {
        "cifar10": lambda train: datasets.CIFAR10(folder, train, download=True),
        "svhn": lambda train: datasets.SVHN(folder, "train" if train else "test", download=True),
        "fashion-mnist": lambda train: datasets.FashionMNIST(folder, train, download=True),
    }
    arrays: dict[str, NDArray[Any]] = {}
    classes: tuple[str, ...] = tuple("0123456789")
    for split in "train", "test":
        try:
            data = makers[name](split == "train")
        except (OSError, RuntimeError) as error:  # no network, a connection that broke off, a file that is not whole
            raise DataError(
                f"cannot download {name} ({reason(error)}): give a local folder with --data-dir (or PILOTSTUDY_DATA), "
                f"or run `pilotstudy data prepare {name}` where there is a network and copy the cache folder"
            ) from error
        images = np.asarray(data.data)
        if name == "cifar10":
            images = images.transpose(0, 3, 1, 2)
        elif name == "fashion-mnist":
            images = images[:, None]
        labels = data.labels if name == "svhn" else data.targets
        arrays |= {f"{split}_images": np.ascontiguousarray(images), f"{split}_labels": np.asarray(labels, np.int64)}
        classes = tuple(getattr(data, "classes", classes))
    return Raw(arrays, classes)


def reason(error: BaseException) -> str:
    return str(getattr(error, "reason", None) or error).strip().splitlines()[0] or type(error).__name__


def parquet_files(folder: Path) -> dict[str, list[Path]]:
    """Splits in the Hugging Face layout: train-00000-of-00001.parquet and so on, here or in `data/`."""
    splits: dict[str, list[Path]] = {}
    for path in sorted([*folder.glob("*.parquet"), *folder.glob("data/*.parquet")]):
        splits.setdefault(path.stem.split("-")[0], []).append(path)
    return splits


def image_files(folder: Path) -> dict[str, list[Path]]:
    """Splits in torchvision's ImageFolder layout: split/class/image.png."""
    splits = {}
    for split in ("train", *HELD_OUT):
        files = sorted(path for path in folder.glob(f"{split}/*/*") if path.suffix.lower() in SUFFIXES)
        if files:
            splits[split] = files
    return splits


def layout(folder: Path) -> dict[str, list[Path]]:
    """The files of `train` and `test` in whichever of the two layouts the folder has, else nothing."""
    for splits in parquet_files(folder), image_files(folder):
        held_out = next((split for split in HELD_OUT if split in splits), None)
        if "train" in splits and held_out:
            return {"train": splits["train"], "test": splits[held_out]}
    return {}


def read_folder(folder: Path, image_size: int | None) -> Raw:
    splits = layout(folder)
    if not splits:
        raise DataError(
            f"{folder} holds no images in a known layout: train-*.parquet and test-*.parquet with a column image "
            "(or img) and label, or train/CLASS/*.png and test/CLASS/*.png"
        )
    parquet = splits["train"][0].suffix == ".parquet"
    classes = parquet_classes(splits["train"][0]) if parquet else sorted({p.parent.name for p in splits["train"]})
    arrays: dict[str, NDArray[Any]] = {}
    for split, files in splits.items():
        if parquet:
            encoded, labels = read_parquet(files)
            names: Sequence[str] = [f"{folder.name}/{split} row {row}" for row in range(len(encoded))]
        else:
            unknown = sorted({p.parent.name for p in files} - set(classes))
            if unknown:
                raise DataError(f"{folder}/{split} has the class {unknown[0]!r}, which the training images do not have")
            encoded, names = [path.read_bytes for path in files], [str(path) for path in files]
            labels = np.array([classes.index(path.parent.name) for path in files])
        images = decode_all(encoded, names, image_size, f"{folder.name} {split}")
        arrays |= {f"{split}_images": images, f"{split}_labels": labels.astype(np.int64)}
    if not classes:
        classes = [str(k) for k in range(int(arrays["train_labels"].max()) + 1)]
    for split in splits:
        labels = arrays[f"{split}_labels"]
        if not len(labels) or labels.min() < 0 or labels.max() >= len(classes):
            raise DataError(f"{folder}: the {split} labels must be whole numbers from 0 to {len(classes) - 1}")
    shapes = {arrays[f"{split}_images"].shape[1:] for split in splits}
    if len(shapes) > 1:
        raise DataError(f"{folder}: train and test images differ in size or colour; set data.image_size in the study")
    return Raw(arrays, tuple(classes))


def parquet_classes(path: Path) -> list[str]:
    """The class names in the Hugging Face metadata, or none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(path).metadata or {}
        features = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path} is not a whole Parquet file ({reason(error)}): fetch it again") from error
    return list(map(str, features.get("label", {}).get("names", [])))


def read_parquet(files: Iterable[Path]) -> tuple[list[Any], NDArray[np.int64]]:
    """Encoded images and labels. `image` and `img` are both in use, plain or as a struct with `bytes`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    encoded: list[Any] = []
    labels = []
    for path in files:
        try:
            columns = pq.read_schema(path).names
            column = next((c for c in ("image", "img") if c in columns), None)
            if column is None or "label" not in columns:
                raise DataError(f"{path} needs the columns image (or img) and label; it has {', '.join(columns)}")
            table = pq.read_table(path, columns=[column, "label"])
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path} is not a whole Parquet file ({reason(error)}): fetch it again") from error
        images = table[column].combine_chunks()
        encoded += (images.field("bytes") if pa.types.is_struct(images.type) else images).to_pylist()
        labels.append(table["label"].to_numpy())
    return encoded, np.concatenate(labels)


def decode_all(encoded: Sequence[Any], names: Sequence[str], image_size: int | None, title: str) -> NDArray[np.uint8]:
    """Images [n, C, H, W]. Grey where every image is grey, else in colour."""
    from PIL import Image

    def decode(item: tuple[Any, str]) -> NDArray[np.uint8]:
        content, name = item
        try:
            with Image.open(io.BytesIO(content() if callable(content) else content)) as image:
                picture = image.convert("L" if image.mode in ("1", "L", "LA", "I;16") else "RGB")
        except Exception as error:  # Pillow raises many kinds, from SyntaxError to struct.error
            raise DataError(
                f"{name} is not an image that can be decoded ({reason(error)}): mend or remove it"
            ) from error
        if image_size:
            picture = picture.resize((image_size, image_size), Image.Resampling.BILINEAR)
        pixels = np.asarray(picture)
        return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)

    def decode_some(start: int) -> list[NDArray[np.uint8]]:
        return [decode(item) for item in zip(encoded[start : start + 256], names[start : start + 256], strict=True)]

    starts = range(0, len(encoded), 256)
    images: list[NDArray[np.uint8]] = []
    # Pillow decodes without holding the interpreter's lock.
    with ThreadPoolExecutor() as pool, Progress(f"decoding {title}", len(starts)) as progress:
        for some in pool.map(decode_some, starts):
            images += some
            progress.advance(f"({len(images):,} images)")
    channels = max((image.shape[0] for image in images), default=1)
    images = [image if len(image) == channels else np.repeat(image, channels, axis=0) for image in images]
    for image, name in zip(images, names, strict=True):
        if image.shape != images[0].shape:
            size, first = "×".join(map(str, image.shape[1:])), "×".join(map(str, images[0].shape[1:]))
            raise DataError(f"{name} is {size}, the first image {first}: set data.image_size in the study to resize")
    return np.stack(images) if images else np.empty((0, 1, 1, 1), np.uint8)
