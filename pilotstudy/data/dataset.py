"""Data sets as uint8 arrays on disk, prepared once and memory-mapped afterwards."""

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pilotstudy.console import message
from pilotstudy.data import sources
from pilotstudy.data.hub import PREFIX, HubName, fetch, hub_name
from pilotstudy.data.raw import Arrays, Raw, resized
from pilotstudy.errors import DataError, InputError, nearest
from pilotstudy.storage import cache_folder, check_format, new_folder, storing, write


def cache() -> Path:
    """Where prepared data lie."""
    return cache_folder() / "data"


class DataFiles:
    """The files of one prepared data set's folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.meta = folder / "meta.json"

    def array(self, name: str) -> Path:
        return self.folder / f"{name}.npy"


ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")
EMBEDDED = "fashion"
NAMES = (EMBEDDED, *sources.DOWNLOADS)
FORMAT = 1  # of the files in the cache
DARK = 64  # a quarter of the range
READING = 2  # of one's own files; what an older version made of them is not used (16 bits were cut, labels rounded)


@dataclass(frozen=True)
class TestSet:
    """Images [n, C, H, W] that a study is tested on beside its own. `rows`: which these are of where they come from.

    `kind`: what a network should still know (`shift`), or should know that it does not (`ood`, without labels).
    `paired`: whether an image is a version of the study's own test image of the same row. `family`, `strength`: of a
    corruption.
    """

    __test__ = False  # for pytest: not a class of tests

    name: str
    kind: Literal["shift", "ood"]
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]  # −1 where they are none of the study's
    rows: NDArray[np.int64]
    fingerprint: str
    paired: bool = False
    family: str = ""
    strength: int = 0
    soft_labels: NDArray[np.float64] | None = None  # [n, K], what people said


@dataclass(frozen=True)
class DataSet:
    """Images [n, C, H, W] uint8 and labels [n] int64, memory-mapped; `fingerprint` is a SHA-256 over all of it.

    `tests`: further test sets, which are no part of it.
    """

    name: str
    classes: tuple[str, ...]
    fingerprint: str
    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.int64]
    tests: tuple[TestSet, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int]:
        channels, height, width = self.train_images.shape[1:]
        return channels, height, width


@dataclass(frozen=True)
class Source:
    """Where a data set comes from: a folder or file of one's own, the hub, or by its name. `key` changes with it."""

    name: str
    folder: Path | None
    key: str
    hub: HubName | None = None

    @property
    def files(self) -> DataFiles:
        return DataFiles(cache() / f"{self.name}-{self.key}")


def find(name: str, data_dir: Path | None = None, image_size: int | None = None) -> Source:
    """A known name, `hf:owner/name`, or a folder or `.npz` file of one's own: a path, or a name inside `data_dir`."""
    key: dict[str, object] = {"version": FORMAT, "name": name, "image_size": image_size}
    hub = hub_name(name)
    folder = None if hub or name == EMBEDDED else find_own(name, data_dir)
    if folder is not None:
        files = [path for split in sources.layout(folder).values() for path in split]
        key["files"] = [[str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns] for path in files]
        key["reading"] = READING
        if name not in NAMES:
            key["name"] = folder.name  # however the path to it was written
    digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]
    return Source(str(hub).replace(":", "-").replace("/", "-") if hub else Path(name).name, folder, digest, hub)


def find_own(name: str, data_dir: Path | None) -> Path | None:
    """The folder or file that holds the data, or None for a known name that is to be downloaded."""
    known = name in NAMES
    candidates = [data_dir / name] if data_dir else []
    if not known:
        candidates.append(Path(name))
    elif data_dir:
        candidates.append(data_dir)
    folder = next((c for c in candidates if sources.layout(c)), None)
    if folder is None and not known:
        existing = next((c for c in candidates if c.is_dir()), None)
        if existing:
            raise DataError(sources.lacking(existing))
        if name.lower().endswith(".npz"):
            raise InputError(f"there is no file {' or '.join(map(str, candidates))}: give the path of your .npz file")
        raise InputError(
            f"unknown data set {name!r}: {nearest(name, NAMES)} "
            f"Or give a folder or .npz file of your own, or {PREFIX}owner/name of the Hugging Face hub."
        )
    if folder is None and data_dir:
        raise DataError(
            f"{data_dir} holds no {name}: expected {data_dir / name} with train-*.parquet and test-*.parquet, or "
            "train/CLASS/*.png and test/CLASS/*.png; leave --data-dir and PILOTSTUDY_DATA out to download it"
        )
    return folder


