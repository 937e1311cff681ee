"""The records of a run: what is written can be read again, whichever way it was made."""

import dataclasses
import json
from pathlib import Path

import pytest

from pilotstudy.errors import DataError
from pilotstudy.runs.folder import Run
from pilotstudy.runs.frozen import FrozenStudy
from pilotstudy.runs.records import (
    Bin,
    Diagram,
    Evaluation,
    Place,
    Proposal,
    Status,
    TrialResult,
    validation_figures,
)
from pilotstudy.schedule.director import Director
from pilotstudy.study.resources import Location
from tests.support.plans import conduct, make_study
from tests.support.squares import make_trial

PATH = Path("results/abc.json")


def test_which_statuses_have_ended_and_which_are_final():
    assert [status for status in Status if not status.ended] == [Status.WAITING, Status.RUNNING]
    assert [status for status in Status if status.final] == [Status.FINISHED, Status.DIVERGED, Status.STOPPED]
    assert not Status.FAILED.final  # it is tried again when a run is resumed


def full_result() -> TrialResult:
    """With a value in every field, none of them the default."""
    figures = {"nll": 0.1 + 0.2, "accuracy": 0.75, "ece": 1e-17, "brier": 0.5}
    last = Evaluation("last", "point", "validation", False, 1.0, 60, figures)
    bins = Bin(0, None, None, 0.0, 0.5), Bin(7, 0.6, 0.7, 0.5, 1.0)
    return TrialResult(
        format=TrialResult.FORMAT,
        version="9.9",
        trial=make_trial("dropout", seed=4, rate=0.25),
        fingerprint="ff",
        classes=("a", "b"),
        train_size=180,
        parameters={"network": 12},
        environment={"torch": "2", "device": "cpu", "threads": 1, "driver": None, "memory_gib": 23.5},
        notes=("went on on a CPU",),
        training_seconds=0.0,
        node="n1",
        host="h",
        gpu="",
        moves=2,
        restarts=1,
        status=Status.FINISHED,
        epochs=3,
        best_epoch=2,
        evaluations=(last, dataclasses.replace(last, split="test", scaled=True, temperature=1.7)),
        validation_reliability=bins,
        reliability=(Diagram("best", "mc", bins),),
        error="E: x",
        traceback="Traceback",
    )


def test_a_result_is_read_as_it_was_written():
    result = full_result()
    again = TrialResult.from_json(result.to_json(), PATH)
    assert again == result
    assert dataclasses.asdict(again) == dataclasses.asdict(result)  # the format, too
    assert TrialResult.from_json(again.to_json(indent=None).encode(), PATH) == result
    assert again.place == Place("n1", "h", "")
    assert validation_figures(again.evaluations) == result.evaluations[0].figures
    row = json.loads(result.to_json())["evaluations"][1]
    assert (row["nll"], row["temperature"], row["split"]) == (0.1 + 0.2, 1.7, "test")  # flat, and to the bit


def test_a_result_without_evaluations_has_nothing_for_a_search():
    result = TrialResult(trial=make_trial(), fingerprint="ff", status=Status.DIVERGED, epochs=1)
    assert validation_figures(result.evaluations) is None
    assert "best_epoch" not in result.content()  # of what is not known, nothing
    assert TrialResult.from_json(result.to_json(), PATH) == result


