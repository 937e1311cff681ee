import json
import subprocess
import sys
import time

import pytest
from test_data import image_folder, parquet_folder

from pilotstudy import cli, spec
from pilotstudy.arms import arms


@pytest.fixture
def pilotstudy(monkeypatch, capsys):
    """Runs a command in this process: exit code, stdout, stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pilotstudy", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        out, err = capsys.readouterr()
        return stopped.value.code, out, err

    return run


def refused(found: tuple[int, str, str], code: int, *words: str) -> None:
    """One line on stderr that holds the words, nothing on stdout, the exit code."""
    assert found[0] == code, found
    assert found[1] == ""
    assert found[2].startswith("pilotstudy: ")
    assert found[2].count("\n") == 1
    assert "Traceback" not in found[2]
    for word in words:
        assert word in found[2]


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
        ((*TRAIN, "--set", "training.epochs=2.5"), 2, ("training.epochs = 2.5",)),
        ((*TRAIN, "--set", "arms.dropout.rate=nan"), 2, ("arms.dropout.rate", "finite")),
        ((*TRAIN, "--set", "arms.dropout.rate=1.5"), 2, ("arms.dropout.rate = 1.5", "less than 1")),
        ((*TRAIN, "--set", "title.x=1"), 2, ("'title' has no keys",)),
        ((*TRAIN, "--set", "epochs"), 2, ("expected key=value",)),
        ((*TRAIN, "--set", "data.name=cifar11"), 2, ("unknown data set", "did you mean 'cifar10'")),
        ((*TRAIN, "--train-size", "9"), 2, ("choose 10 to",)),
        ((*TRAIN, "--device", "cuda:7"), 2, ("no device 'cuda:7'",)),
        ((*TRAIN, "--device", "tpu"), 2, ("device 'tpu'",)),
        ((*TRAIN, "--seed", "-1"), 2, ("--seed",)),
        (("train", "cifar-cnn", "--arm", "vanilla", "--data-dir", "/nowhere"), 3, ("/nowhere holds no cifar10",)),
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
    refused(pilotstudy("data", "prepare", folder), 3, "test/cat/000.png", "mend or remove it")


def test_debug_shows_the_traceback(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pilotstudy", "train", "nope", "--arm", "vanilla", "--debug"])
    with pytest.raises(spec.InputError):
        cli.main()


def test_training_a_folder_of_ones_own(pilotstudy, tmp_path):
    folder = parquet_folder(tmp_path / "own")
    words = ("train", "quickstart", "--arm", "pilot-a-aug", "--epochs", 2, "--set", f"data.name={folder}")
    words += ("--set", "data.validation=6", "--set", "data.train_size=24", "-o", tmp_path / "out")
    code, out, err = pilotstudy(*words)
    assert code == 0
    assert out.splitlines()[0].startswith("pilot-a-aug on ")
    assert len(out.splitlines()) == 2 + 8  # last and best, point and mc, as it is and scaled
    assert "epoch 2/2" in err
    code, again, err = pilotstudy(*words, "--json", "-q")
    assert (code, err) == (0, "")
    result = json.loads(again)
    assert result["classes"] == ["cat", "dog", "eel"]
    assert result == json.loads((tmp_path / "out" / "result.json").read_text())
    refused(pilotstudy(*words, "--seed", 5), 2, "another trial's result")


def test_divergence_has_its_exit_code(pilotstudy):
    words = (*TRAIN, "--epochs", 1, "--train-size", 100, "--set", "training.learning_rate=1e30", "-q")
    code, out, err = pilotstudy(*words)
    assert code == 4
    assert out == "vanilla: diverged in epoch 1\n"
    assert "not finite in epoch 1" in err


def test_what_reads_can_print_json(pilotstudy):
    rows = json.loads(pilotstudy("arms", "--json")[1])
    assert [row["arm"] for row in rows] == list(arms())
    assert rows[1]["search"]["decoder_variance"] == {"low": 0.01, "high": 2, "log": True, "whole": False}
    assert {row["study"] for row in json.loads(pilotstudy("studies", "--json")[1])} == set(spec.builtin())
    pilotstudy("data", "prepare", "fashion")
    listed = {row["name"]: row for row in json.loads(pilotstudy("data", "list", "--json")[1])}
    assert listed["fashion"]["state"] == "prepared"
    verified = json.loads(pilotstudy("data", "verify", "fashion", "--json")[1])
    assert verified[0]["state"] == "whole"
    doctor = json.loads(pilotstudy("doctor", "--json")[1])
    assert {row["what"]: row["state"] for row in doctor}["torch"] == "works"


def test_verify_finds_damage(pilotstudy, tmp_path):
    from pilotstudy.data import prepared

    folder = parquet_folder(tmp_path / "own")
    assert pilotstudy("data", "prepare", folder)[0] == 0
    path = prepared.find(str(folder)).files.array("test_images")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    code, out, err = pilotstudy("data", "verify", folder)
    assert code == 3
    assert "damaged" in out
    assert err.count("\n") == 1


def test_tables_for_people(pilotstudy):
    code, out, _ = pilotstudy("arms")
    assert code == 0
    for name in arms():
        assert f"\n{name} " in out
    assert "decoder_variance   0.1       0.01 to 2 (log)" in out


def test_help_is_quick_because_it_imports_little():
    script = (
        "import sys\nfrom pilotstudy import cli\nsys.argv = ['pilotstudy', '--help']\n"
        "try: cli.main()\nexcept SystemExit: pass\n"
        "print([m for m in ('torch', 'ray', 'numpy', 'pyarrow', 'pydantic') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "train" in done.stdout
    for code in map(str, (0, 1, 2, 3, 4, 5, 6, 130)):
        assert f" {code} " in done.stdout


def test_ctrl_c(tmp_path):
    import signal

    command = [sys.executable, "-m", "pilotstudy", *TRAIN, "--epochs", "1000", "-o", str(tmp_path / "out")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "epoch 1/" in process.stderr.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("pilotstudy: interrupted")


def test_plan_counts_and_times(pilotstudy):
    words = ("plan", "quickstart", "--train-size", 100, "--epochs", 3, "--concurrency", 2)
    code, out, _ = pilotstudy(*words, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["trials"] == 3 * 3 + 6 + 2 * 3
    assert [row["search"] for row in found["arms"]] == [0, 3, 3]
    assert all(row["seconds"] == row["seconds_a_trial"] * (3 + row["search"] + row["confirm"]) for row in found["arms"])
    more = json.loads(pilotstudy(*words, "--json", "--epochs", 300)[1])
    assert more["seconds"] > found["seconds"] > sum(row["seconds"] for row in found["arms"]) / 2
    assert "21 trials, 2 at a time" in pilotstudy(*words)[1]
