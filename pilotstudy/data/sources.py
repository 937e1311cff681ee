"""Where images come from: the embedded subset, torchvision's downloads, and folders or files of one's own."""

import io
import lzma
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pilotstudy.data.arrays import read_arrays
from pilotstudy.data.decoding import SUFFIXES, Encoded, decode_all
from pilotstudy.data.labels import Given, classify
from pilotstudy.data.parquet import parquet_classes, parquet_files, read_parquet
from pilotstudy.data.raw import Labelled, Raw, alike, reason
from pilotstudy.errors import DataError
from pilotstudy.storage import PACKAGE

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


def embedded() -> Raw:
    """The subset of Fashion-MNIST that comes with the package."""
    packed = (PACKAGE / "data" / "fashion" / "fashion.npz.xz").read_bytes()
    with np.load(io.BytesIO(lzma.decompress(packed))) as arrays:
        train, test = (Labelled(arrays[f"{split}_images"], arrays[f"{split}_labels"]) for split in ("train", "test"))
        return Raw(train, test, FASHION_CLASSES)


class Torchvision(Protocol):
    """What torchvision's data sets have in common: pixels, and `targets` or `labels`."""

    data: NDArray[np.uint8]
    targets: Sequence[int]
    labels: Sequence[int]


def download(name: str, folder: Path) -> Raw:
    """torchvision's data set, downloaded into `folder` (with torchvision's own progress bar)."""
    from torchvision import datasets

    makers: dict[str, Callable[[bool], Torchvision]] = {
        "cifar10": lambda train: datasets.CIFAR10(folder, train, download=True),
        "svhn": lambda train: datasets.SVHN(folder, "train" if train else "test", download=True),
        "fashion-mnist": lambda train: datasets.FashionMNIST(folder, train, download=True),
    }
    splits = []
    classes: tuple[str, ...] = tuple("0123456789")
    for training in True, False:
        try:
            data = makers[name](training)
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
        splits.append(Labelled(np.ascontiguousarray(images), np.asarray(labels, np.int64)))
        classes = tuple(getattr(data, "classes", classes))
    train, test = splits
    return Raw(train, test, classes)


def image_files(folder: Path) -> dict[str, list[Path]]:
    """Splits in torchvision's ImageFolder layout: split/class/image.png."""
    splits = {}
    for split in ("train", *HELD_OUT):
        files = sorted(path for path in folder.glob(f"{split}/*/*") if path.suffix.lower() in SUFFIXES)
        if files:
            splits[split] = files
    return splits


def layout(place: Path) -> dict[str, list[Path]]:
    """The files of `train` and `test` in whichever of the layouts a place of one's own has, else nothing."""
    if is_arrays(place):
        return {"arrays": [place]}
    for splits in parquet_files(place), image_files(place):
        held_out = next((split for split in HELD_OUT if split in splits), None)
        if "train" in splits and held_out:
            return {"train": splits["train"], "test": splits[held_out]}
    return {}


def is_arrays(place: Path) -> bool:
    return place.suffix.lower() == ".npz" and os.path.isfile(place)


def read_own(place: Path, image_size: int | None) -> Raw:
    """The images of a user's own folder, or `.npz` file."""
    return read_arrays(place, image_size) if is_arrays(place) else read_folder(place, image_size)


@dataclass(frozen=True)
class Undecoded:
    """A split as it is in files. `names` says where each image is, for messages."""

    encoded: Sequence[Encoded]
    names: Sequence[str]
    labels: Given


def read_folder(folder: Path, image_size: int | None, called: str | None = None) -> Raw:
    """The images of a folder; messages give its path, unless it is `called` something else."""
    where, short = called or str(folder), called or folder.name
    splits = layout(folder)
    if not splits:
        raise DataError(lacking(folder))
    classes: Sequence[str] = ()
    if splits["train"][0].suffix == ".parquet":
        classes = parquet_classes(splits["train"][0])
        train, test = (parquet_split(f"{short}/{split}", files) for split, files in splits.items())
    else:
        for files in splits.values():
            check_depth(files[0].parent.parent)
        train, test = (image_split(files) for files in splits.values())
    made = classify(where, train.labels, test.labels, classes)  # before the images, which take longer
    images = (
        decode_all(part.encoded, part.names, image_size, f"{short} {split}")
        for split, part in (("train", train), ("test", test))
    )
    return alike(where, Raw(Labelled(next(images), made.train), Labelled(next(images), made.test), made.classes))


def lacking(folder: Path) -> str:
    """What a folder has to hold, and how much of that it does."""
    for split in ("train", *HELD_OUT):
        check_depth(folder / split)
    for splits, wanted in (
        (parquet_files(folder), "{}-*.parquet"),
        (image_files(folder), "{}/CLASS/*.png"),
    ):
        if "train" in splits:
            return f"{folder} holds images to train, but none to test: add {wanted.format('test')}"
        held_out = next((split for split in HELD_OUT if split in splits), None)
        if held_out:
            return f"{folder} holds images to test ({held_out}), but none to train: add {wanted.format('train')}"
    return (
        f"{folder} holds no images in a known layout: train-*.parquet and test-*.parquet with a column image "
        "(or img) and label, or train/CLASS/*.png and test/CLASS/*.png"
    )


def check_depth(split: Path) -> None:
    """Refuses a class whose images all lie in folders of their own: it would be left out."""
    for kind in sorted(split.glob("[!.]*/")):
        if any(path.suffix.lower() in SUFFIXES for path in kind.iterdir()):
            continue
        deeper = next((path for path in sorted(kind.glob("*/[!.]*")) if path.suffix.lower() in SUFFIXES), None)
        if deeper:
            raise DataError(f"{kind} holds no images itself, but {deeper} lies deeper: move its images up")


def parquet_split(where: str, files: Sequence[Path]) -> Undecoded:
    """One split in the Hugging Face layout."""
    encoded, labels = read_parquet(files)
    return Undecoded(encoded, [f"{where} row {row}" for row in range(len(encoded))], labels)


def image_split(files: Sequence[Path]) -> Undecoded:
    """One split in torchvision's layout, where a folder's name is the class."""
    labels = np.array([path.parent.name for path in files], object)
    return Undecoded([path.read_bytes for path in files], [str(path) for path in files], labels)