def load_data(name: str, data_dir: Path | None = None, image_size: int | None = None) -> DataSet:
    """The data set, prepared if it is not yet, or if what is in the cache is damaged."""
    source = find(name, data_dir, image_size)
    return opened(source) or prepare(source, image_size)


def prepare(source: Source, image_size: int | None = None) -> DataSet:
    """Reads a data set where it comes from, and puts it into the cache."""
    files = source.files
    with new_folder(files.folder) as beside:
        raw = read(source, beside / "download", image_size)
        tell_of_darkness(source, raw.train.images)
        new = DataFiles(beside)
        with storing(files.folder):
            for name, array in raw.arrays.items():
                write(new.array(name), partial(np.save, arr=array))
            digest = fingerprint(raw.arrays, raw.classes)
            meta = {"format": FORMAT, "name": source.name, "origin": origin(source), "classes": raw.classes}
            meta["fingerprint"] = digest
            write(new.meta, json.dumps(meta))
            shutil.rmtree(beside / "download", ignore_errors=True)
    dataset = opened(source)
    if dataset is None:
        raise DataError(f"{files.folder} cannot be read back: the disk may be failing")
    return dataset


def read(source: Source, download: Path, image_size: int | None) -> Raw:
    """A data set from where it comes from; what torchvision downloads goes into the folder `download`."""
    if source.hub:
        return sources.read_folder(fetch(source.hub, sources.layout), image_size, str(source.hub))
    if source.folder is not None:
        return sources.read_own(source.folder, image_size)
    if source.name == EMBEDDED:
        return resized(sources.embedded(), image_size)
    return resized(sources.download(source.name, download), image_size)


def tell_of_darkness(source: Source, images: NDArray[np.uint8]) -> None:
    """Says where most of the 256 values are not used, as when 12 bits lie in files of 16: a file's depth scales it."""
    if (most := int(images.max())) < DARK:
        message(
            f"{source.folder or source.name}: no training image has a pixel above {most} of 255; if the files use a "
            "part of their range only, such as 12 of 16 bits or 0 and 1, stretch them to the whole of it"
        )


def opened(source: Source) -> DataSet | None:
    """What is in the cache, or None if it is missing, half-written or not what its fingerprint says."""
    return open_files(source.files, source.name)


def open_files(files: DataFiles, name: str) -> DataSet | None:
    """The same, of a folder of the cache."""
    try:
        meta = json.loads(files.meta.read_text())
        check_format(files.meta, meta, FORMAT)
        # Copy on write: the arrays can be handed to torch, and nothing reaches the file.
        arrays = {array: np.load(files.array(array), mmap_mode="c") for array in ARRAYS}
        if fingerprint(arrays, meta["classes"]) != meta["fingerprint"]:
            return None
        return DataSet(name, tuple(meta["classes"]), meta["fingerprint"], **arrays)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def fingerprint(arrays: Arrays, classes: Sequence[str]) -> str:
    """A SHA-256 over every pixel and label, and the names of the classes."""
    digest = hashlib.sha256(json.dumps(list(classes)).encode())
    for name in ARRAYS:
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def summary(data: DataSet) -> dict[str, str | int]:
    """A data set in one line."""
    return {
        "name": data.name,
        "train": len(data.train_labels),
        "test": len(data.test_labels),
        "classes": len(data.classes),
        "shape": "×".join(map(str, data.shape)),
        "fingerprint": data.fingerprint,
    }


def origin(source: Source) -> str:
    """Where a data set comes from, in words."""
    if source.name == EMBEDDED and source.folder is None:
        return "embedded"
    return str(source.folder.resolve() if source.folder else source.hub or "download")


def data_state(name: str, data_dir: Path | None, *, verify: bool = False) -> dict[str, str | int | None]:
    """Where a data set would come from, and whether it is prepared; with `verify`, whether it is whole."""
    try:
        source = find(name, data_dir)
    except DataError:  # not in this folder
        source = find(name)
    row: dict[str, str | int | None] = {"name": name, "from": origin(source), "state": "not prepared"}
    row |= dict.fromkeys(("train", "test", "fingerprint"))
    if not source.files.folder.exists():
        return row
    if not verify:
        return row | {"state": "prepared"}
    data = opened(source)
    if data is None:
        return row | {"state": "damaged"}
    line = summary(data)
    return row | {"state": "whole"} | {key: line[key] for key in ("train", "test", "fingerprint")}
