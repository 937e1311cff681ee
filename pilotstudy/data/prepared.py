"""Data sets as uint8 arrays on disk, prepared once and memory-mapped afterwards."""

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilotstudy.data import sources
from pilotstudy.errors import DataError, InputError, nearest
from pilotstudy.files import DataFiles, cache, new_folder, storing, write

ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")
EMBEDDED = "fashion"
NAMES = (EMBEDDED, *sources.DOWNLOADS)
VERSION = 1


@dataclass(frozen=True)
class DataSet:
    """Images [n, C, H, W] uint8 and labels [n] int64, memory-mapped; `fingerprint` is a SHA-256 over all of it."""

    name: str
    classes: tuple[str, ...]
    fingerprint: str
    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int, int]:
        channels, height, width = self.train_images.shape[1:]
        return channels, height, width


@dataclass(frozen=True)
class Source:
    """Where a data set comes from. `key` changes when its files do."""

    name: str
    folder: Path | None
    key: str

    @property
    def files(self) -> DataFiles:
        return DataFiles(cache() / f"{self.name}-{self.key}")


def find(name: str, data_dir: Path | None = None, image_size: int | None = None) -> Source:
    """A known name, or a folder of one's own: a path, or a name inside `data_dir`."""
    key: dict[str, Any] = {"version": VERSION, "name": name, "image_size": image_size}
    folder = None
    if name != EMBEDDED:
        candidates = [data_dir / name, data_dir] if data_dir else []
        if name not in NAMES:
            candidates = [data_dir / name] if data_dir else []
            candidates.append(Path(name))
        folder = next((c for c in candidates if sources.layout(c)), None)
        if folder is None and name not in NAMES:
            existing = next((c for c in candidates if c.is_dir()), None)
            if existing:
                sources.read_folder(existing, image_size)  # says what the folder lacks
            raise InputError(f"unknown data set {name!r}: {nearest(name, NAMES)} Or give a folder of your own.")
        if folder is None and data_dir:
            raise DataError(
                f"{data_dir} holds no {name}: expected {data_dir / name} with train-*.parquet and test-*.parquet, or "
                "train/CLASS/*.png and test/CLASS/*.png; leave --data-dir and PILOTSTUDY_DATA out to download it"
            )
        if folder is not None:
            files = [path for split in sources.layout(folder).values() for path in split]
            key["files"] = [[str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns] for path in files]
    digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]
    return Source(Path(name).name, folder, digest)


def load(name: str, data_dir: Path | None = None, image_size: int | None = None) -> DataSet:
    """The data set, prepared if it is not yet, or if what is in the cache is damaged."""
    source = find(name, data_dir, image_size)
    return opened(source) or prepare(source, image_size)


def prepare(source: Source, image_size: int | None = None) -> DataSet:
    files = source.files
    with new_folder(files.folder) as beside:
        if source.folder is not None:
            raw = sources.read_folder(source.folder, image_size)
        elif source.name == EMBEDDED:
            raw = sources.embedded()
        else:
            raw = sources.download(source.name, beside / "download")
        new = DataFiles(beside)
        with storing(files.folder):
            for name in ARRAYS:
                write(new.array(name), lambda file, array=raw.arrays[name]: np.save(file, array))  # type: ignore[misc]
            meta = {"name": source.name, "classes": raw.classes, "fingerprint": fingerprint(raw.arrays, raw.classes)}
            write(new.meta, json.dumps(meta))
            shutil.rmtree(beside / "download", ignore_errors=True)
    dataset = opened(source)
    if dataset is None:
        raise DataError(f"{files.folder} cannot be read back: the disk may be failing")
    return dataset


def opened(source: Source) -> DataSet | None:
    """What is in the cache, or None if it is missing, half-written or not what its fingerprint says."""
    files = source.files
    try:
        meta = json.loads(files.meta.read_text())
        # Copy on write: the arrays can be handed to torch, and nothing reaches the file.
        arrays = {name: np.load(files.array(name), mmap_mode="c") for name in ARRAYS}
        if fingerprint(arrays, meta["classes"]) != meta["fingerprint"]:
            return None
        return DataSet(source.name, tuple(meta["classes"]), meta["fingerprint"], **arrays)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def fingerprint(arrays: dict[str, NDArray[Any]], classes: Any) -> str:
    digest = hashlib.sha256(json.dumps(list(classes)).encode())
    for name in ARRAYS:
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def summary(data: DataSet) -> dict[str, Any]:
    return {
        "name": data.name,
        "train": len(data.train_labels),
        "test": len(data.test_labels),
        "classes": len(data.classes),
        "shape": "×".join(map(str, data.shape)),
        "fingerprint": data.fingerprint,
    }


def describe(name: str, data_dir: Path | None, *, verify: bool = False) -> dict[str, Any]:
    """Where a data set would come from, and whether it is prepared; with `verify`, whether it is whole."""
    try:
        source = find(name, data_dir)
    except DataError:  # not in this folder
        source = find(name)
    origin = "embedded" if name == EMBEDDED else str(source.folder or "download")
    row = {"name": name, "from": origin, "state": "not prepared", "train": None, "test": None, "fingerprint": None}
    if not source.files.folder.exists():
        return row
    if not verify:
        return row | {"state": "prepared"}
    data = opened(source)
    if data is None:
        return row | {"state": "damaged"}
    known = summary(data)
    return row | {"state": "whole"} | {key: known[key] for key in ("train", "test", "fingerprint")}
