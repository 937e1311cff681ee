"""Test sets beside a study's own: where they come from, what is refused."""

import numpy as np
import pytest
from PIL import Image

from pilotstudy.data import testsets
from pilotstudy.data.corruptions import CORRUPTIONS
from pilotstudy.data.dataset import DataSet, load_data
from pilotstudy.data.raw import fitted
from pilotstudy.errors import DataError, InputError
from pilotstudy.study.spec import ExtraTest
from tests.support.pictures import image_folder, parquet_folder, pictures
from tests.support.squares import make_data


def animals(tmp_path) -> DataSet:
    return load_data(str(image_folder(tmp_path / "animals")))


def loaded(own: DataSet, **asked) -> list:
    return testsets.load_tests([ExtraTest(**asked)], own, None, None)


def same(first: np.ndarray, second: np.ndarray) -> bool:
    return first.dtype == second.dtype and np.array_equal(first, second)


@pytest.mark.parametrize(
    ("name", "data", "names"),
    [
        ("", "corrupted:noise-3", ["noise-3"]),
        ("hard", "corrupted:noise-3", ["hard"]),
        ("", "corrupted:jpeg", [f"jpeg-{k}" for k in range(1, 6)]),
        ("few", "corrupted:jpeg", [f"few-jpeg-{k}" for k in range(1, 6)]),
        ("", "CIFAR-10-C/fog.npy", [f"fog-{k}" for k in range(1, 6)]),
        ("", "else/cifar10.1_v6_data.npy", ["cifar10.1_v6"]),
        ("", "svhn", ["svhn"]),
        ("", "../CINIC-10", ["CINIC-10"]),
        ("", "own.npz", ["own"]),
        ("", "hf:owner/name", ["name"]),
    ],
)
def test_names(name, data, names):
    assert [part.name for part in testsets.parts_of(name, data)] == names


def test_all_corruptions_are_thirty():
    assert len({part.name for part in testsets.parts_of("", "corrupted:all")}) == 30
    assert [part.name for part in testsets.parts_of("", "corrupted:all-3")] == [f"{name}-3" for name in CORRUPTIONS]
    with pytest.raises(InputError, match=r"unknown corruption 'fog': known are all, noise"):
        testsets.parts_of("", "corrupted:fog")
    with pytest.raises(InputError, match="did you mean 'corrupted:noise'"):
        testsets.parts_of("", "corupted:noise")
    with pytest.raises(InputError, match="did you mean 'contrast'"):
        testsets.parts_of("", "corrupted:contast")


def test_a_corruption_is_kept_once_and_a_subset_has_the_pixels_of_the_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("PILOTSTUDY_CACHE", str(tmp_path / "cache"))
    data = make_data(shape=(1, 28, 28))
    (whole,), (some,) = loaded(data, data="corrupted:noise-2"), loaded(data, data="corrupted:noise-2", size=31)
    assert (whole.kind, whole.paired, whole.family, whole.strength) == ("shift", True, "noise", 2)
    assert same(some.images, whole.images[some.rows])
    assert same(some.labels, data.test_labels[some.rows])
    assert np.ptp(np.bincount(some.labels)) <= 1
    assert whole.fingerprint != some.fingerprint
    monkeypatch.setattr(testsets, "corrupt", None)  # not made again
    assert same(loaded(data, data="corrupted:noise-2")[0].images, whole.images)


def test_a_corruption_that_changes_nothing_is_told(capsys):
    loaded(make_data(shape=(1, 8, 8)), data="corrupted:blur-5")
    assert "tests: blur-5: it changes nothing in these images of 8×8" in capsys.readouterr().err
    loaded(make_data(shape=(1, 28, 28)), data="corrupted:blur-1")
    assert not capsys.readouterr().err


def test_subsets_keep_the_shares_of_classes_and_larger_ones_hold_smaller_ones():
    labels = np.repeat([0, 1, 2], [600, 300, 100])
    small, large = (testsets.subset("here", labels, size) for size in (20, 500))
    assert np.bincount(labels[small]).tolist() == [12, 6, 2]
    assert set(small) <= set(large)
    with pytest.raises(InputError, match="size = 1,001, but there are 1,000"):
        testsets.subset("here", labels, 1001)


