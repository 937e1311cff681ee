"""What no verdict may rest on: looks that were not counted, seeds that diverged, noise floors that differ."""

import numpy as np
import pytest

from pilotstudy.evidence.claims import judge_all
from pilotstudy.evidence.compare import compare_rows, compare_runs
from pilotstudy.evidence.ensembles import ensemble_figures
from pilotstudy.evidence.figures import Figures
from pilotstudy.evidence.predictions import TestPredictions
from pilotstudy.evidence.reservations import looks, reservations
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics import scores
from pilotstudy.page.content import page_data
from pilotstudy.report.export import methods_paragraph
from pilotstudy.report.formats import FORMATS, table_rows
from pilotstudy.report.table import build_table
from pilotstudy.report.texts import claims_text
from pilotstudy.runs.records import Status
from pilotstudy.study import reading
from pilotstudy.study.resources import Location
from pilotstudy.study.spec import Claim
from pilotstudy.study.statements import Row
from tests.support.made_run import FINGERPRINT, Maker, content, made

SEARCH = content()["search"]


def start_again(run, **changes) -> None:
    run.freeze(reading.validate_study(content(**changes), "made"), Location(), FINGERPRINT)


# Looks.


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 1),
        ({"seeds": [0, 1]}, 1),
        ({"seeds": [0, 1, 2, 3]}, 2),
        ({"seeds": [0, 1, 7]}, 2),  # as many, but another
        ({"search": SEARCH | {"confirm_seeds": 5}}, 2),
        ({"search": SEARCH | {"trials": 16}}, 1),  # a search sees validation images only
        ({"search": None}, 1),
    ],
)
def test_a_start_that_adds_seeds_to_results_is_another_look(tmp_path, changes, expected):
    run = made(tmp_path / "run", points=60, most=4)
    start_again(run, **changes)
    assert looks(run) == expected
    start_again(run, **changes)  # resumed
    assert looks(run) == expected
    start_again(run, **changes | {"seeds": list(range(9))})
    assert looks(run) == expected + 1


def test_seeds_that_are_added_before_any_result_are_no_look(tmp_path):
    run = made(tmp_path / "run", points=60, most=0)
    start_again(run, seeds=[0, 1, 2, 3])
    assert looks(run) == 1


def test_looks_are_paid_for_and_told_everywhere(tmp_path):
    run = made(tmp_path / "run")
    before = RunEvidence(run)
    claim_before = judge_all(before)[0]
    start_again(run, seeds=[0, 1, 2, 3])
    evidence = RunEvidence(run)
    claim = judge_all(evidence)[0]
    assert claim.p == pytest.approx(2 * claim_before.p)
    assert (claim.looks, claim.low, claim.high) == (2, claim_before.low, claim_before.high)
    rows = [comparison.difference for comparison in compare_rows(evidence, Row("vanilla"), ["nll"])]
    rows_before = [comparison.difference for comparison in compare_rows(before, Row("vanilla"), ["nll"])]
    assert [row.p for row in rows] == pytest.approx([min(1.0, 2 * row.p) for row in rows_before])
    told = "Seeds were added after results were seen (2 looks); p-values are multiplied by 2."
    page = page_data(run)
    assert told in build_table(evidence).notes
    assert told in methods_paragraph(evidence)
    assert told in claims_text([claim], reservations(run))
    assert told in page["table"]["notes"]
    assert told in page["answer"]["notes"]


def test_a_comparison_of_runs_pays_for_the_looks_at_both(tmp_path):
    names = "first", "second"
    runs = [
        made(tmp_path / name, points=60, network={"name": network})
        for name, network in zip(names, ("mlp-512", "mlp-1024"), strict=True)
    ]
    plain = compare_runs([RunEvidence(run) for run in runs], ["nll"])
    for run in runs:
        start_again(run, seeds=[0, 1, 2, 3])
    paid = compare_runs([RunEvidence(run) for run in runs], ["nll"])
    for one, other in zip(plain, paid, strict=True):
        assert other.difference.p == pytest.approx(min(1.0, 3 * one.difference.p))


# Training images.


@pytest.mark.parametrize("subset", ["fixed", "by-seed"])
def test_intervals_say_what_images_they_hold_for(tmp_path, subset):
    data = {"name": "cifar10", "validation": 50, "train_size": 1000, "train_subset": subset}
    run = made(tmp_path / "run", points=60, data=data)
    evidence = RunEvidence(run)
    told = [
        " ".join(build_table(evidence).notes),
        methods_paragraph(evidence),
        claims_text(judge_all(evidence), reservations(run)),
    ]
    told.append(" ".join(page_data(run)["answer"]["notes"]))
    assert [("for these training images" in text) for text in told] == [subset == "fixed"] * 4


# Divergence.


def with_diverged(folder, arm: str, **changes) -> RunEvidence:
    """A run in which the first seed of an arm diverged."""
    maker = Maker(folder, reading.validate_study(content(search=None, **changes), "made"))
    while not isinstance(item := maker.director.next(), str):
        bad = (item.arm, item.number) == (arm, 0)
        maker.conclude(item, maker.give_up(item, Status.DIVERGED) if bad else maker.finish(item, keep=True))
    maker.director.save()
    return RunEvidence(maker.run)


