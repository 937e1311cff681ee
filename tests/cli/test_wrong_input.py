"""Wrong input is one line on stderr and its exit code."""

import sys

import pytest

from pilotstudy import cli
from pilotstudy.errors import NotDoneError
from pilotstudy.study import spec
from tests.support.command_line import refused
from tests.support.pictures import image_folder, parquet_folder

TRAIN = ("train", "quickstart", "--arm", "vanilla")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("train", "quikstart", "--arm", "vanilla"), 2, ("unknown study", "did you mean 'quickstart'")),
        (("train", "quickstart", "--arm", "pilot-a-agu"), 2, ("unknown arm", "did you mean 'pilot-a-aug'")),
        (("train", "quickstart"), 2, ("Missing option '--arm'",)),
        (("trian", "quickstart"), 2, ("No such command 'trian'",)),
        ((*TRAIN, "--nope"), 2, ("No such option: --nope",)),
        ((*TRAIN, "--set", "training.epoch=3"), 2, ("unknown key 'training.epoch'", "did you mean 'epochs'")),
        ((*TRAIN, "--set", "arms.l2.wd=3"), 2, ("unknown key 'arms.l2.wd'", "known are weight_decay")),
        ((*TRAIN, "--set", 'training.epochs="ten"'), 2, ("training.epochs = 'ten'", "valid integer")),
        (
            (*TRAIN, "--set", "training.optimiser={name='adam',momentum=0.9}"),
            2,
            ("optimiser.momentum", "an option of sgd"),
        ),
        ((*TRAIN, "--set", "training.epochs=2.5"), 2, ("training.epochs = 2.5",)),
        ((*TRAIN, "--set", "arms.dropout.rate=nan"), 2, ("arms.dropout.rate", "finite")),
        ((*TRAIN, "--set", "arms.dropout.rate=1.5"), 2, ("arms.dropout.rate = 1.5", "less than 1")),
        ((*TRAIN, "--set", "title.x=1"), 2, ("'title' has no keys",)),
        ((*TRAIN, "--set", "epochs"), 2, ("expected key=value",)),
        (
            ("run", "cifar-shift", "--dry-run", "--set", "tests.2.size=5"),
            2,
            ("tests.2.size: '2' is none of the list's", "0 to 1"),
        ),
        (("run", "cifar-shift", "--dry-run", "--set", "tests.-1.size=5"), 2, ("'-1' is none of the list's entries",)),
        (("run", "cifar-shift", "--dry-run", "--set", "tests.1.size=0"), 2, ("tests.1.size = 0: it must be",)),
        ((*TRAIN, "--set", "data.name=cifar11"), 2, ("unknown data set", "did you mean 'cifar10'")),
        ((*TRAIN, "--train-size", "9"), 2, ("choose 10 to",)),
        ((*TRAIN, "--device", "cuda:7"), 2, ("cuda:7",)),
        ((*TRAIN, "--device", "tpu"), 2, ("device 'tpu'",)),
        ((*TRAIN, "--seed", "-1"), 2, (": --seed: it must be greater than or equal to 0; --help",)),
        (("run", "quickstart", "--seeds", "1000000000"), 2, (": --seeds: it must be less than or equal to 10000",)),
        (("ensembles", "x", "--recalibrate", "fo"), 2, (": --recalibrate: 'fo' is not one of 'temperature'",)),
        (("run", "quickstart", "--inline", "--runs-dir", "/proc/x"), 6, ("/proc/x/quickstart", "; choose another")),
        (("train", "cifar-cnn", "--arm", "vanilla", "--data-dir", "/nowhere"), 3, ("/nowhere holds no cifar10",)),
        (("run", "quickstart", "--max-cost", "5"), 2, ("--max-cost 5 needs --price", "--price 0.7", "--price L4")),
        (("resume", "quickstart", "--max-cost", "5"), 2, ("--max-cost 5 needs --price",)),
        (("submit", "quickstart", "--runs-dir", "/runs", "--max-cost", "5"), 2, ("--max-cost 5 needs --price",)),
        (("run", "quickstart", "--max-cost", "5", "--price", "cheap"), 2, ("--price cheap", "L4")),
        (("run", "quickstart", "--max-cost", "0", "--price", "L4"), 2, ("--max-cost",)),
        (("run", "quickstart", "--gpus-per-trial", "2"), 2, ("--gpus-per-trial 2", "a trial trains on one GPU")),
        (("run", "quickstart", "--gpus-per-trial", "0.3"), 2, ("--gpus-per-trial 0.3", "1/k")),
        (("run", "quickstart", "--set", "resources.gpus_per_trial=2"), 2, ("gpus_per_trial = 2", "on one GPU")),
        (("submit", "quickstart", "--runs-dir", "runs"), 2, ("--runs-dir runs", "s3://bucket/runs")),
        (("submit", "quickstart"), 2, ("give --runs-dir", "PILOTSTUDY_RUNS")),
        (("submit", "quickstart", "--runs-dir", "/runs", "--data-dir", "data"), 2, ("--data-dir data",)),
        (("doctor", "--address", "http://127.0.0.1:1", "--runs-dir", "runs"), 2, ("--runs-dir runs",)),
        (("doctor", "--address", "127.0.0.1:1"), 2, ("no Ray cluster at 127.0.0.1:1", "refused")),
        (("plan", "quickstart", "--gpu", "V100"), 2, ("--gpu V100", "known are T4, L4")),
        (("plan", "quickstart", "--gpu", "L5"), 2, ("--gpu L5", "known are T4, L4")),
        (("plan", "quickstart", "--gpu", "L4", "--price", "0"), 2, ("--price 0", "more than 0")),
    ],
)
def test_wrong_input_is_one_line_and_its_exit_code(pilotstudy, words, code, told):
    refused(pilotstudy(*words), code, *told)