def test_folders_give_their_test_images_in_the_studys_classes_and_size(tmp_path):
    data = animals(tmp_path)
    other = parquet_folder(tmp_path / "other", names=("dog", "eel", "cat"))
    (test,) = loaded(data, data=str(other))
    assert (test.name, test.paired, len(test.images)) == ("other", False, 12)
    assert test.labels.tolist() == [data.classes.index(name) for name in ["dog", "eel", "cat"] * 4]
    large = make_data(shape=(1, 16, 16))
    (unseen,) = loaded(large, data=str(other), kind="ood", size=6)
    assert unseen.images.shape == (6, 1, 16, 16)
    assert unseen.labels.tolist() == [-1] * 6


def test_a_folder_with_one_split_gives_that(tmp_path):
    data = animals(tmp_path)
    folder = image_folder(tmp_path / "single")
    for path in sorted((folder / "test").glob("*/*")):
        path.unlink()
    (test,) = loaded(data, data=str(folder))
    assert len(test.images) == 30
    assert same(
        test.images,
        np.stack([np.asarray(Image.open(path)).transpose(2, 0, 1) for path in sorted((folder / "train").glob("*/*"))]),
    )


def test_files_of_cifar_10_c_and_10_1(tmp_path):
    data = make_data(n=24, shape=(3, 6, 6))
    images = pictures(60)
    np.save(tmp_path / "fog.npy", images)
    np.save(tmp_path / "labels.npy", np.tile(data.test_labels, 5).astype(np.uint8))
    tests = loaded(data, data=str(tmp_path / "fog.npy"))
    assert [test.name for test in tests] == [f"fog-{k}" for k in range(1, 6)]
    assert all(test.paired for test in tests)
    assert same(tests[2].images, np.ascontiguousarray(images[24:36].transpose(0, 3, 1, 2)))
    np.save(tmp_path / "new_data.npy", images[:7])
    np.save(tmp_path / "new_labels.npy", np.arange(7) % 3)
    (new,) = loaded(data, data=str(tmp_path / "new_data.npy"))
    assert (new.name, new.paired, new.labels.tolist()) == ("new", False, [0, 1, 2, 0, 1, 2, 0])
    np.save(tmp_path / "fog.npy", images[:50])  # not all of its strengths
    np.save(tmp_path / "labels.npy", np.tile(data.test_labels, 5)[:50])
    with pytest.raises(DataError, match="not those of the same 10 images five times: a strength seems to be missing"):
        loaded(data, data=str(tmp_path / "fog.npy"))
    np.save(tmp_path / "fog.npy", images)
    np.save(tmp_path / "labels.npy", np.full(60, 3))
    with pytest.raises(DataError, match="its labels are not 0 to 2"):
        loaded(data, data=str(tmp_path / "fog.npy"))
    np.save(tmp_path / "fog.npy", images[:-1])
    with pytest.raises(DataError, match=r"59 images need as many labels in labels\.npy, not 60"):
        loaded(data, data=str(tmp_path / "fog.npy"))


def test_a_npy_file_is_converted_once_and_then_memory_mapped(tmp_path, monkeypatch):
    monkeypatch.setenv("PILOTSTUDY_CACHE", str(tmp_path / "cache"))
    data, images = make_data(n=24, shape=(3, 6, 6)), pictures(60)
    np.save(tmp_path / "fog.npy", images)
    np.save(tmp_path / "labels.npy", np.tile(data.test_labels, 5))
    converted = []
    convert = testsets.as_images
    monkeypatch.setattr(testsets, "as_images", lambda *args: converted.append(len(args[2])) or convert(*args))
    first = loaded(data, data=str(tmp_path / "fog.npy"))
    assert converted == [12] * 5  # each strength by itself, not five times the whole file
    again = loaded(data, data=str(tmp_path / "fog.npy"))
    assert converted == [12] * 5
    assert all(isinstance(test.images, np.memmap) for test in again)
    assert [test.fingerprint for test in again] == [test.fingerprint for test in first]
    np.save(tmp_path / "fog.npy", 255 - images)
    assert same(loaded(data, data=str(tmp_path / "fog.npy"))[4].images, 255 - first[4].images)


def test_what_is_out_of_distribution_needs_no_labels_and_has_no_strengths(tmp_path):
    data, images = make_data(n=24, shape=(3, 6, 6)), pictures(13)
    np.save(tmp_path / "textures.npy", images)
    (test,) = loaded(data, data=str(tmp_path / "textures.npy"), kind="ood", size=7)
    assert (test.name, test.strength, test.paired, test.labels.tolist()) == ("textures", 0, False, [-1] * 7)
    assert same(test.images, np.ascontiguousarray(images[test.rows].transpose(0, 3, 1, 2)))
    with pytest.raises(DataError, match=r"there is no file .*labels\.npy with its labels"):
        loaded(data, data=str(tmp_path / "textures.npy"))


