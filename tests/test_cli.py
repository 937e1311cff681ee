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
        monkeypatch.delenv("PILOTSTUDY_RUNS", raising=False)
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
        ((*TRAIN, "--device", "cuda:7"), 2, ("cuda:7",)),
        ((*TRAIN, "--device", "tpu"), 2, ("device 'tpu'",)),
        ((*TRAIN, "--seed", "-1"), 2, ("--seed",)),
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
        (("plan", "quickstart", "--gpu", "L5"), 2, ("--gpu L5", "did you mean")),
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
    doctor = {row["what"]: row for row in json.loads(pilotstudy("doctor", "--json")[1])}
    assert doctor["torch"]["state"] == "works"
    assert any(what.startswith("CUDA") for what in doctor)


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
    assert "21 trials, 2 at a time on CPU" in pilotstudy(*words)[1]


def test_plan_says_hours_and_dollars_of_a_machine_with_a_gpu(pilotstudy):
    words = ("plan", "quickstart", "--train-size", 100, "--epochs", 3, "--gpu", "L4", "--price", "0.7")
    code, out, _ = pilotstudy(*words, "--gpus-per-trial", "1/4")
    assert code == 0
    lines = out.splitlines()
    one = next(number for number, line in enumerate(lines) if line.startswith("one machine with an L4: "))
    assert lines[one].endswith(" $ at 0.70 $ an hour (estimate, ±50 %)")
    assert [line.split()[0] for line in lines[one + 1 : one + 4]] == ["2", "4", "8"]
    assert "4 trials share a GPU" in out
    found = json.loads(pilotstudy(*words, "--json")[1])
    assert [row["machines"] for row in found["machines"]] == [1, 2, 4, 8]
    assert not found["measured"]


def test_plan_of_a_gpu_that_cannot_be_used(pilotstudy, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused(pilotstudy("plan", "quickstart", "--gpus-per-trial", "0.5"), 2, "cuda was asked for and cannot be used")
    words = ("plan", "quickstart", "--set", "resources.gpus_per_trial=1")
    refused(pilotstudy(*words), 2, "cuda was asked for and cannot be used")


def test_limits_and_options_reach_the_run(pilotstudy, monkeypatch, tmp_path):
    from pilotstudy import running

    seen = []

    def start(study, run, options, *, quiet, limits):
        seen.append((options, limits))
        raise spec.InputError("enough")

    monkeypatch.setattr(running, "start", start)
    words = ("run", "quickstart", "--runs-dir", tmp_path, "--max-cost", 5, "--price", "L4", "--wait", 3, "--mps")
    assert pilotstudy(*words, "--time-budget", 60, "--gpus-per-trial", "1/4")[0] == 2
    assert pilotstudy("run", "quickstart", "--runs-dir", tmp_path)[0] == 2
    (options, limits), (plain, without) = seen
    assert (options.gpus_per_trial, options.mps) == (0.25, True)
    assert limits == running.Limits(time_budget=60, max_cost=5, price=0.71, wait=3)
    assert (plain, without) == (running.Options(), running.Limits())


def test_why_trials_failed(pilotstudy, tmp_path):
    import pyarrow as pa

    from pilotstudy import tables
    from pilotstudy.files import RunFiles
    from pilotstudy.results import TRIALS

    files = RunFiles(tmp_path / "mine")
    files.results.mkdir(parents=True)
    files.study.write_text("{}")
    rows = [
        {"phase": "arms", "arm": "vanilla", "number": 0, "key": "a", "status": "finished"},
        {"phase": "search", "arm": "dropout", "number": 2, "key": "b", "status": "failed", "error": "ValueError: no"},
        {"phase": "search", "arm": "dropout", "number": 3, "key": "c", "status": "failed", "error": "its actor died"},
    ]
    words = ("status", "mine", "--errors", "--runs-dir", tmp_path)
    tables.save(files.trials, pa.Table.from_pylist(rows[:1], schema=TRIALS))
    assert pilotstudy(*words)[:2] == (0, "no trial of mine failed\n")
    tables.save(files.trials, pa.Table.from_pylist(rows, schema=TRIALS))
    known = {"error": "ValueError: no", "node": "gpu-7", "traceback": "Traceback:\n  line 3\nValueError: no"}
    files.trial("b").result.write_text(json.dumps(known))
    code, out, _ = pilotstudy(*words)
    assert code == 0
    assert out.startswith("search dropout 2 on gpu-7: ValueError: no\n    Traceback:\n      line 3\n")
    assert "\nsearch dropout 3: its actor died\n    no traceback was kept\n" in out
    assert json.loads(pilotstudy(*words, "--json")[1]) == [
        {"trial": "search dropout 2", **known},
        {"trial": "search dropout 3", "error": "its actor died", "node": None, "traceback": None},
    ]
    refused(pilotstudy(*words, "--address", "http://127.0.0.1:1"), 2, "--runs-dir in place of --address")
