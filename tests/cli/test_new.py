"""The first file of a study: it can be read, it runs, and it changes nothing that is there."""

import numpy as np
import pytest

import pilotstudy as package
from pilotstudy import extensions
from pilotstudy.study.reading import read_study
from tests.support.command_line import refused
from tests.support.pictures import image_folder, parquet_folder


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def decorators(monkeypatch):
    """What a file of one's own imports, from where it lives, should the package not have it yet."""
    from pilotstudy.arms.arm import Range, Settings
    from pilotstudy.arms.catalogue import arm
    from pilotstudy.method.regulariser import Regulariser
    from pilotstudy.metrics.registry import metric
    from pilotstudy.networks.catalogue import network

    for each in Range, Settings, arm, Regulariser, metric, network:
        monkeypatch.setattr(package, each.__name__, each, raising=False)
    yield
    extensions._forget("mine_lab")


def test_a_new_study_is_short_and_can_be_read(pilotstudy, here):
    code, out, err = pilotstudy("new", "my-study")
    assert (code, out) == (0, "my-study.toml\n")
    assert "pilotstudy run my-study.toml" in err
    study = read_study("my-study.toml")
    assert (study.name, study.data.name, study.network.name) == ("my-study", "fashion", "mlp-512")
    assert list(study.arms) == ["vanilla", "dropout", "pilot-a-aug"]
    assert "training.learning_rate" in study.search.space
    assert len(study.claims) == 1
    text = (here / "my-study.toml").read_text()
    assert len(text.splitlines()) < 60
    refused(pilotstudy("new", "my-study", "--data", "svhn"), 2, "my-study.toml is there already")
    assert (here / "my-study.toml").read_text() == text


def test_a_name_with_the_ending_of_a_study_file_is_that_of_the_file(pilotstudy, here):
    assert pilotstudy("new", "mine.toml")[1] == "mine.toml\n"
    assert read_study("mine.toml").name == "mine"
    assert [path.name for path in here.iterdir()] == ["mine.toml"]
    refused(pilotstudy("new", ".toml"), 2, "NAME '.toml'")


def test_what_is_asked_for_is_in_it(pilotstudy, here):
    words = ("--data", "cifar10", "--network", "resnet-20", "--arms", "vanilla, l2", "-o", "other.toml")
    assert pilotstudy("new", "a b", *words)[0] == 0
    study = read_study("other.toml")
    assert (study.name, study.data.validation, study.network.name) == ("a b", 5000, "resnet-20")
    assert study.search.arms == ("vanilla", "l2")
    assert study.claims[0].holds == "nll: l2 < vanilla"


@pytest.mark.parametrize("kind", ["parquet", "folders", "arrays"])
def test_validation_follows_the_number_of_ones_own_images(pilotstudy, here, kind):
    if kind == "arrays":
        images, labels = np.zeros((40, 8, 8), np.uint8), np.arange(40) % 2
        np.savez("own.npz", train_images=images, train_labels=labels, test_images=images, test_labels=labels)
        place, number = here / "own.npz", 40
    else:
        place = (parquet_folder if kind == "parquet" else image_folder)(here / "own")
        number = None
    assert pilotstudy("new", "mine", "--data", place.name)[0] == 0
    study = read_study("mine.toml")
    assert study.data.name == str(place)  # from wherever it is run
    from pilotstudy.data.dataset import load_data

    there = len(load_data(study.data.name).train_labels)
    assert number in (None, there)
    assert study.data.validation == max(there // 10, 1)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("../x",), ("NAME '../x'", "not a path")),
        ((".",), ("begin with a dot",)),
        (("x", "--data", "cifar11"), ("unknown data set", "did you mean 'cifar10'")),
        (("x", "--network", "mlp-513"), ("did you mean 'mlp-512'",)),
        (("x", "--arms", "dropuot"), ("unknown arm 'dropuot'",)),
        (("x", "-o", "nowhere/x.toml"), ("cannot write nowhere/x.toml",)),
    ],
)
def test_what_cannot_be_begun_writes_nothing(pilotstudy, here, words, told):
    refused(pilotstudy("new", *words), 2, *told)
    assert list(here.iterdir()) == []


def test_a_new_study_with_a_lab_runs(pilotstudy, here, decorators):
    parquet_folder(here / "own")
    code, out, _ = pilotstudy("new", "mine", "--lab", "--data", "own", "--arms", "vanilla,soft-targets")
    assert (code, out) == (0, "mine.toml\nmine_lab.py\n")
    small = ("--epochs", "1", "--seeds", "1", "--trials", "0", "--inline", "--json", "-q")
    code, out, err = pilotstudy("run", "mine.toml", *small)
    assert code == 0, err
    study = read_study("mine.toml")
    assert study.network.name == "my-network"
    assert "soft-targets" in study.arms
    assert "soft-targets" in out
