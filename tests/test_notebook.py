"""Python: studies and runs as objects, on real runs in this process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pilotstudy
from pilotstudy.errors import InputError
from tests.support.made_run import made
from tests.support.pictures import parquet_folder
from tests.support.places import ROOT

HOSTILE = "<script>alert('x')</script>"


def content(data: Path, **changes) -> dict:
    return {
        "name": "small",
        "title": HOSTILE,
        "seeds": [0, 1],
        "data": {"name": str(data), "validation": 6},
        "network": "mlp-512",
        "training": {"epochs": 1, "batch_size": 8},
        "arms": {"vanilla": {}, "dropout": {}},
        "claims": [{"says": HOSTILE, "holds": "nll: dropout@mc < vanilla"}],
    } | changes


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("notebook")
    parquet_folder(folder / "own")
    return folder


@pytest.fixture(scope="module")
def ran(folder) -> "pilotstudy.Run":
    study = pilotstudy.Study.from_dict(content(folder / "own"))
    return study.run("inline", runs_dir=folder / "runs", quiet=True)


def test_a_study_runs_and_shows_what_the_commands_show(ran, folder, capsys, monkeypatch):
    table = ran.table(["nll", "ece"])
    assert [row["row"] for row in table] == ["vanilla", "dropout", "dropout@mc", "ensemble"]
    monkeypatch.setattr(sys, "argv", ["pilotstudy", "table", "small", "--runs-dir", str(folder / "runs")])
    with pytest.raises(SystemExit):
        pilotstudy.cli.main()
    assert repr(ran.table()) + "\n" == capsys.readouterr().out
    assert "\\begin{table}" in table.to("latex")
    assert repr(ran) == f"Run 'small': done, 4 of 4 trials; mlp-512 on {folder / 'own'}"
    assert [row["arm"] for row in ran.results] == ["vanilla", "vanilla", *["dropout"] * 4]
    assert ran.compare("dropout", ["nll"])[0]["against"] == "dropout"
    assert len(ran.claims("nll: dropout < vanilla")) == 2
    assert ran.answer().endswith(".")
    assert {row["row"] for row in ran.ensembles()} == {"ensemble", "vanilla@seeds", "dropout@seeds"}
    page = ran.dashboard()
    assert Path(page).read_text().startswith("<!doctype html>")
    assert str(folder) in page._repr_html_()
    assert ran.study.content.training.epochs == 1


def test_several_runs_on_one_page(ran, folder, tmp_path, monkeypatch):
    other = made(folder / "other", points=20, most=6, search=None)
    page = pilotstudy.dashboard(ran, other.files.folder, output=tmp_path / "both.html")
    assert "Compared: small, other" in Path(page).read_text()
    monkeypatch.chdir(tmp_path)
    assert Path(pilotstudy.dashboard(ran)) == ran.files.dashboard
    assert str(pilotstudy.dashboard(ran, other.files.folder)) == "comparison.html"
    with pytest.raises(InputError, match="give a run"):
        pilotstudy.dashboard()


def test_seeds_are_added_until_it_is_decided(folder, capsys, monkeypatch):
    """By Python, and the same command goes on with its plan, though nothing is left to do."""
    sure = [{"says": "sure", "holds": "nll: vanilla > 0.01"}]
    study = pilotstudy.Study.from_dict(content(folder / "own", name="decided", claims=sure))
    ran = study.run("inline", runs_dir=folder / "runs", until_decided=True, max_seeds=5, quiet=True)
    assert ran.trials["arm"].to_pylist() == ["vanilla"] * 3 + ["dropout"] * 3
    assert [(claim["verdict"], claim["look"], claim["seeds"]) for claim in ran.claims()] == [("holds", 1, 3)]
    assert "planned looks (3, 5 seeds), of which 1 was taken" in repr(ran.claims())
    (folder / "decided.toml").write_text(study.to_toml())
    words = ["--until-decided", "--max-seeds", "5", "--inline", "--json", "--runs-dir", str(folder / "runs")]
    monkeypatch.setattr(sys, "argv", ["pilotstudy", "run", str(folder / "decided.toml"), *words])
    with pytest.raises(SystemExit) as ended:
        pilotstudy.cli.main()
    said = json.loads(capsys.readouterr().out)["until_decided"]
    assert ended.value.code in (None, 0)
    assert (said["looks"], said["taken"], said["trials"], said["trials_saved"]) == ([3, 5], 1, 6, 4)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"until_decided": True, "max_seeds": 1}, "max_seeds = 1"),
        ({"until_decided": True, "seeds": 3}, "--max-seeds"),
        ({"max_seeds": 8}, "--until-decided"),
    ],
)
def test_looks_that_cannot_be_planned_are_refused(folder, words, told):
    study = pilotstudy.Study.from_dict(content(folder / "own", name="refused"))
    with pytest.raises(InputError, match=told):
        study.run("inline", runs_dir=folder / "runs", **words)
    assert not (folder / "runs" / "refused").exists()


def test_what_users_wrote_is_text_in_html(ran):
    for shown in ran, ran.table(), ran.claims(), ran.study, ran.results, ran.compare(), ran.ensembles():
        page = shown._repr_html_()
        assert "<script" not in page
        assert "<table>" in page or "<pre>" in page
    for shown in ran, ran.table(), ran.claims(), ran.study:
        assert "&lt;script&gt;alert(" in shown._repr_html_()


def test_a_loaded_run_is_the_same_and_has_its_tables(ran, folder):
    loaded = pilotstudy.load(folder / "runs" / "small")
    assert type(loaded) is type(ran) is pilotstudy.Run
    assert (loaded.trials.num_rows, loaded.epochs.num_rows) == (4, 4)
    assert set(loaded.evaluations.to_pandas()["arm"]) == {"vanilla", "dropout"}
    assert loaded.predictions.num_rows == 4 * 2 * (6 + 12) + 2 * 2 * (6 + 12)
    assert list(loaded.table().to_pandas()["row"]) == [row["row"] for row in ran.table()]
    with pytest.raises(InputError, match="unknown run"):
        pilotstudy.load(folder / "runs" / "smal")


def test_more_seeds_go_into_the_same_run(folder):
    study = pilotstudy.Study.from_dict(content(folder / "own", arms={"vanilla": {}}, claims=[], name="more"))
    keys = [study.run(runs_dir=folder / "runs", seeds=seeds, quiet=True).trials["key"].to_pylist() for seeds in (1, 2)]
    assert keys[0] == keys[1][:1]
    assert len(keys[1]) == 2


def test_a_run_without_results_says_so(tmp_path):
    empty = pilotstudy.load(made(tmp_path / "empty", most=0).files.folder)
    assert "No trial has finished yet" in empty._repr_html_()
    with pytest.raises(InputError, match="no finished trial"):
        empty.table()


def test_files_beside_the_notebook(folder, monkeypatch):
    (folder / "beside.py").write_text(
        "import pilotstudy\n\n@pilotstudy.metric('margin', better='higher')\ndef margin(points):\n"
        "    return points.p.max(1) - points.p.min(1)\n"
    )
    (folder / "claims.toml").write_text('[[claims]]\nsays = "?"\nholds = "margin: dropout > vanilla"\n')
    monkeypatch.chdir(folder)
    try:
        study = pilotstudy.Study.from_dict(content(folder / "own", uses=["beside.py"], claims="claims.toml"))
        assert study.content.claims[0].holds == "margin: dropout > vanilla"
        assert [used["name"] for used in study.to_dict()["uses"]] == ["beside.py"]
    finally:
        from pilotstudy import extensions

        extensions._forget("beside")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"training": {"epochs": "ten"}}, "study: training.epochs = 'ten'"),
        ({"arms": {"dropuot": {}}}, "did you mean 'dropout'?"),
        ({"uses": ["none.py"]}, "cannot read 'none.py'"),
    ],
)
def test_what_is_wrong_with_a_study_is_a_value_error_of_one_line(changes, told):
    with pytest.raises(ValueError, match=r"study|uses") as caught:
        pilotstudy.Study.from_dict(content(Path("own"), **changes))
    assert isinstance(caught.value, pilotstudy.InputError)
    assert told in str(caught.value)
    assert caught.value._render_traceback_() == [f"WrongStudyError: {caught.value}"]  # all that IPython shows


def test_built_in_studies_files_and_changes(tmp_path):
    study = pilotstudy.Study.load("quickstart", {"training.epochs": 2})
    assert study.content.training.epochs == 2
    assert repr(study).startswith("Study 'quickstart': vanilla, ")
    (tmp_path / "x.toml").write_text(study.to_toml())
    assert pilotstudy.Study.load(tmp_path / "x.toml").to_dict() == study.to_dict()
    with pytest.raises(ValueError, match="did you mean 'quickstart'"):
        pilotstudy.Study.load("quikstart")


def test_how_it_is_run_is_checked(folder):
    study = pilotstudy.Study.from_dict(content(folder / "own"))
    for options, told in (
        ({"backend": "raya"}, "did you mean 'ray'"),
        ({"backend": None}, "backend None: known are inline, ray"),
        ({"name": "../x"}, "a name is that of a folder"),
        ({"name": ""}, "a name cannot be empty"),
        ({"name": 3}, "a name is a text"),
        ({"seeds": 0}, "seeds = 0: expected a whole number from 1 to 10,000"),
        ({"seeds": 10_001}, "seeds = 10001"),
        ({"seeds": "3"}, "seeds = '3'"),
        ({"seeds": True}, "seeds = True"),
        ({"trials": 3}, r"no \[search\]"),
        ({"trials": -1}, "trials = -1: expected a whole number from 0 to 1,000,000"),
        ({"trials": 2.5}, "trials = 2.5"),
        ({"time_budget": -1}, "time_budget = -1"),
        ({"address": "auto"}, "give one of them"),
    ):
        with pytest.raises(InputError, match=told):
            study.run(**options, runs_dir=folder / "none", quiet=True)
    assert not (folder / "none").exists()


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", 3])
def test_names_of_studies_are_those_of_folders(folder, name):
    unnamed = {key: value for key, value in content(folder / "own").items() if key != "name"}
    with pytest.raises(InputError, match="name"):
        pilotstudy.Study.from_dict(unnamed, name)


def test_what_is_asked_of_a_run_is_checked(ran):
    for ask in ran.table, ran.compare, ran.ensembles:
        with pytest.raises(InputError, match="at = 'x': it is one of last, best"):
            ask(at="x")
        with pytest.raises(InputError, match="recalibration = 'x': it is one of none, temperature, vector"):
            ask(recalibration="x")
    with pytest.raises(InputError, match=r"give a list, \['nll'\]"):
        ran.table("nll")


def test_advice_in_python_is_not_about_options_of_commands(folder):
    with pytest.raises(InputError, match=r"^changes training.epoch: unknown key"):
        pilotstudy.Study.load("quickstart", {"training.epoch": 3})
    made(folder / "claimless", points=20, most=1, claims=[])
    assert repr(pilotstudy.load(folder / "claimless").claims()) == "the study states no claims"


NOTEBOOK = """
import sys
import pilotstudy
pilotstudy.arm, pilotstudy.network, pilotstudy.metric, pilotstudy.Settings, pilotstudy.Points
assert "torch" not in sys.modules
assert sorted(pilotstudy.__all__) == dir(pilotstudy) and all(getattr(pilotstudy, name) for name in dir(pilotstudy))

