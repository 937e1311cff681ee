import io
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pilotstudy.data import prepared, sources
from pilotstudy.data.splits import shares, split
from pilotstudy.errors import DataError, InputError, StorageError


def png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def pictures(n: int, size: int = 6, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, size, size, 3), dtype=np.uint8)


def parquet_folder(folder: Path, column: str = "image", plain: bool = False, names=("cat", "dog", "eel")) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for split_, n in ("train", 30), ("test", 12):
        encoded = [png(p) for p in pictures(n, seed=n)]
        table = pa.table({column: encoded if plain else [{"bytes": e} for e in encoded], "label": np.arange(n) % 3})
        if names:
            features = {"info": {"features": {"label": {"names": names}}}}
            table = table.replace_schema_metadata({"huggingface": json.dumps(features)})
        pq.write_table(table, folder / f"{split_}-00000-of-00001.parquet")
    return folder


def image_folder(folder: Path) -> Path:
    for split_, n in ("train", 30), ("test", 12):
        for row, picture in enumerate(pictures(n, seed=n)):
            path = folder / split_ / ("cat", "dog", "eel")[row % 3] / f"{row:03}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(picture))
    return folder


@pytest.mark.parametrize(("column", "plain"), [("image", False), ("img", False), ("image", True)])
def test_parquet_folders(tmp_path, column, plain):
    data = prepared.load(str(parquet_folder(tmp_path / "own", column, plain)))
    assert data.train_images.shape == (30, 3, 6, 6)
    assert np.array_equal(data.train_images, pictures(30, seed=30).transpose(0, 3, 1, 2))
    assert data.test_labels.tolist() == [0, 1, 2] * 4
    assert data.classes == ("cat", "dog", "eel")


def test_image_folders_hold_the_same_images(tmp_path):
    data = prepared.load("own", image_folder(tmp_path / "own").parent)
    assert data.classes == ("cat", "dog", "eel")
    order = np.argsort(np.arange(30) % 3, kind="stable")
    assert np.array_equal(data.train_images, pictures(30, seed=30)[order].transpose(0, 3, 1, 2))


def test_the_fingerprint_is_of_the_content(tmp_path):
    first = prepared.load(str(parquet_folder(tmp_path / "a")))
    again = prepared.load(str(parquet_folder(tmp_path / "b" / "a", "img")))
    other = prepared.load(str(parquet_folder(tmp_path / "c", names=("x", "y", "z"))))
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert len(first.fingerprint) == 64
    assert prepared.load(str(parquet_folder(tmp_path / "d", names=None))).classes == ("0", "1", "2")


def test_grey_and_colour_and_size(tmp_path):
    folder = image_folder(tmp_path / "own")
    (folder / "train/cat/000.png").write_bytes(png(pictures(1)[0, :, :, 0]))
    assert prepared.load(str(folder)).shape == (3, 6, 6)
    (folder / "train/cat/000.png").write_bytes(png(pictures(1, size=9)[0]))
    with pytest.raises(DataError, match=r"6×6, the first image 9×9: set data.image_size"):
        prepared.load(str(folder))
    assert prepared.load(str(folder), image_size=4).shape == (3, 4, 4)


def test_a_changed_source_is_prepared_anew(tmp_path):
    folder = parquet_folder(tmp_path / "own")
    before = prepared.load(str(folder)).fingerprint
    parquet_folder(folder, names=("x", "y", "z"))
    assert prepared.load(str(folder)).fingerprint != before


