"""The plan, and what an earlier start has left of it, with results that are made up."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotstudy.metrics.registry import METRICS
from pilotstudy.runs.folder import Run
from pilotstudy.runs.records import Evaluation, Status, TrialResult
from pilotstudy.runs.results import Results
from pilotstudy.schedule.director import Director
from pilotstudy.schedule.item import Item
from pilotstudy.study import reading, spec
from pilotstudy.study.budget import confirm_seeds
from pilotstudy.study.shares import expected_shares

FINGERPRINT = "ab" * 32


def study_of(seeds: list[int], **options) -> spec.Study:
    content = {
        "title": "made",
        "seeds": seeds,
        "data": {"name": "cifar10", "validation": 50},
        "network": {"name": "mlp-512"},
        "training": {"epochs": 1},
        "arms": {"vanilla": {}, "dropout": {}},
        "search": {"arms": ["dropout"], "trials": 4, "confirm_seeds": 2} | options,
    }
    return reading.validate_study(content, "made")


def director(folder, study: spec.Study) -> Director:
    """Each is a start of the same run."""
    return Director(study, Run(folder), FINGERPRINT)


def ended(
    item: Item, status: Status = Status.FINISHED, nll: float | None = 1.0, seconds: float | None = None
) -> TrialResult:
    """`nll`: on validation; None if there are no figures."""
    figures = dict.fromkeys(METRICS, 0.1) | {"accuracy": 0.5, "nll": nll}
    splits = ("validation", "test") if item.predicts_test else ("validation",)
    evaluations = () if nll is None else tuple(Evaluation("last", "point", s, False, 1.0, 50, figures) for s in splits)
    return TrialResult(
        trial=item.trial,
        fingerprint=FINGERPRINT,
        status=status,
        epochs=1,
        evaluations=evaluations,
        training_seconds=seconds,
    )


def conclude(plan: Director, item: Item, result: TrialResult) -> None:
    """As a trial ends on Ray: its result is a file of the run."""
    path = plan.run.files.trial(item.key).result
    path.parent.mkdir(exist_ok=True)
    path.write_text(result.to_json())
    plan.conclude(item.key, result)


def conduct(plan: Director, result: Callable[[Item], TrialResult] = ended) -> list[str]:
    """Runs all that is left; the names of what ran."""
    ran = []
    while not isinstance(item := plan.next(), str):
        conclude(plan, item, result(item))
        ran.append(item.name)
    assert plan.next() == "done"
    return ran


def named(plan: Director, name: str) -> Item:
    return next(item for item in plan.items if item.name == name)


@pytest.mark.parametrize("table", [True, False], ids=["table", "results alone"])
def test_what_failed_is_tried_again_on_resume_and_nothing_else(tmp_path, table):
    """Its result is there, in the table or in a file of its own, and is not taken."""
    statuses = {
        "arms vanilla 0": Status.FAILED,
        "arms dropout 1": Status.DIVERGED,
        "search dropout 1": Status.FAILED,
        "search dropout 2": Status.STOPPED,
    }

    def some_fail(item):
        status = statuses.get(item.name, Status.FINISHED)
        return ended(item) if status is Status.FINISHED else ended(item, status, None)

    study = study_of([0, 1])
    first = director(tmp_path, study)
    conduct(first, some_fail)
    if table:
        first.save()
    second = director(tmp_path, study)
    assert not second.all_done()
    assert conduct(second) == ["arms vanilla 0", "search dropout 1"]
    found = {item.name: item.status for item in second.items}
    assert found.pop("arms dropout 1") == "diverged"
    assert found.pop("search dropout 2") == "stopped"
    assert set(found.values()) == {"finished"}
    assert director(tmp_path, study).all_done()


def test_the_search_uses_the_first_seed_and_the_confirmation_none_that_was_used(tmp_path):
    study = study_of([7, 3, 12])
    assert confirm_seeds(study) == [10_000, 10_001]
    plan = director(tmp_path, study)
    ran = conduct(plan)
    assert "search dropout 0" not in ran  # the same trial as the arm with that seed
    seeds = {phase: {item.trial.seed for item in plan.items if item.phase == phase} for phase in plan.tally}
    assert seeds == {"arms": {7, 3, 12}, "search": {7}, "confirm": {10_000, 10_001}}
    again = director(tmp_path, study)
    assert {item.trial.seed for item in again.items} == {7}  # what was proposed is taken up as it was
    assert again.all_done()


@given(
    seeds=st.lists(st.integers(0, 10_020), min_size=1, max_size=30, unique=True),
    more=st.lists(st.integers(0, 9_999), max_size=30),
)
def test_more_seeds_do_not_move_those_of_the_confirmation(seeds, more):
    fresh = confirm_seeds(study_of(seeds, confirm_seeds=5))
    assert len(set(fresh)) == 5
    assert not set(fresh) & set(seeds)
    assert confirm_seeds(study_of(list(dict.fromkeys(seeds + more)), confirm_seeds=5)) == fresh


def test_what_was_confirmed_is_kept_when_seeds_are_added(tmp_path):
    conduct(director(tmp_path, study_of([0, 1])))
    assert conduct(director(tmp_path, study_of([0, 1, 2]))) == ["arms vanilla 2", "arms dropout 2"]


@pytest.mark.parametrize("table", [True, False], ids=["table", "results alone"])
def test_a_trial_of_the_search_runs_again_where_test_figures_are_needed(tmp_path, table):
    """A row with the settings of a trial of the search, and its seed: the same key."""
    first = director(tmp_path, study_of([0]))
    conduct(first)
    if table:
        first.save()
    tried = named(first, "search dropout 1")
    study = study_of([0])
    study = study.model_copy(update={"arms": study.arms | {"other": {**tried.settings, "method": "dropout"}}})
    second = director(tmp_path, study)
    assert conduct(second) == ["arms other 0"]
    assert named(second, "arms other 0").key == tried.key
    second.save()
    third = director(tmp_path, study)
    assert third.all_done()
    assert all(row.evaluations[-1].split == "test" for row in Results(third.run.files).rows() if row.phase != "search")


SECONDS = {"dropout": 1.0, "vanilla": 30.0, "l2": 7.0}


def sharing(trials: int) -> spec.Study:
    content = {"arms": {"vanilla": {}, "dropout": {}, "l2": {}}, "network": {"name": "mlp-512"}}
    search = {"arms": list(SECONDS), "trials": trials, "budget": "seconds", "confirm_seeds": 1}
    search["space"] = {"training.learning_rate": {"low": 1e-4, "high": 0.1, "log": True}}
    content |= {"title": "made", "seeds": [0], "data": {"name": "cifar10"}, "training": {"epochs": 1}, "search": search}
    return reading.validate_study(content, "made")


def spent(plan: Director) -> dict[str, float]:
    return {arm: sum(SECONDS[arm] for i in plan.items if (i.phase, i.arm) == ("search", arm)) for arm in SECONDS}


@pytest.mark.parametrize("at_once", [1, 4])
def test_arms_that_share_seconds_have_the_same_to_within_a_trial(tmp_path, at_once):
    plan = director(tmp_path, sharing(100))
    under_way: list[Item] = []
    while not isinstance(item := plan.next(), str) or under_way:
        if isinstance(item, Item):
            under_way.append(item)
        if len(under_way) == at_once or isinstance(item, str):
            done = under_way.pop(0)
            conclude(plan, done, ended(done, seconds=SECONDS[done.arm]))
    used = spent(plan)
    assert max(used.values()) - min(used.values()) <= 30
    assert sum(i.phase == "search" for i in plan.items) == 100 == plan.tally["search"][Status.FINISHED]
    assert plan.total == len(plan.items)


def test_what_was_proposed_is_kept_when_a_search_by_seconds_goes_on(tmp_path):
    def timed(item):
        return ended(item, seconds=SECONDS[item.arm])

    first = director(tmp_path, sharing(60))
    for _ in range(30):
        item = first.next()
        conclude(first, item, timed(item))
    before = {item.name: item.settings for item in first.items if item.phase == "search"}
    second = director(tmp_path, sharing(60))
    conduct(second, timed)
    after = {item.name: item.settings for item in second.items if item.phase == "search"}
    assert before.items() <= after.items()
    assert len(after) == 60
    used = spent(second)
    assert max(used.values()) - min(used.values()) <= 30
    assert director(tmp_path, sharing(60)).all_done()
    fewer = director(tmp_path, sharing(20))
    conduct(fewer, timed)
    assert sum(item.phase == "search" for item in fewer.items) == 20


def test_an_arm_whose_trials_fail_at_once_does_not_take_all_of_the_search(tmp_path):
    plan = director(tmp_path, sharing(40))
    while not isinstance(item := plan.next(), str):
        if (item.phase, item.arm) == ("search", "dropout"):
            plan.failed(item.key, "no luck")
        else:
            conclude(plan, item, ended(item, seconds=SECONDS[item.arm]))
    assert {arm for arm, seconds in spent(plan).items() if seconds > SECONDS[arm]} == set(SECONDS)


@given(
    costs=st.lists(st.floats(0.01, 100), min_size=1, max_size=6),
    trials=st.integers(0, 200),
)
def test_shares_of_seconds_are_equal_to_within_the_longest_trial(costs, trials):
    by_arm = {f"arm {number}": cost for number, cost in enumerate(costs)}
    numbers = expected_shares(by_arm, trials)
    assert numbers.total() == trials
    if trials >= len(costs):
        assert all(numbers[arm] for arm in by_arm)
        used = [numbers[arm] * cost for arm, cost in by_arm.items()]
        assert max(used) - min(used) <= max(costs) * (1 + 1e-9)


def test_a_trial_that_was_stopped_early_cannot_win(tmp_path):
    """Whatever figures it may have had by then."""

    def result(item):
        if item.name == "search dropout 2":
            return ended(item, Status.STOPPED, nll=0.01)
        return ended(item, nll=1.0 + item.number)

    plan = director(tmp_path, study_of([0]))
    conduct(plan, result)
    states = [trial.state.name for trial in plan.searches["dropout"].study.trials]
    assert states == ["COMPLETE", "COMPLETE", "PRUNED", "COMPLETE"]
    confirmed = [item.trial.settings for item in plan.items if item.phase == "confirm"]
    assert confirmed == [plan.study.arms["dropout"]] * 2


def test_the_winner_is_a_trial_of_the_search_after_a_resume_too(tmp_path):
    """Then its trials come first among all, and the arms' own have numbers as well."""

    def result(item):
        return ended(item, nll=0.5 if (item.phase, item.number) == ("search", 1) else 1.0)

    study = study_of([0, 1])
    first = director(tmp_path, study)
    while not isinstance(item := first.next(), str) and item.phase != "confirm":
        conclude(first, item, result(item))
    second = director(tmp_path, study)
    conduct(second, result)
    best = named(second, "search dropout 1")
    confirmed = [item for item in second.items if item.phase == "confirm"]
    assert len(confirmed) == 2
    assert all(item.trial.settings == best.trial.settings for item in confirmed)
    assert best.trial.settings != study.arms["dropout"]