def test_a_row_is_not_better_for_the_seeds_that_it_lost(tmp_path):
    evidence = with_diverged(tmp_path / "run", "pilot-a-aug", seeds=[0, 1, 2, 3])
    texts = [
        "nll: pilot-a-aug < vanilla",
        "nll: vanilla < pilot-a-aug",
        "entropy: pilot-a-aug > vanilla",
        "nll: l2 > dropout",
    ]
    _, better, worse, neither, others = judge_all(evidence, [Claim(says=text, holds=text) for text in texts])
    for claim in better, worse, neither:
        assert (claim.verdict, claim.p) == ("undecided", 1)
        assert claim.reason == "diverged seeds count against what looks better: pilot-a-aug 1 of 4 diverged"
    assert others.uncorrected == "holds"
    (comparison,) = [c for c in compare_rows(evidence, Row("vanilla"), ["nll"]) if c.row == Row("pilot-a-aug")]
    assert comparison.difference.says == "diverged seeds count against what looks better, so nothing can be said"
    table = build_table(evidence)
    assert {line.cells["nll"].mark for line in table.lines if line.row.arm == "pilot-a-aug"} <= {"near", ""}


def test_a_row_is_worse_for_all_that_it_lost(tmp_path):
    """What speaks against it stands."""
    evidence = with_diverged(tmp_path / "run", "vanilla", seeds=[0, 1, 2, 3])
    (claim,) = judge_all(evidence)
    assert (claim.holds, claim.verdict) == ("nll: pilot-a-aug < vanilla", "holds")


def test_the_table_counts_what_diverged_in_every_form(tmp_path):
    evidence = with_diverged(tmp_path / "run", "dropout")
    table = build_table(evidence)
    counted = {row["row"]: (row["seeds"], row["diverged"]) for row in table_rows(table)}
    assert counted["dropout"] == counted["dropout@mc"] == counted["ensemble"] == (2, 1)  # it would have been a member
    assert counted["vanilla"] == (3, 0)
    for name in "text", "markdown", "latex", "html":
        assert FORMATS[name](table).count("2, 1 of 3 diverged") == 3, name
    lines = {line["row"]: line for line in page_data(evidence.run)["table"]["variants"]["last"]}
    assert lines["dropout"]["diverged_in_words"] == "1 of 3 diverged"
    assert lines["vanilla"]["diverged_in_words"] == ""


def test_a_row_that_diverged_with_every_seed_is_in_the_table(tmp_path):
    evidence = with_diverged(tmp_path / "run", "l2", seeds=[0])
    (line,) = [line for line in build_table(evidence).lines if line.row == Row("l2")]
    assert (line.seeds, line.diverged, line.cells["nll"].ours) == (0, 1, None)
    table = build_table(evidence)
    assert "1 of 1 diverged" in FORMATS["text"](table)
    assert [line.diverged for line in table.lines if line.row.arm == "ensemble"] == [0]  # it is no member


# Noise floors.


def test_calibrated_networks_with_unlike_floors_rarely_differ():
    """Two rows that are calibrated perfectly, the one surer of itself than the other."""
    random = np.random.default_rng(4)
    rounds, n, seeds = 40, 1000, 5
    raw, found = 0, 0
    for _ in range(rounds):
        labels = np.zeros(n, int)
        rows, floors = {}, {}
        for row, sure in (Row("vanilla"), 2.0), (Row("l2"), 12.0):
            rows[row], floors[row] = {}, {}
            for seed in range(seeds):
                confidence = random.beta(sure, 1, n).clip(0.51, 0.9999)
                right = random.random(n) < confidence
                p = np.where(right, confidence, 1 - confidence)
                rows[row][seed] = np.log(np.stack([p, 1 - p], 1))
                floors[row][seed] = scores.ece_noise_floor(confidence, draws=100)[0]
        predictions = TestPredictions(rows, labels, FINGERPRINT, {"ece": floors})
        difference = Figures(predictions, ["ece"], 100).difference("ece", Row("vanilla"), Row("l2"))
        raw += difference.low > 0
        found += difference.sign != 0
    assert raw / rounds > 0.2
    assert found / rounds < 0.05 + 0.07


# Words.


def test_the_members_of_ensembles_are_named(run, evidence):
    rows = {str(row.row): row.record() for row in ensemble_figures(evidence)}
    assert rows["ensemble"]["members"] == "vanilla, dropout, l2"
    assert rows["dropout@seeds"]["members"] == "seed 0, seed 1, seed 2"
    told = "Ensemble: the mean of the probabilities of Vanilla, Dropout, L2."
    assert told in build_table(evidence).notes
    assert told in methods_paragraph(evidence)


def test_methods_say_what_is_true_of_the_run(tmp_path, evidence):
    tuned = methods_paragraph(evidence)
    fixed = methods_paragraph(RunEvidence(made(tmp_path / "fixed", points=60, search=None)))
    single = methods_paragraph(RunEvidence(made(tmp_path / "single", points=60, search=None, seeds=[0])))
    assert ("Welch" in tuned, "Welch" in fixed, "Welch" in single) == (True, False, False)
    assert ("paired over both" in tuned, "paired over both" in fixed) == (False, True)
    assert ("Student" in fixed, "Student" in single) == (True, False)
    assert all("no setting in this run was chosen by them" in text for text in (tuned, fixed, single))