@pytest.mark.parametrize("harm", ["truncate", "flip a bit", "remove a file", "break the header", "empty the list"])
def test_a_damaged_cache_is_noticed_and_made_anew(tmp_path, harm):
    folder = str(parquet_folder(tmp_path / "own"))
    whole = prepared.load(folder)
    files = prepared.find(folder).files
    path = files.array("train_images")
    content = bytearray(path.read_bytes())
    if harm == "truncate":
        path.write_bytes(content[: len(content) // 2])
    elif harm == "flip a bit":
        content[-10] ^= 1
        path.write_bytes(content)
    elif harm == "remove a file":
        path.unlink()
    elif harm == "break the header":
        path.write_bytes(b"nonsense" + content)
    else:
        files.meta.write_text("{}")
    assert prepared.describe(folder, None, verify=True)["state"] == "damaged"
    assert prepared.load(folder).fingerprint == whole.fingerprint
    assert prepared.describe(folder, None, verify=True)["state"] == "whole"


def test_what_is_loaded_is_mapped_and_cannot_harm_the_file(tmp_path):
    folder = str(parquet_folder(tmp_path / "own"))
    data = prepared.load(folder)
    assert isinstance(data.train_images, np.memmap)
    data.train_images[0] = 0
    assert prepared.load(folder).train_images[0].any()


def test_a_failed_preparation_leaves_nothing(tmp_path, monkeypatch):
    folder = parquet_folder(tmp_path / "own")
    monkeypatch.setenv("PILOTSTUDY_CACHE", str(tmp_path / "cache"))
    before = prepared.load(str(folder)).fingerprint
    path = folder / "test-00000-of-00001.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with pytest.raises(DataError, match="not a whole Parquet file"):
        prepared.load(str(folder))
    shutil.copy(path, folder / "copy")
    path.write_bytes(whole)
    assert prepared.load(str(folder)).fingerprint == before
    assert not [p for p in (tmp_path / "cache" / "data").iterdir() if p.name.startswith(".")]


def test_what_is_wrong_with_a_folder_is_told(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match="no images in a known layout"):
        prepared.load(str(empty))
    with pytest.raises(InputError, match="did you mean 'cifar10'"):
        prepared.load("cifar")
    with pytest.raises(DataError, match="holds no cifar10: expected"):
        prepared.load("cifar10", empty)
    folder = image_folder(tmp_path / "own")
    (folder / "train/dog/001.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"train/dog/001.png is not an image that can be decoded"):
        prepared.load(str(folder))
    wrong = parquet_folder(tmp_path / "wrong", column="picture")
    with pytest.raises(DataError, match="needs the columns image"):
        prepared.load(str(wrong))
    few = parquet_folder(tmp_path / "few", names=("cat",))
    with pytest.raises(DataError, match="labels must be whole numbers from 0 to 0"):
        prepared.load(str(few))


def test_an_image_that_does_not_decode_in_a_parquet_file(tmp_path):
    folder = parquet_folder(tmp_path / "own")
    table = pa.table({"image": [{"bytes": png(pictures(1)[0])}, {"bytes": b"RIFF"}], "label": [0, 1]})
    pq.write_table(table, folder / "train-00000-of-00001.parquet")
    with pytest.raises(DataError, match=r"own/train row 1 is not an image"):
        prepared.load(str(folder))


@pytest.mark.parametrize("error", [OSError("no route to host"), RuntimeError("File not found or corrupted.")])
def test_without_a_network_both_ways_to_the_data_are_named(monkeypatch, tmp_path, error):
    """An interrupted download reaches us as one of these two."""
    from torchvision import datasets

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setenv("PILOTSTUDY_CACHE", str(tmp_path))
    monkeypatch.setattr(datasets, "CIFAR10", fail)
    with pytest.raises(DataError, match=r"--data-dir.*data prepare cifar10"):
        prepared.load("cifar10")
    assert not list((tmp_path / "data").iterdir())


def test_torchvisions_arrays_are_read_as_they_are(monkeypatch, tmp_path):
    from torchvision import datasets

    class Cifar:
        classes = ("a", "b")

        def __init__(self, folder, train, download):
            self.data = pictures(8, seed=train)
            self.targets = [0, 1] * 4

    class Svhn:
        def __init__(self, folder, split, download):
            self.data, self.labels = pictures(8).transpose(0, 3, 1, 2), np.arange(8) % 10

    class Fashion(Cifar):
        def __init__(self, folder, train, download):
            super().__init__(folder, train, download)
            self.data = self.data[..., 0]

    for name, kind in ("CIFAR10", Cifar), ("SVHN", Svhn), ("FashionMNIST", Fashion):
        monkeypatch.setattr(datasets, name, kind)
    cifar = sources.download("cifar10", tmp_path)
    assert np.array_equal(cifar.arrays["train_images"][0], pictures(8, seed=1)[0].transpose(2, 0, 1))
    assert cifar.classes == ("a", "b")
    assert sources.download("svhn", tmp_path).classes == tuple("0123456789")
    assert sources.download("fashion-mnist", tmp_path).arrays["test_images"].shape == (8, 1, 6, 6)


def test_a_full_disk_is_one_line(tmp_path, monkeypatch):
    folder = str(parquet_folder(tmp_path / "own"))
    monkeypatch.setenv("PILOTSTUDY_CACHE", str(tmp_path / "file"))
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot write"):
        prepared.load(folder)


def test_the_embedded_images(tmp_path):
    data = prepared.load("fashion")
    assert data.train_images.shape == (10_000, 1, 28, 28)
    assert np.bincount(data.train_labels).tolist() == [1000] * 10
    assert np.bincount(data.test_labels).tolist() == [500] * 10
    folder = Path(sources.__file__).parent / "fashion"
    assert (folder / "fashion.npz.xz").stat().st_size < 6e6
    assert "Zalando" in (folder / "LICENSE").read_text()


@given(st.lists(st.integers(3, 40), min_size=2, max_size=6), st.data())
def test_splits_are_stratified_disjoint_and_repeatable(counts, data):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    validation = data.draw(st.integers(1, len(labels) // 2))
    train, held_out = split(labels, validation, None)
    assert sorted([*train, *held_out]) == list(range(len(labels)))
    assert len(held_out) == validation
    share = np.bincount(labels[held_out], minlength=len(counts)) - np.array(counts) * validation / len(labels)
    assert (np.abs(share) < 1).all()
    most = int(np.bincount(labels[train], minlength=len(counts)).min()) * len(counts)
    if most >= len(counts):
        size = data.draw(st.integers(len(counts), most))
        subset, same = split(labels, validation, size)
        assert np.array_equal(same, held_out)
        assert len(subset) == size
        assert set(subset) <= set(train)
        assert np.ptp(np.bincount(labels[subset], minlength=len(counts))) <= 1
    with pytest.raises(InputError, match="every class alike"):
        split(labels, validation, len(labels) * 2)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(0, 500))
def test_shares_add_up(weights, total):
    found = shares(weights, total)
    assert sum(found) == total
    assert all(abs(n - total * w / sum(weights)) < 1 for n, w in zip(found, weights, strict=True))


@pytest.mark.realdata
@pytest.mark.long
def test_cifar10(shared_data):
    data = prepared.load("cifar10", shared_data)
    assert data.train_images.shape == (50_000, 3, 32, 32)
    assert data.test_images.shape == (10_000, 3, 32, 32)
    assert data.classes[:2] == ("airplane", "automobile")
    train, validation = split(data.train_labels, 5000, 10_000)
    assert np.bincount(data.train_labels[train]).tolist() == [1000] * 10
    assert np.bincount(data.train_labels[validation]).tolist() == [500] * 10
