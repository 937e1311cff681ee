import json
import subprocess
import sys
from functools import partial

from pilotstudy.arms.catalogue import all_arms
from pilotstudy.study import reading, spec
from tests.support.command_line import refused
from tests.support.pictures import parquet_folder
from tests.support.waiting import LONG

TRAIN = ("train", "quickstart", "--arm", "vanilla")


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
    assert [row["arm"] for row in rows] == list(all_arms())
    assert {row["group"] for row in rows if row["role"] is None} == {"control", "modern", "bayesian"}
    assert rows[1]["search"]["decoder_variance"] == {"low": 0.01, "high": 2, "log": True, "whole": False}
    assert {row["study"] for row in json.loads(pilotstudy("studies", "--json")[1])} == set(reading.builtin_studies())
    pilotstudy("data", "prepare", "fashion")
    listed = {row["name"]: row for row in json.loads(pilotstudy("data", "list", "--json")[1])}
    assert listed["fashion"]["state"] == "prepared"
    verified = json.loads(pilotstudy("data", "verify", "fashion", "--json")[1])
    assert verified[0]["state"] == "whole"
    doctor = {row["what"]: row for row in json.loads(pilotstudy("doctor", "--json")[1])}
    assert doctor["torch"]["state"] == "works"
    assert any(what.startswith("CUDA") for what in doctor)


def test_show_says_what_is_not_set_and_can_be_run_as_it_is(pilotstudy, tmp_path):
    code, out, _ = pilotstudy("show", "quickstart", "--set", "training.epochs=7")
    assert code == 0
    assert {"epochs = 7", "# image_size is not set", "# patience is not set"} <= set(out.splitlines())
    (tmp_path / "quickstart.toml").write_text(out)
    assert reading.read_study(str(tmp_path / "quickstart.toml")) == reading.read_study(
        "quickstart", {"training.epochs": 7}
    )
    refused(pilotstudy("show", "quickstart", "--set", "training.epoch=7"), 2, "did you mean 'epochs'?")


def test_tables_for_people(pilotstudy):
    code, out, _ = pilotstudy("arms")
    assert code == 0
    for name in all_arms():
        assert f"\n{name} " in out
    assert "decoder_variance   0.1       0.01 to 2 (log)" in out
    groups = {words[0]: words[1] for words in map(str.split, out.splitlines()) if words and words[0] in all_arms()}
    assert {name: groups[name] for name in ("vanilla", "pilot-a-aug", "l2", "sam")} == {
        "vanilla": "reference",
        "pilot-a-aug": "method",
        "l2": "standard",
        "sam": "modern",
    }


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
    interruptible = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # also where a shell started pytest with &
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=interruptible
    )
    try:
        assert "epoch 1/" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LONG)
    finally:
        process.kill()
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("pilotstudy: interrupted")


def test_limits_and_options_reach_the_run(pilotstudy, monkeypatch, tmp_path):
    from pilotstudy.schedule import conduct
    from pilotstudy.study import resources

    seen = []

    def start(study, run, location, engine, judge, *, looks, quiet, limits):
        seen.append((study.resources, location, limits))
        raise spec.InputError("enough")

    monkeypatch.setattr(conduct, "start", start)
    words = ("run", "quickstart", "--runs-dir", tmp_path, "--max-cost", 5, "--price", "L4", "--wait", 3, "--mps")
    assert pilotstudy(*words, "--time-budget", 60, "--gpus-per-trial", "1/4")[0] == 2
    assert pilotstudy("run", "quickstart", "--runs-dir", tmp_path)[0] == 2
    (asked, location, limits), (plain, _, without) = seen
    assert (asked.gpus_per_trial, asked.mps) == (0.25, True)
    assert location == resources.Location()
    assert limits == resources.Limits(time_budget=60, max_cost=5, price=0.71, wait=3)
    assert (plain, without) == (resources.Resources(), resources.Limits())