def test_the_confirmation_waits_for_the_last_trial_of_the_search(tmp_path):
    plan = director(tmp_path, study_of([0]))
    under_way = []
    while not isinstance(item := plan.next(), str):
        under_way.append(item)
    assert item == "wait"
    last = under_way.pop()
    assert last.name == "search dropout 3"
    for one in under_way:
        conclude(plan, one, ended(one))
        assert plan.next() == "wait"
    conclude(plan, last, ended(last, nll=0.2))
    confirmed = plan.next()
    assert confirmed.phase == "confirm"
    assert confirmed.trial.settings == last.trial.settings


def test_the_best_of_an_arm_has_the_lowest_nll(tmp_path):
    plan = director(tmp_path, study_of([0, 1, 2]))
    conduct(plan, lambda item: ended(item, nll=[2.0, 1.0, 3.0, 4.0][item.number]))
    assert plan.best("vanilla").name == "arms vanilla 1"
    assert plan.best("nothing") is None


def test_a_trial_that_serves_two_places_runs_once(tmp_path):
    plan = director(tmp_path, study_of([0]))
    under_way = {}
    while not isinstance(item := plan.next(), str):
        under_way[item.name] = item
    assert "search dropout 0" not in under_way
    shared = under_way["arms dropout 0"]
    conclude(plan, shared, ended(shared, nll=0.7))
    other = named(plan, "search dropout 0")
    assert (other.status, other.reused, other.figures["nll"]) == ("finished", True, 0.7)
    assert not shared.reused


