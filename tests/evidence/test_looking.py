"""Planned looks: what each says, what stays decided, who gets more seeds, and what was saved."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from pilotstudy.evidence import looking
from pilotstudy.evidence.claims import judge_all
from pilotstudy.evidence.looking import may_be_decided, outcome, still_wanted
from pilotstudy.evidence.reservations import looks as times_looked
from pilotstudy.evidence.reservations import reservations
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics import intervals
from pilotstudy.page.content import page_data
from pilotstudy.report.export import methods_paragraph
from pilotstudy.report.table import build_table
from pilotstudy.report.texts import claims_text
from pilotstudy.runs.folder import Run
from pilotstudy.study.looks import exceed, plan_looks
from pilotstudy.study.reading import validate_study
from tests.support.made_run import Maker, content, made

PLAIN = {"search": None}
ALL = {"arms": ("vanilla", "pilot-a-aug", "dropout", "l2"), "confirm": ("pilot-a-aug", "dropout")}


def claims(*statements: str) -> list[dict[str, str]]:
    return [{"says": statement, "holds": statement} for statement in statements]


def planned(folder, statements, most: int = 8, **changes) -> Maker:
    study, looks = plan_looks(validate_study(content(claims=claims(*statements), **changes), "made"), most)
    return Maker(folder, study, looks=looks)


def taken(maker: Maker, number: int, wanted=ALL) -> Run:
    """The run after so many looks, with seeds for those that are wanted."""
    run = maker.make()
    while run.frozen().looks.taken < number:
        maker.look_again(run.frozen().looks.further(wanted))
        maker.make()
    return run


def until_decided(maker: Maker) -> Run:
    run = maker.make()
    while not run.frozen().looks.last and any((wanted := still_wanted(run)).values()):
        maker.look_again(run.frozen().looks.further(wanted))
        maker.make()
    return run


def test_a_look_is_what_a_run_with_so_many_seeds_says(tmp_path):
    """But for the share of the error rate: p is divided by it, before Holm's correction over what is open."""
    statements = "nll: pilot-a-aug < vanilla", "accuracy: dropout > l2", "accuracy: pilot-a-aug > baselines"
    maker = planned(tmp_path / "run", statements, **PLAIN)
    for number, seeds in enumerate([3, 5, 8], 1):
        judged = judge_all(RunEvidence(taken(maker, number)))
        alone = made(tmp_path / f"{seeds}", claims=claims(*statements), seeds=list(range(seeds)), **PLAIN)
        share = maker.run.frozen().looks.plan[number - 1].share
        for ours, theirs in zip(judged, judge_all(RunEvidence(alone)), strict=True):
            if ours.look == number:  # still open at the look before
                assert (ours.difference, ours.low, ours.high) == (theirs.difference, theirs.low, theirs.high)
                assert ours.seeds == seeds
                assert ours.p == pytest.approx(min(1, theirs.p / share), rel=1e-6) or ours.opponents > 1
                assert ours.looks == pytest.approx(1 / share)
                assert ours.budget == f"look {number} of 3: {theirs.budget}"
    assert {claim.look for claim in judged} > {3}  # one was decided before, the others were not


def test_what_is_decided_stays_decided(tmp_path):
    """Also when later seeds say the opposite, and though the row then has seeds that diverged."""
    statement = "nll: pilot-a-aug < vanilla"
    maker = planned(tmp_path / "run", [statement], **PLAIN)
    run = taken(maker, 2)
    before = judge_all(RunEvidence(run))
    assert [(claim.verdict, claim.look, claim.seeds) for claim in before] == [("holds", 1, 3)]
    maker.skill = {"pilot-a-aug": -5.0}
    maker.look_again(run.frozen().looks.further(ALL))
    maker.make(most=2, status="diverged")
    maker.make()
    assert judge_all(RunEvidence(run)) == before
    assert RunEvidence(run).figures(["nll"]).rows  # the seeds of the third look are there
    [afterthought] = judge_all(RunEvidence(run), [c for c in RunEvidence(run).study.claims])[1:]
    assert (afterthought.verdict, afterthought.look) == ("undecided", None)  # of all seeds, unlike the claim itself


def test_a_look_counts_when_all_its_seeds_are_there(tmp_path):
    maker = planned(tmp_path / "run", ["nll: pilot-a-aug < vanilla"], **PLAIN)
    maker.make(most=5)  # three of vanilla, two of pilot-a-aug
    [claim] = judge_all(RunEvidence(maker.run))
    assert (claim.verdict, claim.reason, claim.look) == ("undecided", "the look is not complete", 1)
    assert outcome(RunEvidence(maker.run)).claims[0].is_open
    maker.make()
    [first] = judge_all(RunEvidence(maker.run))
    assert first.reason != claim.reason
    maker.look_again(maker.run.frozen().looks.further(ALL))
    maker.make(most=3)
    assert judge_all(RunEvidence(maker.run)) == [first]


