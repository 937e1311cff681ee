"""Seeds added look by look: who gets how many, what is kept, and that nothing is lost between and within looks."""

from collections import Counter

import pytest

from pilotstudy.errors import InputError, NotDoneError
from pilotstudy.runs.folder import Run
from pilotstudy.runs.results import Results
from pilotstudy.runs.status import overview, progress_of
from pilotstudy.schedule import conduct
from pilotstudy.schedule.inline import inline_engine
from pilotstudy.study.looks import plan_looks
from pilotstudy.study.reading import validate_study
from pilotstudy.study.resources import Limits, Location
from tests.support.plans import CONTENT

CLAIMS = [{"says": "it helps", "holds": "nll: pilot-a-aug < vanilla"}]
SEARCH = {"arms": ["dropout"], "trials": 2, "confirm_seeds": 1}
PLAIN = validate_study(CONTENT | {"claims": CLAIMS, "search": SEARCH, "training": {"epochs": 1}}, "test")
STUDY, LOOKS = plan_looks(PLAIN, 8)


@pytest.fixture(autouse=True)
def _small_data(squares, monkeypatch):
    monkeypatch.setattr(conduct, "load_study_data", lambda *_: squares)


class Script:
    """A judge that says what it was told to, and remembers what it saw."""

    def __init__(self, *answers):
        self.answers, self.seen = list(answers), []

    def __call__(self, run: Run):
        self.seen.append(given(run))
        return self.answers.pop(0)


def given(run: Run) -> dict[str, int]:
    """How many finished seeds each arm has."""
    rows = Results(run.files).rows()
    tuned = {"arms": "", "confirm": "@tuned"}
    return dict(Counter(row.arm + tuned[row.phase] for row in rows if row.phase in tuned and row.status.final))


def stopped_after(most: int):
    """An engine that trains so many trials in all, and then says that it was stopped."""
    left = [most]

    def engine(director, data, limits, *, quiet):
        ended = inline_engine(director, data, limits, quiet=True, most=left[0])
        left[0] -= sum(item.status.ended and not item.reused for item in director.items)
        return ended if director.all_done() else conduct.Ended("stopped")

    return engine


def start(folder, judge, **changes) -> Run:
    run = Run(folder)
    words = {"engine": inline_engine, "judge": judge, "looks": LOOKS, "quiet": True, "study": STUDY} | changes
    conduct.start(run=run, location=Location(), **words)
    return run


FIRST = {"vanilla": 3, "pilot-a-aug": 3, "dropout": 3, "dropout@tuned": 3}


def test_each_look_gives_seeds_to_those_that_are_wanted(tmp_path, capsys):
    judge = Script({"arms": {"vanilla", "pilot-a-aug"}}, {"arms": {"vanilla"}, "confirm": {"dropout"}})
    run = start(tmp_path, judge)
    second = FIRST | {"vanilla": 5, "pilot-a-aug": 5}
    assert judge.seen == [FIRST, second]
    assert given(run) == second | {"vanilla": 8, "dropout@tuned": 8}
    assert run.frozen().looks.given == {
        "arms": {"vanilla": 8, "pilot-a-aug": 5, "dropout": 3},
        "confirm": {"dropout": 8},
    }
    rows = Results(run.files).rows()
    assert [row.seed for row in rows if row.arm == "vanilla"] == list(range(8))
    assert sum(row.phase == "search" for row in rows) == 2
    assert overview(run)["state"] == "done"
    assert {line["phase"]: line["trials"] for line in progress_of(run)} == {"arms": 16, "search": 2, "confirm": 8}
    said = capsys.readouterr().err
    assert [line for line in said.splitlines() if line.startswith("look")] == [
        "look 1 of 3: 3 seeds",
        "look 2 of 3: 5 seeds",
        "look 3 of 3: 8 seeds",
    ]
    assert len(run.frozen().history) == 1


