"""Test sets beside a study's own test images: corrupted versions of them, or images from elsewhere.

They are brought to the size, the colours and the classes of the study's data, and kept with it: `DataSet.tests`.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pilotstudy.console import message
from pilotstudy.data import sources
from pilotstudy.data.arrays import as_images, as_labels
from pilotstudy.data.corruptions import CORRUPTIONS, STRENGTHS, corrupt
from pilotstudy.data.dataset import NAMES, READING, DataFiles, DataSet, TestSet, cache, load_data
from pilotstudy.data.decoding import decode_all
from pilotstudy.data.hub import hub_name
from pilotstudy.data.labels import check_whole, is_text, quoted
from pilotstudy.data.parquet import parquet_classes, parquet_files
from pilotstudy.data.raw import Labelled, fitted, reason
from pilotstudy.data.splits import shares
from pilotstudy.errors import DataError, InputError, nearest
from pilotstudy.storage import new_folder, storing, write

CORRUPTED = "corrupted:"
OWN = "test"  # the study's own test images
SUBSET_SEED = 22
FEW = 30  # images: the bootstrap of fewer sees too little of how they vary
FORMAT = 1  # of the files in the cache, and of how they are made


class Asked(Protocol):
    """What a study says of a test set: see `study.spec.ExtraTest`."""

    @property
    def name(self) -> str: ...
    @property
    def data(self) -> str: ...
    @property
    def kind(self) -> Literal["shift", "ood"]: ...
    @property
    def size(self) -> int | None: ...
    @property
    def soft_labels(self) -> str | None: ...


class Part(NamedTuple):
    """One test set: its name, where its images come from, and, of those with strengths, which and of what."""

    name: str
    data: str
    family: str = ""
    strength: int = 0


def parts_of(name: str, data: str, kind: str = "shift") -> list[Part]:
    """The test sets that an entry of a study stands for: one, or one for each corruption and strength."""
    if data.startswith(CORRUPTED):
        parts = _corruptions(data)
    elif data.lower().endswith(".npy"):
        stem = Path(data).stem
        if kind == "ood" or stem.endswith("_data"):
            parts = [Part(stem.removesuffix("_data"), data)]
        else:
            parts = [Part(f"{stem}-{k}", data, stem, k) for k in STRENGTHS]
    else:
        hub = hub_name(data)
        word, colon, rest = data.partition(":")
        if colon and not hub and get_close_matches(word.lower(), [CORRUPTED[:-1]]):
            raise InputError(f"did you mean '{CORRUPTED}{rest}'?")
        parts = [Part(re.sub(r"\.npz$", "", Path(str(hub).removeprefix("hf:") if hub else data).name), data)]
    if not name:
        return parts
    if len(parts) == 1:
        return [parts[0]._replace(name=name)]
    return [part._replace(name=f"{name}-{part.name}", family=f"{name}-{part.family}") for part in parts]


def _corruptions(data: str) -> list[Part]:
    wanted = data.removeprefix(CORRUPTED)
    every = [Part(f"{name}-{k}", f"{CORRUPTED}{name}-{k}", name, k) for name in CORRUPTIONS for k in STRENGTHS]
    chosen = [part for part in every if wanted in ("all", f"all-{part.strength}", part.family, part.name)]
    if not chosen:
        known = ["all", *(f"all-{k}" for k in STRENGTHS), *CORRUPTIONS, *(part.name for part in every)]
        hint = nearest(wanted, known)
        few = f"known are all, {', '.join(CORRUPTIONS)}, and each with a strength of 1 to 5, such as all-3 or noise-3."
        raise InputError(f"unknown corruption {wanted!r}: {hint if 'mean' in hint else few}")
    return chosen


def load_tests(asked: Iterable[Asked], data: DataSet, data_dir: Path | None, image_size: int | None) -> list[TestSet]:
    """All test sets of a study, in the order of its file."""
    return [
        load_test(each, part, data, data_dir, image_size)
        for each in asked
        for part in parts_of(each.name, each.data, each.kind)
    ]


def load_test(asked: Asked, part: Part, data: DataSet, data_dir: Path | None, image_size: int | None) -> TestSet:
    where = f"tests: {part.name}"
    if part.data.startswith(CORRUPTED) or part.data == OWN:
        source = Labelled(data.test_images, data.test_labels)
        paired = True
    else:
        source = _from_elsewhere(where, asked.kind, part, data, data_dir, image_size)
        # Files of CIFAR-10-C have the study's own images, in their order.
        paired = bool(part.strength) and np.array_equal(source.labels, data.test_labels)
    rows = subset(where, source.labels, asked.size)
    if len(rows) < FEW:
        number = f"{len(rows)} image{'s' * (len(rows) > 1)}"
        message(f"{where}: {number}: too few for intervals, which are too narrow then; use {FEW} or more")
    soft = None if asked.soft_labels is None else _soft_labels(where, asked.soft_labels, data_dir, data, source)
    if part.data.startswith(CORRUPTED):
        images = _corrupted(part, data, rows)
        if np.array_equal(images, source.images[rows]):
            size = "×".join(map(str, data.shape[1:]))
            message(f"{where}: it changes nothing in these images of {size}: leave it out, or use larger ones")
    else:
        images = source.images if len(rows) == len(source.images) else source.images[rows]
    # Which class an image would have elsewhere says nothing here.
    labels = source.labels[rows] if asked.kind == "shift" else np.full(len(rows), -1, np.int64)
    return TestSet(
        name=part.name,
        kind=asked.kind,
        images=images,
        labels=labels,
        rows=rows,
        fingerprint=_fingerprint([asked.kind], images, labels, rows, *([] if soft is None else [soft[rows]])),
        paired=paired,
        family=part.family,
        strength=part.strength,
        soft_labels=None if soft is None else soft[rows],
    )


def subset(where: str, labels: NDArray[np.int64], size: int | None) -> NDArray[np.int64]:
    """Row numbers: all, or so many, always the same, with each class's share to within one image."""
    if size is None:
        return np.arange(len(labels))
    if size > len(labels):
        raise InputError(f"{where}: size = {size:,}, but there are {len(labels):,} images")
    order = np.random.default_rng(SUBSET_SEED).permutation(len(labels))
    by_class = [order[labels[order] == k] for k in np.unique(labels)]
    taken = zip(by_class, shares([len(rows) for rows in by_class], size), strict=True)
    return np.sort(np.concatenate([rows[:n] for rows, n in taken]))