def test_a_proposal_that_cannot_be_read_is_made_again_with_all_that_follow(tmp_path):
    study = study_of([0])
    first = director(tmp_path, study)
    conduct(first)
    proposed = [item.trial.settings for item in first.items if item.phase == "search"]
    first.run.files.proposal("dropout", 1).write_text('{"rate": 0.')
    second = director(tmp_path, study)
    assert [item.name for item in second.items] == ["search dropout 0"]
    conduct(second)
    searched = sorted((item for item in second.items if item.phase == "search"), key=lambda item: item.number)
    assert [item.number for item in searched] == [0, 1, 2, 3]
    assert [item.trial.settings for item in searched] == proposed


def test_fewer_trials_than_before_leave_the_rest_out(tmp_path):
    conduct(director(tmp_path, study_of([0], trials=6)))
    fewer = director(tmp_path, study_of([0], trials=3))
    conduct(fewer)
    assert sum(item.phase == "search" for item in fewer.items) == 3
    assert fewer.total == len(fewer.items)


def test_what_has_ended_but_is_not_in_the_table_yet_counts_as_running(tmp_path):
    """The table is put together in a thread, while trials end."""
    plan = director(tmp_path, study_of([0], trials=0))
    item = plan.next()
    plan.conclude(item.key, ended(item))
    plan.save()
    assert Results(plan.run.files).rows()[0].status == "finished"
    other = plan.next()
    plan._becomes(other, Status.FINISHED)  # told, and its result is not there yet
    plan.save()
    rows = Results(plan.run.files).rows()
    assert [row.status for row in rows] == ["finished", "running"]
    assert [len(row.evaluations) for row in rows] == [2, 0]
