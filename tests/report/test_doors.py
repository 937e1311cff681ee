"""Runs in the files of other tools, each read by the tool itself."""

import json
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import optuna
import pytest
from mlflow.tracking import MlflowClient
from optuna.trial import TrialState
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.report.doors.optuna_file import ranges_of
from pilotstudy.report.doors.writing import write_door
from pilotstudy.runs.folder import Run
from pilotstudy.runs.records import Status
from pilotstudy.runs.results import Results
from pilotstudy.study import reading
from tests.support.command_line import refused
from tests.support.foreign import as_npz
from tests.support.made_run import Maker, content, made
from tests.support.waiting import wait_for

FLOOR = {"arms": ["pilot-a-aug", "dropout"], "trials": 8, "confirm_seeds": 2, "accuracy_floor": 0.45}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory) -> Run:
    """A run with every ending: finished, diverged, failed, stopped early, under way and waiting."""
    folder = tmp_path_factory.mktemp("mixed") / "gemischt ü"
    study = reading.validate_study(content(seeds=[0, 1], search=FLOOR, title="<b>ü</b> ☃"), "mixed")
    maker = Maker(folder, study, points=60)
    maker.make(6)
    maker.make(1, "diverged")
    maker.make(1, "failed")
    maker.make(3)
    maker.make(1, "stopped")
    maker.director.next()
    maker.director.save()
    return maker.run


def test_each_searched_arm_is_a_study_of_optuna(run, tmp_path):
    path = tmp_path / "a b.db"
    write_door("optuna", RunEvidence(run), path)
    names = optuna.get_all_study_names(f"sqlite:///{path}")
    assert names == ["made/arms", "made/search/pilot-a-aug", "made/search/dropout", "made/confirm"]
    study = optuna.load_study(study_name="made/search/dropout", storage=f"sqlite:///{path}")
    rows = [row for row in Results(run.files).rows() if (row.phase, row.arm) == ("search", "dropout")]
    assert study.metric_names == ["validation_nll"]
    assert len(study.trials) == len(rows) == 4
    for trial, row in zip(study.trials, rows, strict=True):
        assert trial.params == {"rate": row.settings["rate"]}
        assert trial.value == pytest.approx(row.figures["nll"])
        assert (trial.user_attrs["key"], trial.user_attrs["seed"]) == (row.key, row.seed)
        assert trial.user_attrs["validation_accuracy"] == pytest.approx(row.figures["accuracy"])
        assert sorted(trial.intermediate_values) == [1, 2, 3, 4, 5, 6]
        assert trial.duration.total_seconds() == pytest.approx(row.training_seconds, abs=1e-3)
    assert trial.distributions["rate"].low < trial.params["rate"] < trial.distributions["rate"].high
    fixed = optuna.load_study(study_name="made/arms", storage=f"sqlite:///{path}")
    assert fixed.metric_names == ["test_accuracy", "test_nll", "test_ece"]
    assert [direction.name for direction in fixed.directions] == ["MAXIMIZE", "MINIMIZE", "MINIMIZE"]
    assert {(trial.params["arm"], trial.params["seed"]) for trial in fixed.trials} == {
        (arm, seed) for arm in run.study().arms for seed in (0, 1, 2)
    }
    study.optimize(lambda trial: trial.suggest_float("rate", 0.1, 0.7), n_trials=1)  # Optuna can go on with it
    assert len(study.trials) == 5


def test_optuna_is_told_how_trials_ended(mixed, tmp_path):
    write_door("optuna", RunEvidence(mixed), tmp_path / "o.db")
    states, floors = {}, {}
    for name in optuna.get_all_study_names(f"sqlite:///{tmp_path / 'o.db'}"):
        for trial in optuna.load_study(study_name=name, storage=f"sqlite:///{tmp_path / 'o.db'}").trials:
            states[trial.user_attrs["key"]] = trial.state
            floors[trial.user_attrs["key"]] = trial.constraints
    rows = {row.key: row for row in Results(mixed.files).rows()}
    expected = {
        Status.FINISHED: TrialState.COMPLETE,
        Status.DIVERGED: TrialState.FAIL,
        Status.FAILED: TrialState.FAIL,
        Status.STOPPED: TrialState.PRUNED,
        Status.RUNNING: TrialState.RUNNING,
    }
    assert states == {key: expected[row.status] for key, row in rows.items() if row.status != Status.WAITING}
    assert set(states.values()) == set(expected.values())
    searched = [row for row in rows.values() if row.phase == "search" and row.status == Status.FINISHED]
    assert searched
    for row in searched:
        assert floors[row.key] == {"accuracy_floor": pytest.approx(0.45 - row.figures["accuracy"])}


