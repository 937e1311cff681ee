"""What may be a label, and which classes come of it."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotstudy.data import sources
from pilotstudy.data.labels import MOST, classify
from pilotstudy.errors import DataError
from tests.support.pictures import pictures, png

TEXT = st.text(min_size=1, max_size=3)


def folder(path, train, test):
    """Parquet files with these columns of labels."""
    path.mkdir()
    for split, labels in ("train", train), ("test", test):
        labels = pa.array(labels)
        images = pa.array([png(pictures(1)[0])] * len(labels), pa.binary())
        pq.write_table(pa.table({"image": images, "label": labels}), path / f"{split}-0.parquet")
    return path


def refused(match: str, train, test=(0, 1), names=()):
    with pytest.raises(DataError, match=match) as told:
        classify("own", np.array(train), np.array(test), names)
    assert "\n" not in str(told.value)


@given(st.lists(TEXT, min_size=2).filter(lambda names: len(set(names)) > 1), st.data())
def test_names_become_classes_and_back(train, data):
    test = data.draw(st.lists(st.sampled_from(train), min_size=1))
    made = classify("own", np.array(train, object), np.array(test, object))
    assert list(made.classes) == sorted(set(train))
    assert [made.classes[k] for k in made.train] == train
    assert [made.classes[k] for k in made.test] == test


@given(st.lists(st.integers(0, 50), min_size=2).filter(lambda labels: len(set(labels)) > 1))
def test_numbers_stay_as_they_are(train):
    for kind in np.uint8, np.int64, np.uint64, np.float32:
        made = classify("own", np.array(train, kind), np.array(train[:1], kind))
        assert made.train.tolist() == train
        assert made.train.dtype == np.int64
        assert made.classes == tuple(map(str, range(max(train) + 1)))


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ([0.5, 1.5], "train label 0.5 in row 0 is not a whole number"),
        ([0.0, np.nan], "label nan in row 1 is missing"),
        ([0, -1], "label -1 in row 1 is negative"),
        ([0, 10**9], "label 1000000000 in row 1 is larger than 99,999"),
        ([0, np.inf], "label inf in row 1 is larger"),
        ([0, MOST], "is larger than"),
        ([0, 2**63], "is larger than"),
        ([3, 3], "all training images are of the class '3'; a study needs at least two classes"),
        (["a", "a"], "train labels are text, test labels numbers"),
        (np.array(["2020-01-01"], "datetime64[D]"), "of the kind datetime64"),
    ],
)
def test_what_is_no_class_is_refused(train, message):
    refused(message, train)


def test_what_the_test_labels_may_be():
    refused("test has the class 2, which", [0, 1], [2])
    refused("test label 0.5", [0, 1], [0.5])
    refused("test holds no images", [0, 1], [])
    refused("test has the classes 'c', 'd', which the training images do not have", ["a", "b"], ["d", "a", "c"])
    refused("'c', 'd', 'e' and 1 more", ["a", "b"], list("fedc"))
    refused("row 1 of test has no label", ["a", "b"], ["a", ""])
    refused("label 2 in row 1 is larger than 1, the last that has a name", [0, 2], [0], ["x", "y"])
    refused("train has the class 'z', which the given classes do not have", ["x", "z"], ["x"], ["x", "y"])
    assert classify("own", np.array(["x", "y"]), np.array(["y"]), ["y", "x"]).train.tolist() == [1, 0]


def test_classes_that_no_training_image_has_are_kept_and_told(capsys):
    assert len(classify("own", np.array([0, 7]), np.array([0])).classes) == 8
    assert "own: no training image has the classes '1', '2', '3' and 3 more; networks" in capsys.readouterr().err
    classify("own", np.array([0, 2]), np.array([1, 1, 0]))
    assert "has the class '1', but 2 of the test images do" in capsys.readouterr().err
    classify("own", np.array([0, 1]), np.array([1]))
    assert not capsys.readouterr().err


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_text_in_parquet_files(tmp_path, kind):
    raw = sources.read_folder(folder(tmp_path / "own", pa.array(["b", "a", "b"], kind), pa.array(["a"], kind)), None)
    assert raw.classes == ("a", "b")
    assert (raw.train.labels.tolist(), raw.test.labels.tolist()) == ([1, 0, 1], [0])


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (pa.array([], pa.int64()), [0], "train holds no images"),
        (pa.array([], pa.null()), [0], "train holds no images"),
        ([0, 1], pa.array([], pa.int64()), "test holds no images"),
        ([0, 1, None], [0], r"train-0.parquet: row 2 has no label"),
        (["a", None], ["a"], r"row 1 has no label"),
        (pa.array([None, None], pa.null()), [0], r"row 0 has no label"),
        ([[0], [1]], [[0]], r"labels are of the kind list"),
        ([0, 10**9], [0], "is larger than"),
    ],
)
def test_parquet_files_that_cannot_be_used(tmp_path, train, test, message):
    with pytest.raises(DataError, match=message) as told:
        sources.read_folder(folder(tmp_path / "own", train, test), None)
    assert "\n" not in str(told.value)


def test_files_of_a_split_with_other_kinds_of_labels(tmp_path):
    path = folder(tmp_path / "own", [0, 1], [0])
    more = folder(tmp_path / "more", ["a", "b"], ["a"])
    (more / "train-0.parquet").rename(path / "train-1.parquet")
    with pytest.raises(DataError, match=r"train-1.parquet: labels are text in one file"):
        sources.read_folder(path, None)


def test_columns_that_cannot_be_used(tmp_path):
    path = folder(tmp_path / "own", [0, 1], [0])
    column, labels = pa.array([b"1", b"2"]), pa.array([0, 1])
    twice = pa.Table.from_arrays([column, labels, labels], ["image", "label", "label"])
    pq.write_table(twice, path / "train-0.parquet")
    with pytest.raises(DataError, match=r"train-0.parquet has the column label more than once: keep one"):
        sources.read_folder(path, None)
    pq.write_table(pa.table({"image": [{"path": "a.png"}] * 2, "label": labels}), path / "train-0.parquet")
    with pytest.raises(DataError, match="column image holds no bytes"):
        sources.read_folder(path, None)
    pq.write_table(pa.table({"image": pa.array([None, None], pa.binary()), "label": labels}), path / "train-0.parquet")
    with pytest.raises(DataError, match="own/train row 0 holds no image"):
        sources.read_folder(path, None)