cell = '''
@pilotstudy.arm("mine", "scaled logits", modes=("point",))
class Mine(pilotstudy.Regulariser):
    def training_logits(self, x):
        return scaled(super().training_logits(x))

def scaled(logits):
    return logits * FACTOR

FACTOR = {factor}

@pilotstudy.metric("sureness", better="higher", bounds=(0, 1))
def sureness(points):
    return points.p.max(1)
'''
exec(cell.format(factor=0.5))
study = pilotstudy.Study.from_dict({
    "name": "here", "data": {"name": "own", "validation": 6}, "network": "mlp-512",
    "training": {"epochs": 1, "batch_size": 8}, "arms": {"vanilla": {}, "mine": {}},
})
keys = lambda: study.run("inline", quiet=True).trials["key"].to_pylist()
first = keys()
assert first == keys()
exec(cell.format(factor=0.25))  # another arm under the same name is trained anew
second = keys()
assert (first[0], first[1]) == (second[0], first[1]) and first[1] != second[1]
print(pilotstudy.load("here").table(["sureness"]).to("csv").splitlines()[2].split(",")[0])
try:
    study.run("ray")
except pilotstudy.errors.InputError as error:
    print(error)
assert "ray" not in sys.modules
"""


@pytest.mark.long
def test_what_a_notebook_declares_runs_inline_and_is_refused_on_ray(folder):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", NOTEBOOK]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    row, refusal = done.stdout.splitlines()
    assert row == "mine"
    assert refusal.startswith("arm 'mine': declared in this process")
    assert "`uses`" in refusal