def _corrupted(part: Part, data: DataSet, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    key = [data.fingerprint, part.family, part.strength, _fingerprint([], rows)]
    name = part.data.removeprefix(CORRUPTED)
    corruption, _, _ = name.rpartition("-")

    def make() -> Labelled:
        return Labelled(corrupt(data.test_images, rows, corruption, part.strength), data.test_labels[rows])

    return kept(name, key, make).images


# Images from elsewhere


class _Read(NamedTuple):
    """Images with the names of their classes, where they have names."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    classes: Sequence[str] | None


def _from_elsewhere(
    where: str, kind: str, part: Part, data: DataSet, data_dir: Path | None, image_size: int | None
) -> Labelled:
    read = _read(where, kind, part, data, data_dir, image_size)
    if not len(read.labels):
        raise DataError(f"{where}: it holds no images")
    if kind == "ood":
        _check_unseen(where, read, data)
        labels = read.labels
    else:
        labels = _own_classes(where, read, data.classes)
    return Labelled(fitted(read.images, data.shape), labels)


def _check_unseen(where: str, read: _Read, data: DataSet) -> None:
    """Refuses the study's own images as such that no network has seen, and tells of classes that the study has, too."""
    if any(np.array_equal(read.images, own) for own in (data.test_images, data.train_images)):
        raise InputError(f"{where}: kind = 'ood', but these are the study's own images: give others, or kind = 'shift'")
    named = [read.classes[k] for k in np.unique(read.labels)] if read.classes is not None else []
    both = [name for name in named if name in data.classes and not name.isdigit()]  # numbers are no names
    if both:
        message(
            f"{where}: kind = 'ood', but its class{'es' * (several := len(both) > 1)} {quoted(both)} "
            f"{'are' if several else 'is'} the study's, too: leave such images out, or use kind = 'shift'"
        )


def _read(where: str, kind: str, part: Part, data: DataSet, data_dir: Path | None, image_size: int | None) -> _Read:
    if part.data.lower().endswith(".npy"):
        return _read_npy(where, kind, part, data_dir)
    candidates = [data_dir / part.data] if data_dir else []
    if part.data not in NAMES:
        candidates.append(Path(part.data))
    if hub_name(part.data) is None:
        for folder in candidates:
            if folder.is_dir() and (files := _test_files(folder)):
                _, height, width = data.shape
                return _read_folder(folder, files, height if height == width else image_size)
    try:
        loaded = load_data(part.data, data_dir, image_size)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
    return _Read(loaded.test_images, loaded.test_labels, loaded.classes)


def _test_files(folder: Path) -> list[Path]:
    """The files of the split that is held out, or of the only one."""
    for splits in parquet_files(folder), sources.image_files(folder):
        for split in (*sources.HELD_OUT, "train"):
            if split in splits:
                return splits[split]
    return []


def _read_folder(folder: Path, files: Sequence[Path], image_size: int | None) -> _Read:
    classes: list[str] | None = None
    if files[0].suffix == ".parquet":
        classes = list(parquet_classes(files[0])) or None
        split = sources.parquet_split(folder.name, files)
    else:
        sources.check_depth(files[0].parent.parent)
        split = sources.image_split(files)
    given = split.labels
    if is_text(given):
        classes = classes or sorted(set(given.tolist()))
        unknown = sorted(set(given.tolist()) - set(classes))
        if unknown:
            raise DataError(f"{folder}: {quoted(unknown)} is not among the classes that its files name")
        labels = np.array([classes.index(name) for name in given.tolist()], np.int64)
    else:
        check_whole(folder, "test", given, len(classes or ()))
        labels = given.astype(np.int64)
        classes = classes or list(map(str, range(int(labels.max(initial=0)) + 1)))
    key = ["folder", READING, image_size, [[str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns] for p in files]]
    read = kept(
        folder.name,
        key,
        lambda: Labelled(decode_all(split.encoded, split.names, image_size, f"{folder.name} test"), labels),
    )
    return _Read(read.images, read.labels, classes)


def _read_npy(where: str, kind: str, part: Part, data_dir: Path | None) -> _Read:
    """A file of CIFAR-10-C (five strengths, one after another) or of CIFAR-10.1, with its labels beside it.

    What is out of distribution needs none.
    """
    path = _path(where, part.data, data_dir)
    given = np.atleast_1d(_array(path))
    labels = np.zeros(len(given), np.int64) if kind == "ood" else _labels_beside(path, part, len(given))
    each, rest = divmod(len(given), len(STRENGTHS)) if part.strength else (len(given), 0)
    if rest:
        raise DataError(f"{path}: {len(given):,} images are not five strengths of the same number of images")
    if kind == "shift" and part.strength and (labels.reshape(len(STRENGTHS), each) != labels[:each]).any():
        raise DataError(
            f"{path}: its labels are not those of the same {each:,} images five times: a strength seems to be missing"
        )
    first = max(part.strength - 1, 0) * each
    rows = slice(first, first + each)
    key = ["npy", READING, str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns, first, each]
    read = kept(part.name, key, lambda: Labelled(as_images(path, "it", given[rows]), labels[rows]))
    return _Read(read.images, labels[rows], None)


def _labels_beside(path: Path, part: Part, images: int) -> NDArray[np.int64]:
    beside = path.with_name("labels.npy" if part.strength else f"{path.stem.removesuffix('_data')}_labels.npy")
    if not beside.is_file():
        raise DataError(f"{path}: there is no file {beside} with its labels; only with kind = 'ood' it needs none")
    labels = as_labels(beside, "it", _array(beside))
    if len(labels) != images:
        raise DataError(f"{path}: {images:,} images need as many labels in {beside.name}, not {len(labels):,}")
    check_whole(beside, "test", labels, 0)
    return labels.astype(np.int64)


def _path(where: str, name: str, data_dir: Path | None) -> Path:
    candidates = [*([data_dir / name] if data_dir else []), Path(name)]
    path = next((path for path in candidates if path.is_file()), None)
    if path is None:
        raise InputError(f"{where}: there is no file {' or '.join(map(str, candidates))}")
    return path


def _array(path: Path) -> NDArray[np.generic]:
    """Memory-mapped: of a file with five strengths, each is read by itself."""
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        why = "it is damaged, or holds Python objects" if "pickle" in str(error) else reason(error)
        raise DataError(f"{path} cannot be read as a .npy file of numbers ({why})") from error


def _own_classes(where: str, read: _Read, classes: Sequence[str]) -> NDArray[np.int64]:
    """The labels as the study's numbers of the same classes; arrays, which have no names, as they are."""
    if read.classes is None:
        if len(read.labels) and not 0 <= read.labels.min() <= read.labels.max() < len(classes):
            raise DataError(f"{where}: its labels are not 0 to {len(classes) - 1}, as the study's are")
        return read.labels
    numbers = {name: number for number, name in enumerate(classes)}
    unknown = [read.classes[k] for k in np.unique(read.labels) if read.classes[k] not in numbers]
    if unknown:
        raise DataError(
            f"{where}: its class{'es' * (several := len(unknown) > 1)} {quoted(unknown)} {'are' if several else 'is'} "
            f"none of the study's ({quoted(classes)}): rename them, or set kind = 'ood'"
        )
    return np.array([numbers.get(name, -1) for name in read.classes], np.int64)[read.labels]


def _soft_labels(where: str, name: str, data_dir: Path | None, data: DataSet, source: Labelled) -> NDArray[np.float64]:
    """What people said of each image: probabilities [n, K] of the study's classes."""
    path = _path(f"{where}: soft_labels", name, data_dir)
    given = _array(path)
    expected = len(source.labels), len(data.classes)
    if given.shape != expected or given.dtype.kind not in "fiu":
        shapes = "×".join(map(str, given.shape)), "×".join(map(str, expected))
        what = f"{shapes[0]} of the kind {given.dtype}"
        raise DataError(f"{path}: soft labels are {what}; there must be {shapes[1]} numbers, images by classes")
    soft = given.astype(np.float64)
    if not ((soft >= 0).all() and np.allclose(soft.sum(1), 1, atol=1e-3)):
        raise DataError(f"{path}: soft labels are probabilities: none below 0, each row with the sum 1")
    return np.asarray(soft / soft.sum(1, keepdims=True))


# The cache


def kept(name: str, key: object, make: Callable[[], Labelled]) -> Labelled:
    """Images that are made once and memory-mapped afterwards; made again where the cache is damaged."""
    digest = hashlib.sha256(json.dumps([FORMAT, key]).encode()).hexdigest()[:12]
    files = DataFiles(cache() / f"tests-{name}-{digest}")
    opened = _opened(files)
    if opened is None:
        made = make()
        with new_folder(files.folder) as beside, storing(files.folder):
            new = DataFiles(beside)
            write(new.array("images"), partial(np.save, arr=made.images))
            write(new.array("labels"), partial(np.save, arr=made.labels))
            write(new.meta, json.dumps({"format": FORMAT, "fingerprint": _fingerprint([], made.images, made.labels)}))
        opened = _opened(files)
        if opened is None:
            raise DataError(f"{files.folder} cannot be read back: the disk may be failing")
    return opened


def _opened(files: DataFiles) -> Labelled | None:
    try:
        meta = json.loads(files.meta.read_text())
        images, labels = (np.load(files.array(name), mmap_mode="c") for name in ("images", "labels"))
        return Labelled(images, labels) if _fingerprint([], images, labels) == meta["fingerprint"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _fingerprint(words: Sequence[str], *arrays: NDArray[np.generic]) -> str:
    """A SHA-256 over words and arrays."""
    digest = hashlib.sha256(json.dumps(list(words)).encode())
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
