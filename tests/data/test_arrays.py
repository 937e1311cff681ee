"""Data sets as `.npz` files."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pilotstudy.data import dataset
from pilotstudy.data.arrays import as_images, read_arrays
from pilotstudy.errors import DataError, InputError
from tests.support.pictures import pictures

COLOUR = pictures(6)  # [6, 6, 6, 3]
LABELS = np.array([0, 1, 2, 0, 1, 2])


def npz(path, images=COLOUR, labels=LABELS, **more):
    arrays = {"train_images": images, "train_labels": labels, "test_images": images[:3], "test_labels": labels[:3]}
    np.savez(path, **(arrays | more))
    return path


def test_all_that_is_done_with_a_folder_is_done_with_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("PILOTSTUDY_CACHE", str(tmp_path / "cache"))
    path = npz(tmp_path / "own.npz")
    for name, place, before in (str(path), None, "not prepared"), ("own.npz", tmp_path, "prepared"):
        assert dataset.data_state(name, place)["state"] == before
        data = dataset.load_data(name, place)
        assert np.array_equal(data.train_images, COLOUR.transpose(0, 3, 1, 2))
        assert (data.name, data.classes) == ("own.npz", ("0", "1", "2"))
        state = dataset.data_state(name, place, verify=True)
        assert (state["state"], state["train"], state["from"]) == ("whole", 6, str(path))
    npz(path, images=COLOUR[:, ::-1])
    assert dataset.data_state(str(path), None)["state"] == "not prepared"
    assert np.array_equal(dataset.load_data(str(path)).train_images, COLOUR[:, ::-1].transpose(0, 3, 1, 2))
    assert dataset.load_data(str(path), image_size=4).shape == (3, 4, 4)


def test_names_as_keras_has_them_and_labels_in_a_column(tmp_path):
    path = tmp_path / "own.npz"
    np.savez(path, x_train=COLOUR[..., 0], y_train=LABELS[:, None], x_test=COLOUR[:2, ..., 0], y_test=LABELS[:2, None])
    raw = read_arrays(path, None)
    assert np.array_equal(raw.train.images, COLOUR[..., 0][:, None])
    assert raw.test.labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("given", "same"),
    [
        (COLOUR, COLOUR),
        (COLOUR.transpose(0, 3, 1, 2), COLOUR),
        (COLOUR[..., :1], COLOUR[..., :1]),
        (COLOUR[..., 0], COLOUR[..., :1]),
        (np.concatenate([COLOUR, COLOUR[..., :1]], axis=3), COLOUR),  # how opaque
        (COLOUR.astype(np.uint16) * 257, COLOUR),
        (COLOUR.astype(">u2") * 257, COLOUR),
        (COLOUR / 255, COLOUR),
        ((COLOUR / 255).astype(np.float16), COLOUR),
        (COLOUR > 99, (COLOUR > 99) * np.uint8(255)),
    ],
)
def test_shapes_and_kinds(tmp_path, given, same):
    assert np.array_equal(as_images(tmp_path, "x", given), same.transpose(0, 3, 1, 2))


@given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=3, max_dims=3, max_side=6)))
def test_every_kind_gives_the_same_images(images):
    for same in images, images.astype(np.uint16) * 257, images / 255, (images / 255).astype(np.float32):
        assert np.array_equal(as_images("own", "x", same)[:, 0], images)


@given(st.sampled_from([np.float32, np.float64]), st.sampled_from([-1e-3, 1.001, 255.0, np.nan, np.inf]))
def test_floats_outside_the_range_are_refused(kind, value):
    with pytest.raises(DataError, match="train_images has floats outside 0 to 1"):
        as_images("own", "train_images", np.array([[[0, value]]], kind))


def test_text_and_named_classes(tmp_path):
    words = np.array(["eel", "cat", "dog"] * 2)
    assert read_arrays(npz(tmp_path / "a.npz", labels=words), None).classes == ("cat", "dog", "eel")
    named = read_arrays(npz(tmp_path / "b.npz", classes=np.array(["x", "y", "z"])), None)
    assert (named.classes, named.train.labels.tolist()) == (("x", "y", "z"), LABELS.tolist())
    ordered = read_arrays(npz(tmp_path / "c.npz", labels=words, classes=np.array(["eel", "dog", "cat"])), None)
    assert (ordered.classes, ordered.train.labels.tolist()) == (("eel", "dog", "cat"), [0, 2, 1] * 2)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": COLOUR.astype(np.int64)}, "train_images is of the kind int64; save it as uint8"),
        ({"images": COLOUR[..., :2]}, "train_images is 6×6×6×2; images are"),
        ({"images": COLOUR[:, :, :, 0, None, None]}, "images are n×H×W"),
        ({"images": COLOUR[:, :0]}, "without pixels"),
        ({"images": COLOUR[:0]}, "train has 0 images and 6 labels"),
        ({"test_images": COLOUR[:3, :, :5]}, "differ in size"),
        ({"test_images": COLOUR[:3, :, :, 0]}, "differ in colour"),
        ({"labels": np.eye(6)}, "train_labels is 6×6; it needs one label for each image"),
        ({"labels": LABELS[:5]}, "train has 6 images and 5 labels"),
        ({"labels": LABELS + 0.5}, "train label 0.5 in row 0 is not a whole number"),
        ({"labels": np.array(["a", "b", None] * 2, object)}, "Python objects, which are not read"),
        ({"classes": np.array(["x", "x", "y"])}, "each there once"),
        ({"classes": np.array(["x", "y"])}, "larger than 1, the last that has a name"),
    ],
)
def test_what_cannot_be_used_is_one_line(tmp_path, arrays, message):
    with pytest.raises(DataError, match=message) as told:
        read_arrays(npz(tmp_path / "own.npz", **arrays), None)
    assert "\n" not in str(told.value)
    assert "own.npz" in str(told.value)


def test_files_that_are_not_whole(tmp_path):
    path = npz(tmp_path / "own.npz")
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 3] ^= 255
    np.save(tmp_path / "one.npy", LABELS)
    one = (tmp_path / "one.npy").read_bytes()
    for content in whole[: len(whole) // 2], bytes(damaged), b"", pickle.dumps([COLOUR]), one:
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"own.npz is not a whole .npz file.*: write it again"):
            dataset.load_data(str(path))
    np.savez(path, x_train=COLOUR, other=LABELS)
    with pytest.raises(DataError, match=r"lacks train_labels \(or y_train\), .*; it has x_train, other"):
        dataset.load_data(str(path))
    with pytest.raises(InputError, match=r"there is no file .*none.npz"):
        dataset.load_data(str(tmp_path / "none.npz"))
