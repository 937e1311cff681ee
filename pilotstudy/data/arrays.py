"""A `.npz` file of one's own: images and labels as numpy's arrays, named as here or as Keras names them."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilotstudy.data.decoding import scaled
from pilotstudy.data.labels import Given, classify
from pilotstudy.data.raw import Labelled, Raw, alike, reason, resized
from pilotstudy.errors import DataError

ALIASES = {"train_images": "x_train", "train_labels": "y_train", "test_images": "x_test", "test_labels": "y_test"}
COLOURS = (1, 3, 4)  # how many channels an image may have; the fourth, how opaque it is, is left out
BLOCK = 1024  # images that are converted at once: their floats take eight times the room


def read_arrays(path: Path, image_size: int | None) -> Raw:
    """The images and labels of a `.npz` file; `classes` may name the classes."""
    given = load_arrays(path)
    images, labels = {}, {}
    for split in "train", "test":
        images[split] = as_images(path, f"{split}_images", given[f"{split}_images"])
        labels[split] = as_labels(path, f"{split}_labels", given[f"{split}_labels"])
        if len(images[split]) != len(labels[split]):
            raise DataError(
                f"{path}: {split} has {len(images[split]):,} images and {len(labels[split]):,} labels; "
                "there must be one for each"
            )
    made = classify(path, labels["train"], labels["test"], as_names(path, given.get("classes")))
    raw = Raw(Labelled(images["train"], made.train), Labelled(images["test"], made.test), made.classes)
    return alike(path, resized(raw, image_size))


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays by our names. Nothing in the file is run: Python objects are refused."""
    try:
        with open(path, "rb") as opened:
            if not zipfile.is_zipfile(opened):  # which numpy would take for Python objects
                raise DataError(f"{path} is not a whole .npz file: write it again, with numpy.savez")
        with np.load(path, allow_pickle=False) as file:
            names = {ours: ours if ours in file else keras for ours, keras in ALIASES.items()}
            lacking = [f"{ours} (or {ALIASES[ours]})" for ours, name in names.items() if name not in file]
            if lacking:
                raise DataError(f"{path} lacks {', '.join(lacking)}; it has {', '.join(file) or 'nothing'}")
            names |= {"classes": "classes"} if "classes" in file else {}
            return {ours: np.asarray(file[name]) for ours, name in names.items()}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        if "allow_pickle" in str(error):
            raise DataError(
                f"{path} holds Python objects, which are not read: save numbers, and text with dtype=str"
            ) from error
        raise DataError(f"{path} is not a whole .npz file ({reason(error)}): write it again") from error


def as_images(path: Path, name: str, given: NDArray[Any]) -> NDArray[np.uint8]:
    """Images [n, C, H, W] of 8 bits. A last axis of 1, 3 or 4 is the colours', else the second one is."""
    if given.ndim == 3:
        given = given[:, None]
    elif given.ndim == 4 and given.shape[3] in COLOURS:
        given = given.transpose(0, 3, 1, 2)
    elif given.ndim != 4 or given.shape[1] not in COLOURS:
        shape = "×".join(map(str, given.shape)) or "one value"
        raise DataError(f"{path}: {name} is {shape}; images are n×H×W, n×H×W×C or n×C×H×W, with 1, 3 or 4 colours")
    if given.shape[1] == 4:
        given = given[:, :3]
    if 0 in given.shape[1:]:
        raise DataError(f"{path}: {name} has images without pixels")
    made = np.empty(given.shape, np.uint8)
    for start in range(0, len(given), BLOCK):
        block = slice(start, start + BLOCK)
        made[block] = eight_bits(path, name, given[block])
    return made


def eight_bits(path: Path, name: str, given: NDArray[Any]) -> NDArray[np.uint8]:
    """Values of 0 to 255. The kind of the array decides how they are scaled, not how large they happen to be."""
    if given.dtype == np.uint8:
        return given
    if given.dtype == bool:
        return given.astype(np.uint8) * np.uint8(255)
    if given.dtype.kind == "u" and given.dtype.itemsize == 2:
        return scaled(given)
    if given.dtype.kind != "f":
        raise DataError(f"{path}: {name} is of the kind {given.dtype}; save it as uint8, uint16, or floats from 0 to 1")
    if not ((given >= 0) & (given <= 1)).all():  # which what is not a number does not pass either
        raise DataError(f"{path}: {name} has floats outside 0 to 1; scale them to that range, or save uint8")
    return np.rint(given.astype(np.float64) * 255).astype(np.uint8)


def as_labels(path: Path, name: str, given: NDArray[Any]) -> Given:
    """Labels [n], of which Keras makes [n, 1]."""
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if given.ndim != 1:
        shape = "×".join(map(str, given.shape)) or "one value"
        raise DataError(f"{path}: {name} is {shape}; it needs one label for each image, not one column for each class")
    return given


def as_names(path: Path, given: NDArray[Any] | None) -> list[str]:
    if given is None:
        return []
    names = [str(name) for name in given.tolist()] if given.ndim == 1 else []
    if not names or len(set(names)) < len(names):
        raise DataError(f"{path}: classes must be a list of names, each there once")
    return names