def test_what_the_study_has_itself_is_not_unseen(tmp_path, capsys):
    data = animals(tmp_path)
    with pytest.raises(InputError, match="tests: animals: kind = 'ood', but these are the study's own images"):
        loaded(data, data=str(tmp_path / "animals"), kind="ood")
    np.save(tmp_path / "copy.npy", data.test_images)
    with pytest.raises(InputError, match="own images"):
        loaded(data, data=str(tmp_path / "copy.npy"), kind="ood")
    loaded(data, data=str(parquet_folder(tmp_path / "some", names=("dog", "fox", "gnu"))), kind="ood")
    assert "tests: some: kind = 'ood', but its class 'dog' is the study's, too" in capsys.readouterr().err
    loaded(data, data=str(parquet_folder(tmp_path / "none", names=("elk", "fox", "gnu"))), kind="ood")
    loaded(make_data(), data=str(parquet_folder(tmp_path / "numbers", names=("0", "1", "2"))), kind="ood")
    assert "the study's, too" not in capsys.readouterr().err


def test_too_few_images_for_intervals_are_told(capsys):
    loaded(make_data(shape=(1, 28, 28)), data="corrupted:noise-3", size=1)
    assert "tests: noise-3: 1 image" in capsys.readouterr().err
    loaded(make_data(shape=(1, 28, 28)), data="corrupted:noise-3", size=30)
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("images", "labels", "words"),
    [
        (pictures(6), np.arange(6) % 3 + 0.5, r"the test label 0\.5 in row 0 is not a whole number"),
        (pictures(6), np.array([*"abcabc"]), "test labels are of the kind <U1"),
        (pictures(6)[:0], np.arange(0), "tests: new: it holds no images"),
        (pictures(6).astype(int), np.arange(6) % 3, "of the kind int64; save it as uint8"),
        (np.array(3), np.array([0]), "images are n×H×W"),
        (np.array([{}]), np.arange(1), "Python objects"),
    ],
)
def test_npy_files_that_cannot_be_used_are_one_line(images, labels, words, tmp_path):
    np.save(tmp_path / "new_data.npy", images)
    np.save(tmp_path / "new_labels.npy", labels)
    with pytest.raises(DataError, match=words) as error:
        loaded(make_data(n=24, shape=(3, 6, 6)), data=str(tmp_path / "new_data.npy"))
    assert "\n" not in str(error.value)


def test_soft_labels(tmp_path):
    data = make_data(n=24)
    soft = np.random.default_rng(0).dirichlet([1, 1, 1], 12)
    np.save(tmp_path / "soft.npy", soft)
    (test,) = loaded(data, data="test", name="people", soft_labels=str(tmp_path / "soft.npy"), size=5)
    assert np.allclose(test.soft_labels, soft[test.rows])
    assert same(test.images, data.test_images[test.rows])
    for wrong, words in (
        (soft[:5], "soft labels are 5×3 of the kind float64; there must be 12×3"),
        (soft * 2, "each row with the sum 1"),
    ):
        np.save(tmp_path / "soft.npy", wrong)
        with pytest.raises(DataError, match=words):
            loaded(data, data="test", name="people", soft_labels=str(tmp_path / "soft.npy"))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"data": "nowhere"}, "tests: nowhere: unknown data set 'nowhere'"),
        ({"data": "nowhere.npy"}, "tests: nowhere-1: there is no file nowhere.npy"),
        ({"data": "test", "name": "a", "soft_labels": "no.npy"}, "tests: a: soft_labels: there is no file no.npy"),
        ({"data": "{folder}"}, r"its classes 'cat', 'dog', 'eel' are none of the study's \('a', 'b', 'c'\)"),
    ],
)
def test_what_cannot_be_had_is_one_line(asked, words, tmp_path):
    folder = image_folder(tmp_path / "folder")
    with pytest.raises((InputError, DataError), match=words) as error:
        loaded(make_data(), **{key: value.format(folder=folder) for key, value in asked.items()})
    assert "\n" not in str(error.value)


def test_colour_becomes_luminance_as_pillow_has_it():
    images = np.ascontiguousarray(pictures(4).transpose(0, 3, 1, 2))
    expected = np.stack([np.asarray(Image.fromarray(each.transpose(1, 2, 0)).convert("L"))[None] for each in images])
    assert np.abs(fitted(images, (1, 6, 6)).astype(int) - expected).max() <= 1
    assert same(fitted(expected, (3, 6, 6)), np.repeat(expected, 3, axis=1))