def test_a_broken_study_file(pilotstudy, tmp_path):
    path = tmp_path / "own.toml"
    path.write_text("title = \n")
    refused(pilotstudy("train", path, "--arm", "vanilla"), 2, "not valid TOML", "line 1")
    path.write_text('title = "mine"\n[data]\nname = "fashion"\n[arms]\nvanilla = {}\n[network]\nname = "mlp-512"\n')
    refused(pilotstudy("train", path, "--arm", "vanilla"), 2, "the key 'training' is missing")
    path.write_bytes(b"\xff\xfe")
    refused(pilotstudy("train", path, "--arm", "vanilla"), 2, "not valid TOML")


def test_broken_data(pilotstudy, tmp_path):
    folder = parquet_folder(tmp_path / "own")
    file = folder / "train-00000-of-00001.parquet"
    file.write_bytes(file.read_bytes()[:200])
    refused(pilotstudy("data", "prepare", folder), 3, str(file), "not a whole Parquet file")
    folder = image_folder(tmp_path / "pictures")
    (folder / "test/cat/000.png").write_bytes(b"")
    refused(pilotstudy("data", "prepare", folder), 3, "test/cat/000.png", "repair or remove it")


def test_a_validation_part_that_the_data_do_not_have_is_refused_before_a_trial(pilotstudy, tmp_path):
    words = ("run", "quickstart", "--inline", "-q", "--runs-dir", tmp_path, "--set", "data.validation=10000")
    refused(pilotstudy(*words), 2, "data.validation = 10000: there are 10000 training images", "such as 1000")


def test_ray_that_does_not_start_is_no_bug(monkeypatch, tmp_path):
    connect = pytest.importorskip("pilotstudy.cluster.connect")

    def give_up(**options: object) -> None:
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(connect.ray, "init", give_up)
    with pytest.raises(NotDoneError, match=r"timed out.*--inline"), connect.connected(None, tmp_path / "log.txt"):
        pass


def test_debug_shows_the_traceback(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pilotstudy", "train", "nope", "--arm", "vanilla", "--debug"])
    with pytest.raises(spec.InputError):
        cli.main()


def test_verify_finds_damage(pilotstudy, tmp_path):
    from pilotstudy.data import dataset

    folder = parquet_folder(tmp_path / "own")
    assert pilotstudy("data", "prepare", folder)[0] == 0
    path = dataset.find(str(folder)).files.array("test_images")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    code, out, err = pilotstudy("data", "verify", folder)
    assert code == 3
    assert "damaged" in out
    assert err.count("\n") == 1