def test_what_an_earlier_space_proposed_lies_in_the_ranges():
    space = {**made_space(), "late": made_space()["rate"]}
    ranges = ranges_of(space, [{"rate": 0.5}, {"rate": 0.95}])
    assert list(ranges) == ["rate"]
    assert (ranges["rate"].low, ranges["rate"].high) == (0.1, 0.95)


def made_space():
    from pilotstudy.arms.arm import Range

    return {"rate": Range(0.1, 0.7)}


@contextmanager
def server(*words: object):
    """A server of one of the tools, on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command, *others = map(str, words)
    process = subprocess.Popen(
        [Path(sys.executable).with_name(command), *others, "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def ask(path: str, body: object = None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        with urllib.request.urlopen(
            urllib.request.Request(f"http://127.0.0.1:{port}/{path}", data, headers), timeout=60
        ) as answer:
            return json.load(answer)

    def ready(path: str, enough: int) -> bool:
        try:
            return len(ask(path)) >= enough
        except OSError:
            return False

    try:
        yield ask, lambda path, enough=1: wait_for(lambda: ready(path, enough), "an answer", process=process)
    finally:
        process.terminate()
        process.wait()


def test_the_optuna_dashboard_shows_it(mixed, tmp_path):
    path = tmp_path / "o.db"
    write_door("optuna", RunEvidence(mixed), path)
    with server("optuna-dashboard", f"sqlite:///{path}") as (ask, until):
        until("api/studies")
        studies = {each["study_name"]: each["study_id"] for each in ask("api/studies")["study_summaries"]}
        detail = ask(f"api/studies/{studies['gemischt ü/search/pilot-a-aug']}?after=0")
    assert detail["name"] == "gemischt ü/search/pilot-a-aug"
    assert {"decoder_variance", "mask_rate"} <= {each["name"] for each in detail["union_search_space"]}
    assert "Complete" in {trial["state"] for trial in detail["trials"]}


def test_tensorboard_reads_epochs_figures_and_settings(mixed, tmp_path):
    write_door("tensorboard", RunEvidence(mixed), tmp_path / "tb")
    rows = [row for row in Results(mixed.files).rows() if row.status != Status.WAITING]
    assert len(list((tmp_path / "tb").rglob("events.*"))) == len(rows) + 1
    row = next(row for row in rows if row.arm == "dropout" and row.phase == "arms")
    events = EventAccumulator(str(tmp_path / "tb" / "dropout" / f"arms-{row.number}-seed{row.seed}")).Reload()
    assert [event.step for event in events.Scalars("validation_nll")] == [1, 2, 3, 4, 5, 6]
    (figure,) = events.Scalars("test_nll_mc")
    sampled = [e for e in row.evaluations if (e.at, e.mode, e.split, e.scaled) == ("last", "mc", "test", False)]
    assert (figure.step, figure.value) == (6, pytest.approx(sampled[0].figures["nll"], rel=1e-6))
    with server("tensorboard", "--logdir", tmp_path / "tb", "--load_fast=false") as (ask, until):
        until("data/runs", len(rows) + 1)
        experiment = ask("data/plugin/hparams/experiment", {})
        columns = [{"metric": each["name"]} for each in experiment["metricInfos"]]
        asked = {"startIndex": 0, "sliceSize": 100, "colParams": columns}
        statuses = ["STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING", "STATUS_UNKNOWN"]
        groups = ask("data/plugin/hparams/session_groups", asked | {"allowedStatuses": statuses})["sessionGroups"]
    assert experiment["description"] == "<b>ü</b> ☃"
    assert {"arm", "seed", "rate", "mask_rate"} <= {each["name"] for each in experiment["hparamInfos"]}
    shown = {group["sessions"][0]["name"]: group for group in groups}
    assert len(shown) == len(rows)
    dropout = shown[f"dropout/arms-{row.number}-seed{row.seed}"]
    assert dropout["hparams"]["rate"] == row.settings["rate"]
    values = {each["name"]["tag"]: each["value"] for each in dropout["metricValues"]}
    assert values["test_nll_mc"] == pytest.approx(figure.value)
    failed = next(row for row in rows if row.status == Status.FAILED)
    session = shown[f"{failed.arm}/{failed.phase}-{failed.number}-seed{failed.seed}"]["sessions"][0]
    assert session["status"] == "STATUS_FAILURE"


def test_mlflow_has_trials_within_the_study(mixed, tmp_path):
    write_door("mlflow", RunEvidence(mixed), tmp_path / "ml")
    client = MlflowClient(f"sqlite:///{tmp_path / 'ml' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("gemischt ü")
    assert experiment.artifact_location == (tmp_path / "ml" / "artifacts").as_uri()
    (parent,) = client.search_runs([experiment.experiment_id], "attributes.run_name = 'gemischt ü'")
    assert (parent.data.params["network"], parent.data.tags["mlflow.note.content"]) == ("mlp-512", "<b>ü</b> ☃")
    within = f"tags.mlflow.parentRunId = '{parent.info.run_id}'"
    trials = {trial.info.run_name: trial for trial in client.search_runs([experiment.experiment_id], within)}
    rows = {
        f"{row.arm} {row.phase}-{row.number}-seed{row.seed}": row
        for row in Results(mixed.files).rows()
        if row.status != Status.WAITING
    }
    assert set(trials) == set(rows)
    endings = {"finished": "FINISHED", "diverged": "FAILED", "failed": "FAILED", "stopped": "KILLED"}
    for name, trial in trials.items():
        row = rows[name]
        assert trial.info.status == endings.get(row.status, "RUNNING")
        assert trial.data.params == {
            "arm": row.arm,
            "phase": row.phase,
            "number": str(row.number),
            "seed": str(row.seed),
            **{name: str(value) for name, value in row.settings.items()},
        }
        assert (trial.data.tags["key"], trial.data.tags.get("error")) == (row.key, row.error)
        if row.status == Status.FINISHED:
            assert trial.data.metrics["validation_accuracy"] == pytest.approx(0.6 - 0.4 * 2.718281828**-2)
            history = client.get_metric_history(trial.info.run_id, "train_loss")
            assert [metric.step for metric in history] == [1, 2, 3, 4, 5, 6]
            assert trial.info.end_time - trial.info.start_time == pytest.approx(1000 * row.training_seconds, abs=1)
    best = client.search_runs(
        [experiment.experiment_id], within + " and params.arm = 'l2'", order_by=["metrics.test_nll"]
    )
    assert [trial.data.params["arm"] for trial in best] == ["l2", "l2"]
    client.set_tag(best[0].info.run_id, "seen", "yes")  # it can be written on


@pytest.mark.parametrize("door", ["optuna", "tensorboard", "mlflow"])
def test_runs_of_every_kind_can_be_told(pilotstudy, tmp_path, door):
    """Without a search, without a trial, and of predictions from elsewhere, with names of all sorts."""
    plain = made(tmp_path / "plain", points=60, seeds=[0], search=None, arms={"vanilla": {}})
    paths = as_npz(plain, tmp_path / "npz", validation=False)
    assert pilotstudy("import", "größe 5 %", "--predictions", *paths, "--runs-dir", tmp_path)[0] == 0
    made(tmp_path / "empty", most=0)
    for name, trials in ("plain", 1), ("größe 5 %", 1), ("empty", 0):
        target = tmp_path / f"{door} {name}"
        code, out, err = pilotstudy("export", name, f"--{door}", target, "--runs-dir", tmp_path)
        assert (code, out) == (0, "")
        assert f"{trials} trials in {target}" in err
        assert target.exists()
        refused(pilotstudy("export", name, f"--{door}", target, "--runs-dir", tmp_path), 2, "exists already")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_an_export_says_what_it_lacks(pilotstudy, run, tmp_path, monkeypatch):
    place = run.files.folder
    refused(pilotstudy("export", place), 2, "--output", "--optuna", "--tensorboard", "--mlflow")
    refused(pilotstudy("export", place, "--mlflow", tmp_path / "x", "-o", tmp_path / "x"), 2, "given twice")
    for module, package in ("tensorboard", "tensorboard"), ("mlflow", "mlflow-skinny"):
        for name in [
            name for name in sys.modules if name.split(".")[0] == module or name.endswith(f".{module}_folder")
        ]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, module, None)
        refused(pilotstudy("export", place, f"--{module}", tmp_path / module), 2, f"`pip install {package}`")
    assert list(tmp_path.iterdir()) == []
