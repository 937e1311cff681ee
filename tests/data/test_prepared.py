import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pilotstudy.data import dataset, sources
from pilotstudy.data.splits import split
from pilotstudy.errors import DataError, InputError, StorageError
from tests.support.command_line import refused
from tests.support.pictures import image_folder, parquet_folder, pictures, png


@pytest.mark.parametrize(("column", "plain"), [("image", False), ("img", False), ("image", True)])
def test_parquet_folders(tmp_path, column, plain):
    data = dataset.load_data(str(parquet_folder(tmp_path / "own", column, plain)))
    assert data.train_images.shape == (30, 3, 6, 6)
    assert np.array_equal(data.train_images, pictures(30, seed=30).transpose(0, 3, 1, 2))
    assert data.test_labels.tolist() == [0, 1, 2] * 4
    assert data.classes == ("cat", "dog", "eel")


def test_image_folders_hold_the_same_images(tmp_path):
    data = dataset.load_data("own", image_folder(tmp_path / "own").parent)
    assert data.classes == ("cat", "dog", "eel")
    order = np.argsort(np.arange(30) % 3, kind="stable")
    assert np.array_equal(data.train_images, pictures(30, seed=30)[order].transpose(0, 3, 1, 2))


def test_the_fingerprint_is_of_the_content(tmp_path):
    first = dataset.load_data(str(parquet_folder(tmp_path / "a")))
    again = dataset.load_data(str(parquet_folder(tmp_path / "b" / "a", "img")))
    other = dataset.load_data(str(parquet_folder(tmp_path / "c", names=("x", "y", "z"))))
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert len(first.fingerprint) == 64
    assert dataset.load_data(str(parquet_folder(tmp_path / "d", names=None))).classes == ("0", "1", "2")


