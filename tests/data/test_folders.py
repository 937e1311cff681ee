"""Splits, the key of a prepared data set, and what a folder may hold."""

import io
import json
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from pilotstudy.data import dataset
from pilotstudy.data.splits import split
from pilotstudy.errors import DataError, InputError


def png(value: int, size: int = 4, *, grey: bool = False) -> bytes:
    buffer = io.BytesIO()
    shape = (size, size) if grey else (size, size, 3)
    Image.fromarray(np.full(shape, value, np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def images(folder: Path, splits: dict[str, dict[str, list[bytes]]]) -> Path:
    """split → class → pictures"""
    for name, classes in splits.items():
        for kind, pictures in classes.items():
            (folder / name / kind).mkdir(parents=True, exist_ok=True)
            for n, picture in enumerate(pictures):
                (folder / name / kind / f"{n}.png").write_bytes(picture)
    return folder


def parquet(path: Path, values: list[int], labels: list[int], names: list[str] | None = None) -> None:
    table = pa.table({"image": [{"bytes": png(value)} for value in values], "label": labels})
    if names:
        features = {"info": {"features": {"label": {"names": names}}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(features)})
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table, path)


def test_a_subset_has_every_class_alike_however_many_images_there_are_of_it():
    labels = np.repeat([0, 1, 2], [100, 40, 20])
    train, validation = split(labels, 16, 30)
    assert np.bincount(labels[train]).tolist() == [10, 10, 10]
    assert np.bincount(labels[validation]).tolist() == [10, 4, 2]


def test_sizes_that_cannot_be_cut_are_refused():
    labels = np.repeat([0, 1, 2], 10)
    for size in 1, 2:  # a class would have no image
        with pytest.raises(InputError, match="choose 3 to 27"):
            split(labels, 3, size)
    assert len(split(labels, 3, 3)[0]) == 3
    assert len(split(labels, 3, 27)[0]) == 27
    with pytest.raises(InputError, match="choose 3 to 27"):
        split(labels, 3, 28)
    for validation in 0, 30, 31:  # nothing to validate, or nothing to train
        with pytest.raises(InputError, match=r"must be between 1 and 29"):
            split(labels, validation, None)
    assert len(split(labels, 29, None)[0]) == 1


def test_a_larger_subset_contains_the_smaller_ones():
    labels = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], 50))
    subsets = [set(split(labels, 30, size)[0]) for size in (6, 7, 30, 60, 120)]
    assert all(one <= other for one, other in pairwise(subsets))


def test_each_image_size_is_a_data_set_of_its_own(tmp_path):
    folder = str(images(tmp_path / "own", {"train": {"a": [png(1)], "b": [png(1)]}, "test": {"a": [png(2)]}}))
    sizes = {size: dataset.load_data(folder, image_size=size) for size in (None, 8, 2)}
    assert {size: data.shape[1] for size, data in sizes.items()} == {None: 4, 8: 8, 2: 2}
    assert dataset.load_data(folder).shape[1] == 4


def test_a_source_that_changed_without_growing_is_prepared_anew(tmp_path):
    folder = images(tmp_path / "own", {"train": {"a": [png(10)], "b": [png(1)]}, "test": {"a": [png(2)]}})
    path = folder / "train/a/0.png"
    before = path.stat()
    assert dataset.load_data(str(folder)).train_images.max() == 10
    path.write_bytes(png(20))
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))
    assert dataset.load_data(str(folder)).train_images.max() == 20


def test_the_fingerprint_tells_arrays_of_the_same_bytes_apart():
    train = np.arange(16, dtype=np.uint8)
    rest = {"train_labels": np.zeros(1), "test_images": np.zeros(1), "test_labels": np.zeros(1)}
    made = [
        dataset.fingerprint({"train_images": array, **rest}, ["a"])
        for array in (train.reshape(1, 1, 4, 4), train.reshape(1, 1, 2, 8), train.reshape(4, 1, 2, 2))
    ]
    assert len(set(made)) == 3


def test_the_test_split_is_the_one_that_is_called_so(tmp_path):
    """A folder that also has one for validation; where there is no test split, that one is used."""
    held_out = {"val": {"a": [png(3)]}, "validation": {"a": [png(4)]}, "test": {"a": [png(2)]}}
    folder = images(tmp_path / "own", {"train": {"a": [png(1)], "b": [png(1)]}, **held_out})
    assert dataset.load_data(str(folder)).test_images.max() == 2
    for name, value in ("test", 4), ("validation", 3):
        (folder / name / "a" / "0.png").unlink()
        assert dataset.load_data(str(folder)).test_images.max() == value


def test_several_files_are_read_in_their_order(tmp_path):
    folder = tmp_path / "own"
    parquet(folder / "train-00001-of-00002.parquet", [30, 40, 50], [0, 1, 0], ["x", "y"])
    parquet(folder / "train-00000-of-00002.parquet", [10, 20], [1, 0], ["x", "y"])
    parquet(folder / "test-00000-of-00001.parquet", [60], [1], ["x", "y"])
    data = dataset.load_data(str(folder))
    assert data.train_images[:, 0, 0, 0].tolist() == [10, 20, 30, 40, 50]
    assert data.train_labels.tolist() == [1, 0, 0, 1, 0]
    assert data.classes == ("x", "y")


def test_faults_of_a_folder_are_told(tmp_path):
    both = {"cat": [png(1)], "dog": [png(1)]}
    unknown = images(tmp_path / "a", {"train": both, "test": {"cat": [png(1)], "eel": [png(1)]}})
    with pytest.raises(DataError, match="test has the class 'eel', which the training images do not have"):
        dataset.load_data(str(unknown))
    mixed = images(tmp_path / "b", {"train": both, "test": {"cat": [png(1, grey=True)]}})
    with pytest.raises(DataError, match="differ in colour, those of test are grey"):
        dataset.load_data(str(mixed))
    larger = images(tmp_path / "c", {"train": both, "test": {"cat": [png(1, size=5)]}})
    with pytest.raises(DataError, match=r"differ in size; set data.image_size"):
        dataset.load_data(str(larger))


def test_which_split_lacks_is_told(tmp_path):
    untested = images(tmp_path / "a", {"train": {"cat": [png(1)], "dog": [png(1)]}})
    with pytest.raises(DataError, match=r"none to test: add test/CLASS/\*.png"):
        dataset.load_data(str(untested))
    parquet(tmp_path / "b" / "test-0.parquet", [1], [0])
    with pytest.raises(DataError, match=r"none to train: add train-\*.parquet"):
        dataset.load_data(str(tmp_path / "b"))


def test_a_class_whose_images_lie_deeper_is_not_left_out(tmp_path):
    folder = images(tmp_path / "own", {"train": {"cat": [png(1)], "eel": [png(1)]}, "test": {"cat": [png(1)]}})
    images(folder, {"train": {".thumbs/cat": [png(1)]}, "val": {"dog/beagle": [png(1)]}})  # of no use here
    assert dataset.load_data(str(folder)).classes == ("cat", "eel")
    images(folder, {"train": {"dog/beagle": [png(1)]}})
    with pytest.raises(DataError, match=r"train/dog holds no images itself, but .*beagle/0.png lies deeper"):
        dataset.prepare(dataset.find(str(folder)))
    everything = images(tmp_path / "all", {"train": {"cat/a": [png(1)]}, "test": {"cat/a": [png(1)]}})
    with pytest.raises(DataError, match=r"train/cat holds no images itself"):
        dataset.load_data(str(everything))
