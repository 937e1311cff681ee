"""A whole study in this process, through the command and through the engine: no Ray."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter

import pytest

from pilotstudy.runs import schemas
from pilotstudy.runs.folder import Run
from pilotstudy.runs.records import Status
from pilotstudy.runs.results import Results
from pilotstudy.schedule import conduct, inline
from pilotstudy.schedule.director import Director
from pilotstudy.schedule.halving import Halving
from pilotstudy.schedule.inline import inline_engine
from pilotstudy.study.reading import validate_study
from pilotstudy.study.resources import Limits
from pilotstudy.trial.lifecycle import LiveTrial
from tests.support.command_line import refused
from tests.support.made_run import Maker, content
from tests.support.pictures import image_folder
from tests.support.plans import CONTENT, make_study, outcome
from tests.support.waiting import LONG, wait_for

SMALL = ("--inline", "--epochs", "1", "--train-size", "200", "--set", "data.validation=100", "--seeds", "1")
FEW = ("--set", "search.confirm_seeds=1", "--trials", "2")


def test_it_ends_as_the_plan_says_and_its_files_are_those_of_any_run(whole, squares, tmp_path):
    director = Director(make_study(), Run(tmp_path), squares.fingerprint)
    ended = inline_engine(director, squares, Limits(), quiet=True)
    assert (ended.stopping, ended.error) == ("", None)
    assert list(ended.devices.values()) == [os.uname().nodename]
    assert director.all_done()
    assert outcome(director) == outcome(whole)
    assert [row.key for row in Results(director.run.files).rows()] == [item.key for item in director.items]
    assert not list(director.run.files.checkpoints.glob("*"))


class Sealed:
    """Data whose test images nobody may read."""

    def __init__(self, data):
        self.data = data

    def __getattr__(self, name):
        if name.startswith("test_"):
            raise PermissionError(name)
        return getattr(self.data, name)


@pytest.mark.parametrize("phase", ["search", "confirm"])
def test_trials_of_the_search_never_read_test_images(phase, squares, tmp_path, monkeypatch):
    """And those of the confirmation do, which shows that the seal holds."""
    started = inline._Loop._started

    def sealed(self, item, graph):
        self.data = Sealed(squares) if item.phase == phase else squares
        return started(self, item, graph)

    monkeypatch.setattr(inline._Loop, "_started", sealed)
    director = Director(make_study(), Run(tmp_path), squares.fingerprint)
    inline_engine(director, squares, Limits(), quiet=True)
    of_phase = [item for item in director.items if item.phase == phase]
    if phase == "confirm":
        assert {item.status for item in of_phase} == {Status.FAILED}
        assert "PermissionError: test_" in of_phase[0].error
        return
    assert {item.status for item in director.items} == {Status.FINISHED}
    own = [item for item in of_phase if not item.reused]
    assert len(own) == 6
    for item in own:
        result = director.run.result(item.key)
        assert {evaluation.split for evaluation in result.evaluations} == {"validation"}
        assert not result.reliability
        stored = schemas.read(director.run.files.trial(item.key).predictions)
        assert stored["split"].unique().to_pylist() == ["validation"]


def test_a_search_by_seconds_gives_cheap_arms_more_trials(squares, tmp_path, monkeypatch):
    monkeypatch.setattr(LiveTrial, "seconds", property(lambda trial: 4.0 if trial.trial.arm == "pilot-a-aug" else 1.0))
    director = Director(make_study(budget="seconds", trials=11), Run(tmp_path), squares.fingerprint)
    inline_engine(director, squares, Limits(), quiet=True)
    searched = Counter(item.arm for item in director.items if item.phase == "search")
    assert searched == {"pilot-a-aug": 3, "dropout": 8}  # 8 s each, and one more
    assert director.total == len(director.items) == director.done


def test_the_command_needs_no_ray(pilotstudy, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # importing it is an error
    words = ("run", "quickstart", *SMALL, *FEW, "--runs-dir", tmp_path, "--json")
    code, out, err = pilotstudy(*words)
    assert code == 0, err
    assert {row["arm"] for row in json.loads(out)["results"]} == {"vanilla", "pilot-a-aug", "dropout"}
    assert pilotstudy("resume", "quickstart", "--inline", "--runs-dir", tmp_path)[0] == 0


def test_only_what_an_earlier_start_had_was_there_already(pilotstudy, tmp_path):
    """The first point of a search is a trial of the arms, which is no repetition."""
    words = ("run", "quickstart", *SMALL, *FEW, "--runs-dir", tmp_path)
    assert "there already" not in pilotstudy(*words)[2]
    assert "7 of 7 trials were there already" in pilotstudy(*words)[2]
    assert "7 of 10 trials were there already" in pilotstudy(*words, "--seeds", 2)[2]


def test_a_study_of_which_all_trials_diverge_has_the_exit_code_of_that(pilotstudy, tmp_path):
    words = ("run", "quickstart", *SMALL, "--runs-dir", tmp_path, "-q", "--set", "training.learning_rate=1e30")
    refused(pilotstudy(*words, "--trials", 0), 4, "3 of 3 trials diverged", "lower the learning rate")
    refused(pilotstudy("resume", "quickstart", "--inline", "--runs-dir", tmp_path, "-q"), 4, "3 of 3 trials diverged")


def test_some_that_diverge_are_counted(tmp_path, capsys):
    maker = Maker(tmp_path / "run", validate_study(content(search=None), "made"), points=20)
    maker.make(2, "diverged")
    conduct._check(maker.director, maker.make())
    assert capsys.readouterr().err == "2 of 12 trials diverged: their losses were not finite\n"


def test_what_does_not_fit_is_refused(pilotstudy, tmp_path):
    words = ("run", "quickstart", "--inline", "--runs-dir", tmp_path)
    assert "give one of them" in pilotstudy(*words, "--address", "auto")[2]
    code, _, err = pilotstudy(*words, "--gpus-per-trial", "auto")
    assert code == 2
    assert "--gpus-per-trial 1" in err


def test_a_trial_that_fails_is_told_with_its_traceback_and_tried_again(squares, tmp_path, monkeypatch):
    director = Director(make_study(trials=0), Run(tmp_path), squares.fingerprint)

    class Broken(inline.LiveTrial):
        def advance(self):
            if self.trial.arm == "dropout":
                raise ValueError("no <luck>")
            return super().advance()

    monkeypatch.setattr(inline, "LiveTrial", Broken)
    assert inline_engine(director, squares, Limits(), quiet=True).error is None
    failed = [item for item in director.items if item.status is Status.FAILED]
    assert {item.arm for item in failed} == {"dropout"}
    assert failed[0].error == "ValueError: no <luck>"
    assert "in advance" in director.run.result(failed[0].key).traceback
    monkeypatch.undo()
    again = Director(make_study(trials=0), Run(tmp_path), squares.fingerprint)
    inline_engine(again, squares, Limits(), quiet=True)
    assert {item.status for item in again.items} == {Status.FINISHED}
    assert {item.arm for item in again.items if not item.reused} == {"dropout"}


@pytest.mark.parametrize(
    ("limits", "why"), [(Limits(time_budget=1e-9), "time"), (Limits(max_cost=1e-12, price=1.0), "cost")]
)
def test_a_budget_ends_it_and_nothing_is_lost(squares, tmp_path, limits, why):
    director = Director(make_study(), Run(tmp_path), squares.fingerprint)
    assert inline_engine(director, squares, limits, quiet=True).stopping == why


def test_a_trial_that_is_stopped_within_goes_on_to_the_same_bits(squares, tmp_path, monkeypatch):
    four_epochs = {"search": None, "seeds": [0], "training": {"epochs": 4, "batch_size": 32}}
    study = validate_study(CONTENT | four_epochs, "test")
    undisturbed = Director(study, Run(tmp_path / "a"), squares.fingerprint)
    inline_engine(undisturbed, squares, Limits(), quiet=True)
    run = Run(tmp_path / "b")
    run.files.folder.mkdir()

    class Stopped(inline.LiveTrial):
        def advance(self):
            record = super().advance()
            if self.trainer.epoch == 2:
                run.files.stop.write_text("")
            return record

    monkeypatch.setattr(inline, "LiveTrial", Stopped)
    ended = inline_engine(Director(study, run, squares.fingerprint), squares, Limits(), quiet=True)
    assert ended.stopping == "stopped"
    assert len(list(run.files.checkpoints.glob("*.pt"))) == 1
    assert not list(run.files.results.glob("*.json"))
    monkeypatch.undo()
    run.files.stop.unlink()
    assert not inline_engine(Director(study, run, squares.fingerprint), squares, Limits(), quiet=True).stopping
    for item in undisturbed.items:
        assert run.result(item.key).evaluations == undisturbed.run.result(item.key).evaluations


@pytest.mark.long
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    image_folder(tmp_path / "pictures")
    command = [sys.executable, "-m", "pilotstudy", "run", "quickstart", "--inline", "--runs-dir", str(tmp_path)]
    command += ["--epochs", "1000", "--train-size", "200", "--set", "data.validation=100"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    wait_for((tmp_path / "quickstart" / "checkpoints").exists, "a checkpoint", LONG, process=process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LONG)
    assert process.returncode == 130
    assert f"`pilotstudy resume quickstart --runs-dir {tmp_path}` goes on from here" in err
    assert list((tmp_path / "quickstart" / "checkpoints").glob("*.pt"))
    assert "Traceback" not in err
    assert out == ""


def test_early_stopping_halves_each_arm_by_itself(squares, tmp_path):
    content = CONTENT | {"training": {"epochs": 4, "batch_size": 32}, "seeds": [0]}
    search = content["search"] | {"early_stopping": True, "trials": 12, "confirm_seeds": 1}
    director = Director(validate_study(content | {"search": search}, "test"), Run(tmp_path), squares.fingerprint)
    inline_engine(director, squares, Limits(), quiet=True)
    for arm in search["arms"]:
        statuses = [item.status for item in director.items if (item.phase, item.arm) == ("search", arm)]
        assert Status.STOPPED in statuses
        assert Status.FINISHED in statuses
    assert all(item.status is Status.FINISHED for item in director.items if item.phase != "search")


def test_the_halving_is_that_of_ray():
    """The same decisions as Ray Tune's ASHA, on random losses that come in random order."""
    import numpy as np
    from ray.tune.schedulers import ASHAScheduler

    class Trial:
        def __init__(self, number: int):
            self.trial_id = str(number)

    stops = 0
    for seed in range(30):
        random = np.random.default_rng(seed)
        epochs = int(random.integers(1, 60))
        ours, trials = Halving(epochs), [Trial(number) for number in range(9)]
        first = max(1, epochs // 8)
        theirs = ASHAScheduler("epoch", "loss", "min", max_t=epochs, grace_period=first, reduction_factor=3)
        for trial in trials:
            theirs.on_trial_add(None, trial)
        under_way = dict.fromkeys(range(9), 1)
        while under_way:
            number = int(random.choice(list(under_way)))
            epoch, loss = under_way[number], float(random.normal())
            told = {"epoch": epoch, "loss": loss}
            stopped = ours.stops(str(number), epoch, loss)
            if epoch == epochs:
                theirs.on_trial_complete(None, trials[number], told)
            else:
                assert stopped == (theirs.on_trial_result(None, trials[number], told) == "STOP")
                stops += stopped
            if stopped or epoch == epochs:
                del under_way[number]
            else:
                under_way[number] += 1
    assert stops > 50