def test_it_ends_when_nothing_is_wanted(tmp_path):
    run = start(tmp_path, Script({"arms": set(), "confirm": set()}))
    assert given(run) == FIRST
    again = Script({})
    conduct.resume(run, inline_engine, again, quiet=True)
    assert (given(run), again.seen) == (FIRST, [FIRST])


@pytest.mark.parametrize("ran", [2, 12, 13, 15, 17])
def test_a_run_that_was_stopped_within_a_look_ends_alike(tmp_path, ran):
    answers = {"arms": {"vanilla", "pilot-a-aug"}}, {"arms": {"vanilla"}}
    whole = start(tmp_path / "whole", Script(*answers))
    judge = Script(*answers)
    with pytest.raises(NotDoneError, match="resume"):
        start(tmp_path / "parts", judge, engine=stopped_after(ran))
    parts = Run(tmp_path / "parts")
    conduct.resume(parts, inline_engine, judge, quiet=True)
    assert not judge.answers
    assert given(parts) == given(whole)
    assert parts.frozen().looks == whole.frozen().looks
    evaluations = [{row.key: row.evaluations for row in Results(run.files).rows()} for run in (parts, whole)]
    assert evaluations[0] == evaluations[1]


def test_a_run_that_died_between_looks_asks_again(tmp_path):
    def dies(run: Run):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(tmp_path, dies)
    judge = Script({"arms": {"vanilla"}}, {})
    run = start(tmp_path, judge)  # the same command
    assert judge.seen == [FIRST, FIRST | {"vanilla": 5}]
    assert given(run) == judge.seen[-1]


def test_limits_go_for_all_looks_together(tmp_path):
    left = []

    def spends(director, data, limits, *, quiet):
        left.append(limits.max_cost)
        ended = inline_engine(director, data, Limits(), quiet=True)
        return conduct.Ended(devices=ended.devices, spent=2.0)

    start(tmp_path, Script({"arms": {"vanilla"}}, {}), engine=spends, limits=Limits(max_cost=5.0, price=1.0))
    assert left == [5.0, 3.0]
    assert Limits(time_budget=3.0).less(5.0, 0.0).time_budget > 0  # 0 would be no limit


def test_looks_must_be_planned_before_the_first_result(tmp_path):
    start(tmp_path, Script(), looks=None, study=PLAIN)
    with pytest.raises(InputError, match="has results") as refused:
        start(tmp_path, Script())
    assert "\n" not in str(refused.value)
    assert Run(tmp_path).frozen().looks is None


def test_a_planned_run_keeps_to_its_plan(tmp_path):
    run = start(tmp_path, Script({}))
    study, others = plan_looks(PLAIN, 5)
    with pytest.raises(InputError, match="3, 5, 8"):
        start(tmp_path, Script({}), study=study, looks=others)
    with pytest.raises(InputError, match="--until-decided"):
        start(tmp_path, Script({}), study=PLAIN, looks=None)
    more = PLAIN.model_copy(update={"seeds": tuple(range(9))})
    start(tmp_path, Script(), study=more, looks=None)  # beyond the plan: the judge is not asked
    assert given(run) == {"vanilla": 9, "pilot-a-aug": 9, "dropout": 9, "dropout@tuned": 3}
    assert run.frozen().looks.exceeded
    conduct.resume(run, inline_engine, Script(), quiet=True)
    with pytest.raises(InputError, match="more seeds than its planned looks"):
        start(tmp_path, Script({}))


def test_an_arm_that_is_new_joins_the_look(tmp_path):
    start(tmp_path, Script({"arms": {"vanilla"}}, {}))
    study, looks = plan_looks(PLAIN.model_copy(update={"arms": {**PLAIN.arms, "l2": {"weight_decay": 0.01}}}), 8)
    run = start(tmp_path, Script({}), study=study, looks=looks)
    assert given(run) == FIRST | {"vanilla": 5, "l2": 5}
