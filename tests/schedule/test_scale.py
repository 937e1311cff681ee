"""What the driver asks of a store that is far away: little at the start, nothing while trials start and end."""

import concurrent.futures
import json

import pyarrow.parquet as pq
import pytest

from pilotstudy.errors import RunLockedError, StorageError
from pilotstudy.metrics.registry import METRICS
from pilotstudy.runs import schemas
from pilotstudy.runs.folder import Run
from pilotstudy.runs.records import Evaluation, Status, TrialResult
from pilotstudy.runs.results import Results
from pilotstudy.runs.schemas import trials_schema
from pilotstudy.schedule import search
from pilotstudy.schedule.director import Director
from pilotstudy.storage import place
from pilotstudy.study import reading, spec
from tests.support.slow_store import SlowStore

FINGERPRINT = "ab" * 32


@pytest.fixture
def run():
    SlowStore.reset(latency=0.002)
    return Run(place("slow://runs/far"))


def study_of(seeds: int, searched: int = 12) -> spec.Study:
    content = {
        "title": "far",
        "seeds": list(range(seeds)),
        "data": {"name": "cifar10", "validation": 50},
        "network": {"name": "mlp-512"},
        "training": {"epochs": 1},
        "arms": {"vanilla": {}, "pilot-a-aug": {}},
        "search": {"arms": ["pilot-a-aug", "dropout"], "trials": searched, "confirm_seeds": 2},
    }
    return reading.validate_study(content, "far")


def made_up(item) -> TrialResult:
    """A result that depends on the trial alone. One in seven diverged."""
    nll = int(item.key, 16) % 1000 / 1000
    if int(item.key, 16) % 7 == 0:
        error = "the loss was not finite"
        return TrialResult(trial=item.trial, fingerprint=FINGERPRINT, status=Status.DIVERGED, error=error)
    figures = dict.fromkeys(METRICS, 0.1) | {"nll": nll, "accuracy": 0.5}
    evaluations = tuple(
        Evaluation(at, "point", split, scaled=False, temperature=1.0, n=50, figures=figures)
        for at, split in (("last", "test"), ("last", "validation"), ("best", "validation"))
    )
    return TrialResult(
        trial=item.trial,
        fingerprint=FINGERPRINT,
        status=Status.FINISHED,
        epochs=1,
        moves=int(nll * 3),
        restarts=1,
        evaluations=evaluations,
    )


def conduct(plan: Director, most: int = 10_000, at_once: int = 3) -> int:
    """Runs trials, `at_once` at a time; how many ended."""
    under_way, ended = [], 0
    while ended < most:
        while len(under_way) < at_once and not isinstance(item := plan.next(), str):
            under_way.append(item)
        if not under_way:
            break
        item = under_way.pop(0)
        result = made_up(item)
        SlowStore.objects[f"runs/far/results/{item.key}.json"] = result.to_json().encode()  # by its actor
        plan.conclude(item.key, result)
        plan.save_soon()
        ended += 1
    return ended


def outcome(plan: Director) -> list:
    endings = [(i.name, i.key, i.trial, i.status, i.figures, i.retries, i.moves) for i in plan.items]
    return sorted(endings, key=lambda ending: ending[0])


def rows_of(run: Run) -> dict[str, dict]:
    rows = Results(run.files).trials.to_pylist()
    return {f"{row['phase']} {row['arm']} {row['number']}": row | {"reused": None} for row in rows}


@pytest.mark.parametrize("seeds", [5, 150])
def test_taking_up_a_run_takes_three_requests_however_many_trials_have_ended(run, seeds):
    first = Director(study_of(seeds), run, FINGERPRINT)
    assert conduct(first) == first.total - 2  # two of the search's are arms already
    first.save()
    rows = rows_of(run)
    SlowStore.forget()
    second = Director(study_of(seeds), run, FINGERPRINT)
    assert second.all_done()
    assert SlowStore.requests == {"LIST": 2, "GET": 1}
    assert all(item.reused for item in second.items)
    assert outcome(second) == outcome(first)
    assert {arm: second.best(arm).name for arm in second.searches} == {a: first.best(a).name for a in first.searches}
    assert (second.done, second.tally) == (first.done, first.tally)
    second.save()
    assert rows_of(run) == rows


def test_no_trial_waits_for_the_store(run):
    plan = Director(study_of(10, searched=40), run, FINGERPRINT)
    SlowStore.forget()
    conduct(plan)
    assert SlowStore.waited == {}
    plan.save()
    assert SlowStore.requests["PUT"] >= 40 + 1
    assert len([name for name in SlowStore.objects if name.startswith("runs/far/search/")]) == 40