def test_a_folder_is_prepared_once_however_its_path_is_written(tmp_path, monkeypatch):
    folder = parquet_folder(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    ways = dataset.find(str(folder)), dataset.find("mine"), dataset.find("./mine"), dataset.find("mine", tmp_path)
    assert len({way.files.folder for way in ways}) == 1


def test_grey_and_colour_and_size(tmp_path):
    folder = image_folder(tmp_path / "own")
    (folder / "train/cat/000.png").write_bytes(png(pictures(1)[0, :, :, 0]))
    assert dataset.load_data(str(folder)).shape == (3, 6, 6)
    (folder / "train/cat/000.png").write_bytes(png(pictures(1, size=9)[0]))
    with pytest.raises(DataError, match=r"6×6, the first image 9×9: set data.image_size"):
        dataset.load_data(str(folder))
    assert dataset.load_data(str(folder), image_size=4).shape == (3, 4, 4)


def test_images_that_use_little_of_the_range_are_told(tmp_path, capsys):
    folder = image_folder(tmp_path / "own")
    dataset.load_data(str(folder))
    assert "no training image" not in capsys.readouterr().err
    for number, path in enumerate(folder.glob("*/*/*.png")):
        path.write_bytes(png(np.full((6, 6), 4095 - number, np.uint16)))  # 12 bits in 16
    dataset.load_data(str(folder))
    assert f"{folder}: no training image has a pixel above 16 of 255; if" in capsys.readouterr().err
    dataset.load_data(str(folder))
    assert not capsys.readouterr().err  # it is prepared


def test_a_changed_source_is_prepared_anew(tmp_path):
    folder = parquet_folder(tmp_path / "own")
    before = dataset.load_data(str(folder)).fingerprint
    parquet_folder(folder, names=("x", "y", "z"))
    assert dataset.load_data(str(folder)).fingerprint != before


@pytest.mark.parametrize("harm", ["truncate", "flip a bit", "remove a file", "break the header", "empty the list"])
def test_a_damaged_cache_is_noticed_and_made_anew(tmp_path, harm):
    folder = str(parquet_folder(tmp_path / "own"))
    whole = dataset.load_data(folder)
    files = dataset.find(folder).files
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
    assert dataset.data_state(folder, None, verify=True)["state"] == "damaged"
    assert dataset.load_data(folder).fingerprint == whole.fingerprint
    assert dataset.data_state(folder, None, verify=True)["state"] == "whole"


def test_what_is_loaded_is_mapped_and_cannot_harm_the_file(tmp_path):
    folder = str(parquet_folder(tmp_path / "own"))
    data = dataset.load_data(folder)
    assert isinstance(data.train_images, np.memmap)
    data.train_images[0] = 0
    assert dataset.load_data(folder).train_images[0].any()


def test_a_failed_preparation_leaves_nothing(tmp_path, monkeypatch):
    folder = parquet_folder(tmp_path / "own")
    monkeypatch.setenv("PILOTSTUDY_CACHE", str(tmp_path / "cache"))
    before = dataset.load_data(str(folder)).fingerprint
    path = folder / "test-00000-of-00001.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with pytest.raises(DataError, match="not a whole Parquet file"):
        dataset.load_data(str(folder))
    shutil.copy(path, folder / "copy")
    path.write_bytes(whole)
    assert dataset.load_data(str(folder)).fingerprint == before
    assert not [p for p in (tmp_path / "cache" / "data").iterdir() if p.name.startswith(".")]


def test_what_is_wrong_with_a_folder_is_told(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match="no images in a known layout"):
        dataset.load_data(str(empty))
    with pytest.raises(InputError, match="did you mean 'cifar10'"):
        dataset.load_data("cifar")
    with pytest.raises(DataError, match="holds no cifar10: expected"):
        dataset.load_data("cifar10", empty)
    folder = image_folder(tmp_path / "own")
    (folder / "train/dog/001.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"train/dog/001.png is not an image that can be decoded"):
        dataset.load_data(str(folder))
    wrong = parquet_folder(tmp_path / "wrong", column="picture")
    with pytest.raises(DataError, match="needs the columns image"):
        dataset.load_data(str(wrong))
    few = parquet_folder(tmp_path / "few", names=("cat",))
    with pytest.raises(DataError, match="label 1 in row 1 is larger than 0, the last that has a name"):
        dataset.load_data(str(few))


def test_an_image_that_does_not_decode_in_a_parquet_file(tmp_path):
    folder = parquet_folder(tmp_path / "own")
    table = pa.table({"image": [{"bytes": png(pictures(1)[0])}, {"bytes": b"RIFF"}], "label": [0, 2]})
    pq.write_table(table, folder / "train-00000-of-00001.parquet")
    with pytest.raises(DataError, match=r"own/train row 1 is not an image .*\(of no known kind\)"):
        dataset.load_data(str(folder))


@pytest.mark.parametrize("error", [OSError("no route to host"), RuntimeError("File not found or corrupted.")])
def test_without_a_network_both_ways_to_the_data_are_named(monkeypatch, tmp_path, error):
    """An interrupted download reaches us as one of these two."""
    from torchvision import datasets

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setenv("PILOTSTUDY_CACHE", str(tmp_path))
    monkeypatch.setattr(datasets, "CIFAR10", fail)
    with pytest.raises(DataError, match=r"--data-dir.*data prepare cifar10"):
        dataset.load_data("cifar10")
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
        dataset.load_data(folder)


def test_the_embedded_images(tmp_path):
    data = dataset.load_data("fashion")
    assert data.train_images.shape == (10_000, 1, 28, 28)
    assert np.bincount(data.train_labels).tolist() == [1000] * 10
    assert np.bincount(data.test_labels).tolist() == [500] * 10
    folder = Path(sources.__file__).parent / "fashion"
    assert (folder / "fashion.npz.xz").stat().st_size < 6e6
    assert "Zalando" in (folder / "LICENSE").read_text()


@pytest.mark.realdata
@pytest.mark.long
def test_cifar10(shared_data):
    data = dataset.load_data("cifar10", shared_data)
    assert data.train_images.shape == (50_000, 3, 32, 32)
    assert data.test_images.shape == (10_000, 3, 32, 32)
    assert data.classes[:2] == ("airplane", "automobile")
    train, validation = split(data.train_labels, 5000, 10_000)
    assert np.bincount(data.train_labels[train]).tolist() == [1000] * 10
    assert np.bincount(data.train_labels[validation]).tolist() == [500] * 10


def test_the_embedded_images_are_resized_too():
    small = dataset.load_data("fashion", image_size=7)
    assert small.shape == (1, 7, 7)
    whole = dataset.load_data("fashion")
    assert small.fingerprint != whole.fingerprint
    means = [data.train_images.mean(dtype=float) for data in (small, whole)]
    assert means[0] == pytest.approx(means[1], rel=0.02)


def test_what_is_prepared_is_listed_wherever_it_came_from(tmp_path, monkeypatch, pilotstudy):
    """With its sizes and fingerprint; and `verify` finds it without the folder that it came from."""
    monkeypatch.setenv("PILOTSTUDY_CACHE", str(tmp_path / "cache"))
    folder = parquet_folder(tmp_path / "my data" / "cifar10")
    own = image_folder(tmp_path / "own")
    for words in ("cifar10", "--data-dir", folder.parent), (own,):
        assert pilotstudy("data", "prepare", *words)[0] == 0
    rows = json.loads(pilotstudy("data", "list", "--json")[1])
    assert [(row["name"], row["from"], row["state"]) for row in rows if row["name"] in ("cifar10", "own")] == [
        ("cifar10", str(folder), "prepared"),
        ("cifar10", "download", "not prepared"),
        ("own", str(own), "prepared"),
    ]
    data = dataset.load_data("cifar10", folder.parent)
    assert {key: rows[1][key] for key in ("train", "test", "fingerprint")} == {
        "train": len(data.train_labels),
        "test": len(data.test_labels),
        "fingerprint": data.fingerprint,
    }
    assert json.loads(pilotstudy("data", "verify", "cifar10", "--json")[1])[0]["state"] == "whole"
    assert {row["name"] for row in json.loads(pilotstudy("data", "verify", "--json")[1])} == {"cifar10", "own"}
    refused(pilotstudy("data", "verify", "svhn"), 3, "svhn is not prepared")
    path = dataset.find("cifar10", folder.parent).files.array("test_images")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    code, _, err = pilotstudy("data", "verify")
    command = shlex.split(err.split("`")[1])
    assert (code, command[1:]) == (3, ["data", "prepare", "cifar10", "--data-dir", str(folder.parent)])
    assert pilotstudy(*command[1:])[0] == 0
    assert pilotstudy("data", "verify")[0] == 0