def test_holm_is_over_the_claims_that_are_open(tmp_path):
    """Also over those that get no more seeds; what is decided makes room for the others."""
    easy, hard, idle = "nll: pilot-a-aug < vanilla", "nll: pilot-a-aug < dropout", "accuracy: l2 > 0.9"
    maker = planned(tmp_path / "run", [easy, hard, idle], most=12, **PLAIN)
    taken(maker, 2)
    run = taken(maker, 4, {"arms": ("pilot-a-aug", "dropout")})
    judged = {claim.holds: claim for claim in judge_all(RunEvidence(run))}
    assert judged[idle].verdict == "fails"
    assert judged[easy].look == 2
    assert judged[hard].look in (3, 4)
    still_open = sum(claim.look >= judged[hard].look for claim in judged.values())
    assert judged[hard].p_holm == pytest.approx(min(1, judged[hard].p * still_open))


@pytest.mark.parametrize(
    ("statement", "arms", "confirm"),
    [
        ("nll: l2 < vanilla + 0.05", {"l2", "vanilla"}, set()),
        ("accuracy: pilot-a-aug > baselines", {"pilot-a-aug", "vanilla", "dropout", "l2"}, set()),
        ("accuracy: pilot-a-aug > ensemble - 0.1", {"pilot-a-aug", "vanilla", "dropout", "l2"}, set()),
        ("accuracy: pilot-a-aug@tuned > dropout@tuned", set(), {"pilot-a-aug", "dropout"}),
        ("accuracy: pilot-a-aug@tuned > vanilla", {"vanilla"}, {"pilot-a-aug"}),
    ],
)
def test_the_arms_of_an_open_claim_get_seeds(tmp_path, monkeypatch, statement, arms, confirm):
    monkeypatch.setattr(looking, "perhaps_best", lambda evidence, looks: [])
    monkeypatch.setattr(looking, "is_open", lambda standing, most: True)
    run = planned(tmp_path / "run", [statement]).make()
    assert still_wanted(run) == {"arms": arms, "confirm": confirm}


def test_while_a_claim_is_open_those_that_may_be_best_get_seeds_too(tmp_path, monkeypatch):
    monkeypatch.setattr(looking, "is_open", lambda standing, most: True)
    run = planned(tmp_path / "run", ["accuracy: l2 > vanilla"]).make()
    evidence = RunEvidence(run).at_look(run.frozen().looks.plan[0])
    figures = evidence.figures(["nll"])
    rows = [row for row in figures.rows if row.arm != "ensemble"]
    best = figures.best("nll", rows)
    assert not best.is_real
    near = {(row.phase, row.arm) for row in (best.leader, *best.near)}
    wanted = still_wanted(run)
    assert {(phase, arm) for phase in wanted for arm in wanted[phase]} == near | {("arms", "l2"), ("arms", "vanilla")}
    monkeypatch.setattr(looking, "is_open", lambda standing, most: False)
    assert still_wanted(run) == {"arms": set(), "confirm": set()}


def test_an_arm_without_seeds_of_the_last_look_is_not_taken_up_again(tmp_path, monkeypatch):
    monkeypatch.setattr(looking, "is_open", lambda standing, most: True)
    maker = planned(tmp_path / "run", ["accuracy: l2 > vanilla", "nll: dropout < vanilla - 9"], **PLAIN)
    run = taken(maker, 2, {"arms": ("l2", "vanilla")})
    assert still_wanted(run)["arms"] == {"l2", "vanilla"}


def test_the_run_ends_alike_however_often_it_is_judged(tmp_path):
    statements = "nll: pilot-a-aug < vanilla", "nll: pilot-a-aug < l2", "ece: dropout < l2"
    runs = [until_decided(planned(tmp_path / name, statements)) for name in "ab"]
    first, second = (judge_all(RunEvidence(run)) for run in runs)
    assert first == second
    assert runs[0].frozen().looks == runs[1].frozen().looks
    assert all(claim.verdict == "holds" for claim in first)
    came = outcome(RunEvidence(runs[0]))
    given = runs[0].frozen().looks.given
    spent = sum(sum(by_arm.values()) for by_arm in given.values())
    assert (came.trials, came.trials_saved) == (spent + 8, 6 * 8 - spent)
    assert came.trials_saved > 0
    rows = RunEvidence(runs[0]).trial_rows
    assert came.seconds == pytest.approx(sum({row.key: row.training_seconds for row in rows}.values()))
    assert 5 * came.trials_saved < came.seconds_saved < 20 * came.trials_saved  # the made trials take 5 to 20 s
    assert came.words[0].startswith("3 of 3 claims decided (")
    assert f"{came.trials_saved} trials and about" in came.words[1]
    assert json.loads(json.dumps(came.record()))["taken"] == came.taken


def test_it_is_said_with_the_claims(tmp_path):
    run = taken(planned(tmp_path / "run", ["nll: pilot-a-aug < dropout"], **PLAIN), 2)
    text = claims_text(judge_all(RunEvidence(run)), reservations(run))
    assert "look 2 of 3: 5 seeds" in text
    assert "planned looks (3, 5, 8 seeds), of which 2 were taken" in text
    assert times_looked(run) == 1 / run.frozen().looks.plan[1].share  # what goes for tables and comparisons, too