def test_what_the_table_lacks_is_read_and_what_was_removed_runs_again(run):
    study = study_of(10)
    whole = Director(study, run, FINGERPRINT)
    total = conduct(whole)
    whole.save()
    rows = rows_of(run)

    def again() -> int:
        SlowStore.forget()
        plan = Director(study, run, FINGERPRINT)
        ran = conduct(plan)
        plan.save()
        assert outcome(plan) == outcome(whole)
        assert rows_of(run) == rows
        return ran

    table = Results(run.files).trials
    gone = {
        item.key for item in whole.items if item.name in ("arms vanilla 3", "search dropout 4", "confirm dropout 1")
    }
    for key in gone:
        del SlowStore.objects[f"runs/far/results/{key}.json"]
    assert again() == len(gone)
    del SlowStore.objects["runs/far/trials.parquet"]
    assert again() == 0
    assert SlowStore.requests["GET"] >= total + 12
    schemas.save(run.files.trials, table.slice(5))  # it was written before these ended
    assert again() == 0
    schemas.save(run.files.trials, table.drop_columns(["moves"]))  # of an earlier version
    assert again() == 0
    SlowStore.objects["runs/far/trials.parquet"] = b"not a table"
    assert again() == 0
    del SlowStore.objects["runs/far/search/dropout-0003.json"]  # so the arm's later ones are made again too
    recalled = [item.name for item in Director(study, run, FINGERPRINT).items]
    assert recalled == [*(f"search pilot-a-aug {n}" for n in range(6)), *(f"search dropout {n}" for n in range(3))]


def test_an_interrupted_run_far_away_ends_as_one_that_was_not(run):
    whole = Director(study_of(4, 30), run, FINGERPRINT)
    total = conduct(whole, at_once=1)
    SlowStore.objects.clear()
    ended = 0
    for most in 5, 9, 8, 10_000:
        ended += conduct(plan := Director(study_of(4, 30), run, FINGERPRINT), most, at_once=1)
        plan.background.flush()  # the table may not have been written
    assert ended == total
    assert outcome(plan) == outcome(whole)


def test_a_store_that_takes_nothing_more_ends_the_run_at_the_next_event(run, monkeypatch):
    plan = Director(study_of(1), run, FINGERPRINT)

    def full(*words, **named):
        raise OSError(28, "No space left on device")

    def start_all():
        for _ in range(20):
            plan.next()
            concurrent.futures.wait(list(plan.background._under_way))

    monkeypatch.setattr(SlowStore, "pipe_file", full)
    with pytest.raises(StorageError, match=r"cannot write slow://runs/far/search/.*No space left"):
        start_all()
    with pytest.raises(StorageError):
        plan.save()


def test_a_driver_that_lost_its_run_writes_nothing_more(run, monkeypatch):
    plan = Director(study_of(2), run, FINGERPRINT)
    conduct(plan, 3)
    item = plan.next()
    plan.save()
    before = dict(SlowStore.objects)
    monkeypatch.setattr(Run, "lost", "process 12 on hostB took the run over")
    for event in plan.next, lambda: plan.conclude(item.key, made_up(item)):
        with pytest.raises(RunLockedError, match="hostB"):
            event()
    plan.save_soon()
    plan.save()
    assert SlowStore.objects == before


def test_failed_trials_and_shared_ones_in_the_table(run):
    study = study_of(2, searched=4)
    plan = Director(study, run, FINGERPRINT)
    while not isinstance(item := plan.next(), str):
        plan.retried(item.key)
        plan.retried(item.key)
        if item.arm == "pilot-a-aug" and item.phase == "arms":
            plan.failed(item.key, "no luck")
        else:
            plan.conclude(item.key, made_up(item))
    plan.save()
    trials = pq.read_table(run.files.trials.open("rb"))
    assert trials.schema.equals(trials_schema(), check_metadata=False)
    rows = rows_of(run)
    assert [rows[f"arms pilot-a-aug {n}"]["error"] for n in range(2)] == ["no luck"] * 2
    assert [rows[f"arms pilot-a-aug {n}"]["evaluations"] for n in range(2)] == [[], []]
    again = rows["search pilot-a-aug 0"]  # the same trial as the first that failed; it ran once more
    assert again["status"] in ("finished", "diverged")
    assert again["key"] == rows["arms pilot-a-aug 0"]["key"]
    assert {row["retries"] for row in rows.values() if row["status"] == "finished"} == {3}


def test_a_long_search_is_asked_in_blocks_and_goes_on_the_same(run, monkeypatch):
    for name, value in (("LONG", 12), ("BLOCK", 5), ("KEPT", 10)):
        monkeypatch.setattr(search, name, value)
    whole = Director(study_of(1, 80), run, FINGERPRINT)
    conduct(whole, at_once=1)
    proposals = [item.trial.settings for item in whole.items if (item.phase, item.arm) == ("search", "pilot-a-aug")]
    assert len(proposals) == 40
    assert all(isinstance(settings["z"], int) and 8 <= settings["z"] <= 64 for settings in proposals)
    assert len({json.dumps(settings) for settings in proposals}) == 40
    SlowStore.objects.clear()
    for most in 33, 14, 10_000:
        plan = Director(study_of(1, 80), run, FINGERPRINT)
        conduct(plan, most, at_once=1)
        plan.background.flush()
    assert outcome(plan) == outcome(whole)