def test_every_result_has_the_same_form(squares, tmp_path):
    """Whether a trial reached its end or the director gave it up."""
    plan = Director(make_study(trials=0), Run(tmp_path), squares.fingerprint)
    failed = plan.next()
    plan.failed(failed.key, "E: no luck", "Traceback ..", Place("n1", "h", "0"))
    stopped = plan.next()
    plan.stopped_early(stopped.key, 7, 1.5)
    conduct(plan, squares, 1)
    finished = next(item for item in plan.items if item.status is Status.FINISHED)
    contents = [json.loads(plan.run.files.trial(item.key).result.read_text()) for item in (failed, stopped, finished)]
    always = set.intersection(*map(set, contents))
    assert always == {
        *("format", "version", "trial", "fingerprint", "status", "evaluations", "notes", "moves", "restarts")
    }
    assert [content["status"] for content in contents] == ["failed", "stopped", "finished"]
    assert {name: contents[0][name] for name in ("error", "traceback", "node", "host", "gpu")} == {
        "error": "E: no luck",
        "traceback": "Traceback ..",
        "node": "n1",
        "host": "h",
        "gpu": "0",
    }
    assert contents[1]["epochs"] == 7
    assert (failed.error, failed.status) == ("E: no luck", Status.FAILED)
    assert plan.run.result(stopped.key).status is Status.STOPPED
    again = Director(make_study(trials=0), Run(tmp_path), squares.fingerprint)
    # What failed is tried again, and so is what a search stopped early where test figures are needed.
    assert [again.next().key for _ in range(2)] == [failed.key, stopped.key]
    assert again.next().key != finished.key


@pytest.mark.parametrize("damage", [{"status": "perhaps"}, {"trial": None}, {"evaluations": [{"at": "last"}]}], ids=str)
def test_a_damaged_result_is_none(damage, tmp_path):
    run = Run(tmp_path)
    run.files.results.mkdir()
    run.files.trial("abc").result.write_text(json.dumps(full_result().content() | damage))
    assert run.result("abc") is None
    assert run.result("missing") is None
    with pytest.raises(DataError, match=rf"results/abc.json is damaged \({next(iter(damage))}.*made again"):
        TrialResult.from_json(run.files.trial("abc").result.read_bytes(), PATH)


def test_a_frozen_study_is_read_as_it_was_written(tmp_path):
    run, study = Run(tmp_path), make_study()
    run.freeze(study, Location(data_dir="there", address="h:1"), "ff")
    run.add_devices(["CPU (x)"])
    first = run.frozen()
    assert (first.parsed(), first.location, first.fingerprint) == (study, Location("there", "h:1"), "ff")
    run.freeze(study, Location(), "ff")
    run.add_devices(["CPU (x)", "T4"])
    second = run.frozen()
    assert second.history[0] == first.history[0]
    assert len(second.history) == 2
    assert second.devices == ("CPU (x)", "T4")
    assert second == FrozenStudy.from_json(second.to_json(), run.files.study)
    assert run.study() == study


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "3", "{}", '{"study": {}}'])
def test_a_damaged_study_is_refused(content, tmp_path):
    run = Run(tmp_path)
    run.files.study.write_text(content)
    with pytest.raises(DataError, match=r"study.json is damaged.*: bring a copy of it back"):
        run.frozen()


def test_resources_that_stood_in_the_options_are_the_studys(tmp_path):
    """As in format 1, where the command line's choices were kept beside the study."""
    run = Run(tmp_path)
    run.freeze(make_study(), Location(), "ff")
    content = json.loads(run.files.study.read_text())
    del content["format"]
    content["options"] |= {"cpus_per_trial": 3, "gpus_per_trial": 0.5, "concurrency": None, "mps": True}
    run.files.study.write_text(json.dumps(content))
    resources = run.study().resources
    assert (resources.cpus_per_trial, resources.gpus_per_trial, resources.concurrency) == (3, 0.5, None)
    assert resources.mps


def test_proposals_of_both_forms(tmp_path):
    run = Run(tmp_path)
    settings = {"rate": 0.25, "z": 4, "schedule": "constant", "normalise": True}
    run.files.proposals.mkdir()
    run.files.proposal("dropout", 0).write_text(Proposal(settings).to_json())
    run.files.proposal("dropout", 1).write_text(json.dumps(settings))  # all of the file, in format 1
    run.files.proposal("dropout", 2).write_text("[1]")
    assert [run.proposal("dropout", number) for number in range(4)] == [settings, settings, None, None]
    assert isinstance(run.proposal("dropout", 0)["z"], int)