def test_seeds_beyond_the_plan_are_one_more_look(tmp_path):
    maker = planned(tmp_path / "run", ["nll: pilot-a-aug < vanilla"], most=5, **PLAIN)
    run = taken(maker, 2)
    study, looks = exceed(maker.study.model_copy(update={"seeds": tuple(range(7))}), run.frozen().looks)
    run.freeze(study, run.frozen().location, run.frozen().fingerprint, looks)
    maker.study = study
    maker.look_again(looks)
    maker.make()
    assert times_looked(run) == 3
    [claim] = judge_all(RunEvidence(run))
    assert (claim.look, claim.looks, claim.seeds) == (None, 3, 7)
    assert outcome(RunEvidence(run)) is None
    assert any("(3 looks)" in sentence for sentence in reservations(run))


def difference(value: float, seeds: int, sd: float = 1.0) -> intervals.Estimate:
    return intervals.Estimate(value, value, value, seeds, 0.0, ((sd**2 / seeds, seeds - 1),))


def test_what_so_many_seeds_cannot_show_is_given_up():
    assert not may_be_decided(difference(0.01, 12), 20)
    assert may_be_decided(difference(0.01, 3), 20)  # three seeds say little
    assert may_be_decided(difference(1.0, 12), 20)
    assert not may_be_decided(difference(1.0, 20), 20)  # the last look did not show it
    assert not may_be_decided(replace(difference(0.5, 12), points_variance=1.0), 20)  # the images' part stays


def test_giving_up_costs_little_power():
    """Effects of one deviation: 20 seeds show nearly all of them, and looks until decided most."""
    random, rounds, decided = np.random.default_rng(3), 150, {True: 0, False: 0}
    plan = plan_looks(validate_study(content(), "made"), 20)[1].plan
    for _ in range(rounds):
        values = 1 + random.standard_normal(20)
        for gives_up in decided:
            for look in plan:
                own = values[: look.seeds]
                estimate = difference(own.mean(), look.seeds, own.std(ddof=1))
                if stats.ttest_1samp(own, 0).pvalue < 0.05 * look.share:
                    decided[gives_up] += 1
                    break
                if gives_up and not may_be_decided(estimate, 20):
                    break
    assert decided[False] > 0.85 * rounds
    assert decided[True] > 0.85 * decided[False]


def test_methods_table_and_page_tell_the_seeds_that_each_arm_has(tmp_path):
    maker = planned(tmp_path / "run", ["nll: pilot-a-aug@tuned < dropout", "nll: pilot-a-aug < vanilla"])
    run = taken(maker, 2, {"arms": ("vanilla", "dropout"), "confirm": ("pilot-a-aug",)})
    evidence = RunEvidence(run)
    methods = methods_paragraph(evidence)
    assert "the first 3 to 5 (vanilla 5, pilot-a-aug 3, dropout 5, l2 3) of 5 seeds (0, 1, 2, 3, 4)" in methods
    assert "the first 3 to 5 (pilot-a-aug 5, dropout 3) of 5 fresh seeds" in methods
    assert "at each look over those still open" in methods
    assert "they decided how many seeds each method has, but no setting" in methods
    notes = build_table(evidence).notes
    assert any(note.startswith("Rows have 3 to 5 seeds") for note in notes)
    page = page_data(run)
    assert [line["seeds"] for line in page["made"]["budget"]] == [5, 3, 5, 3]
    assert [line["fresh seeds"] for line in page["made"]["budget"]] == [0, 5, 3, 0]
    assert all(claim["budget"].startswith(f"look {claim['look']} of 3: ") for claim in page["answer"]["claims"])


def test_where_all_have_the_same_seeds_methods_say_so(tmp_path):
    run = taken(planned(tmp_path / "run", ["nll: pilot-a-aug < vanilla"]), 2)
    assert "fixed settings with 5 seeds (0, 1, 2, 3, 4);" in methods_paragraph(RunEvidence(run))
    assert not any(said.startswith("Rows have") for said in reservations(run))


def test_a_run_of_which_nothing_finished_wants_no_seeds(tmp_path):
    maker = planned(tmp_path / "run", ["nll: pilot-a-aug < vanilla"], **PLAIN)
    maker.make(status="diverged")
    assert still_wanted(maker.run) == {"arms": set(), "confirm": set()}
    assert [claim.verdict for claim in outcome(RunEvidence(maker.run)).claims] == ["not tested"]


def test_a_claim_that_an_arm_lost_by_diverging_gets_no_seeds(tmp_path):
    """Its good side has a seed that diverged, so no seed can help it; the other side's may, and count."""
    lost, open_ = "nll: pilot-a-aug < dropout", "nll: dropout < l2"
    maker = planned(tmp_path / "run", [lost, open_], **PLAIN)
    maker.make(most=4)
    maker.make(most=1, status="diverged")
    maker.make()
    standings = {claim.holds: claim for claim in outcome(RunEvidence(maker.run)).claims}
    assert (standings[lost].verdict, standings[lost].is_open) == ("undecided", False)
    assert "pilot-a-aug" not in still_wanted(maker.run)["arms"]
