"""Evidence, claims and comparisons from predictions in memory, whose validation and test points are not the same."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar

from pilotstudy.evidence import claims, compare
from pilotstudy.evidence.figures import Best, Figures
from pilotstudy.evidence.predictions import StoredTrial, TestPredictions, gather
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics import intervals, recalibration, scores
from pilotstudy.metrics.computation import Fitted
from pilotstudy.metrics.intervals import Estimate
from pilotstudy.metrics.recalibration import Recalibration
from pilotstudy.runs.evaluating import evaluate
from pilotstudy.runs.records import Status, TrialRow
from pilotstudy.runs.schemas import ModelPredictions, Predictions
from pilotstudy.study import reading, spec
from pilotstudy.study.budget import Budget, Spent
from pilotstudy.study.rows import declared_rows
from pilotstudy.study.statements import Row, Statement

CLASSES = 4
SIZE = {"validation": 90, "test": 130}
SHARPNESS = {"validation": 3.0, "test": 1.0}  # so that what is fitted on the one does not fit the other
LABELS = {split: np.random.default_rng(n).integers(0, CLASSES, n) for split, n in SIZE.items()}
FINGERPRINT = "ab" * 32


def logits(split: str, *of: object) -> np.ndarray:
    random = np.random.default_rng([ord(c) for c in f"{split}{of}"])
    found = random.normal(size=(SIZE[split], CLASSES))
    found[np.arange(SIZE[split]), LABELS[split]] += 1
    return (found * SHARPNESS[split]).astype(np.float32)


def stored(phase: str, arm: str, seed: int) -> StoredTrial:
    """A trial with the point prediction of the last and the best epoch."""

    def part(split: str, at: str) -> Predictions:
        return Predictions(np.arange(SIZE[split]), LABELS[split], logits(split, phase, arm, seed, at))

    predictions = {(at, "point"): ModelPredictions(part("validation", at), part("test", at)) for at in ("last", "best")}
    row = TrialRow(
        phase=phase,
        arm=arm,
        number=seed,
        seed=seed,
        key=f"{phase}-{arm}-{seed}",
        status=Status.FINISHED,
        reused=False,
        retries=0,
        moves=0,
        error=None,
        settings={},
        epochs=1,
        best_epoch=1,
        training_seconds=1.0,
        evaluations=evaluate(predictions),
        reliability=(),
    )
    return StoredTrial(row, predictions)


@pytest.fixture(scope="module")
def arms() -> list[StoredTrial]:
    return [stored("arms", arm, seed) for arm in ("vanilla", "l2", "dropout", "pilot-a-aug") for seed in (0, 1)]


@pytest.fixture(scope="module")
def tuned() -> list[StoredTrial]:
    return [stored("confirm", arm, seed) for arm in ("l2", "dropout") for seed in (0, 1)]


def gathered(trials: list[StoredTrial], at: str = "last", **how: Recalibration) -> TestPredictions:
    return gather(trials, at, **({"recalibration": "none"} | how), deep=False, fingerprint=FINGERPRINT)


def nll(log_p: np.ndarray, labels: np.ndarray) -> float:
    return float(-log_p[np.arange(len(labels)), labels].mean())


def temperature(log_p: np.ndarray, labels: np.ndarray) -> float:
    found = minimize_scalar(
        lambda log_t: nll(scores.log_probabilities(log_p, np.exp(log_t)), labels), bounds=(-4, 4), method="bounded"
    )
    return float(np.exp(found.x))


# Predictions.


def test_an_ensembles_temperature_is_fitted_on_validation(arms):
    predictions = gathered(arms, recalibration="temperature")
    members = {split: [] for split in SIZE}
    for arm in "vanilla", "l2", "dropout":
        own = temperature(logits("validation", "arms", arm, 1, "last"), LABELS["validation"])
        for split in SIZE:
            log_p = scores.log_probabilities(logits(split, "arms", arm, 1, "last"), own)
            members[split].append(np.exp(log_p))
    mean = {split: np.log(np.mean(found, 0)) for split, found in members.items()}
    t = temperature(mean["validation"], LABELS["validation"])
    assert t != pytest.approx(temperature(mean["test"], LABELS["test"]), rel=0.1)
    expected = scores.log_probabilities(mean["test"], t)
    np.testing.assert_allclose(predictions.rows[Row("ensemble", "ensemble")][1], expected, atol=1e-3)


@pytest.mark.parametrize("name", recalibration.RECALIBRATIONS)
def test_networks_and_ensembles_are_recalibrated_by_what_fits_their_own_validation(arms, name):
    predictions = gathered(arms, recalibration=name)
    members = {split: [] for split in SIZE}
    for arm in "vanilla", "l2", "dropout":
        own = recalibration.fit(name, logits("validation", "arms", arm, 1, "last"), LABELS["validation"])
        np.testing.assert_allclose(
            predictions.rows[Row(arm)][1], own(logits("test", "arms", arm, 1, "last")), atol=1e-9
        )
        for split in SIZE:
            members[split].append(np.exp(own(logits(split, "arms", arm, 1, "last"))))
    mean = {split: np.log(np.mean(probabilities, 0)) for split, probabilities in members.items()}
    own = recalibration.fit(name, mean["validation"], LABELS["validation"])
    ensemble = Row("ensemble", "ensemble")
    np.testing.assert_allclose(predictions.rows[ensemble][1], own(mean["test"]), atol=1e-9)
    expected = Fitted.on(own(mean["validation"]), LABELS["validation"])
    assert predictions.fits[ensemble][1].temperature == pytest.approx(expected.temperature, rel=1e-6)
    assert predictions.fits[ensemble][1].least_probability == pytest.approx(expected.least_probability, rel=1e-9)
    floor = scores.ece_noise_floor(np.exp(predictions.rows[Row("l2")][1]).max(1))[0]
    assert predictions.floors["ece"][Row("l2")][1] == pytest.approx(floor, rel=0.05)


def test_what_is_fitted_is_of_the_networks_own_validation(arms):
    figures = Figures(gathered(arms), ["nll", "nll_refinement", "nll_calibration", "conformal_size"], 20)
    on_validation = logits("validation", "arms", "l2", 1, "last")
    t = temperature(on_validation, LABELS["validation"])
    scaled = nll(scores.log_probabilities(logits("test", "arms", "l2", 1, "last"), t), LABELS["test"])
    values = {name: samples[Row("l2")].values[1] for name, samples in figures.samples.items()}
    assert values["nll_refinement"] == pytest.approx(scaled, abs=1e-4)
    assert values["nll_refinement"] + values["nll_calibration"] == pytest.approx(values["nll"], abs=1e-6)
    p = np.exp(scores.log_probabilities(on_validation))
    level = np.sort(p[np.arange(90), LABELS["validation"]])[90 - 82]  # ⌈0.9 · 91⌉ = 82 are no smaller
    size = (np.exp(scores.log_probabilities(logits("test", "arms", "l2", 1, "last"))) >= level).sum(1).mean()
    assert values["conformal_size"] == pytest.approx(size, abs=1e-6)


def test_after_temperature_scaling_nothing_of_nll_is_calibration(arms):
    figures = Figures(gathered(arms, recalibration="temperature"), ["nll", "nll_refinement", "nll_calibration"], 20)
    for row in figures.rows:
        np.testing.assert_allclose(figures.samples["nll_calibration"][row].values, 0, atol=1e-6)
        np.testing.assert_allclose(
            figures.samples["nll_refinement"][row].values, figures.samples["nll"][row].values, atol=1e-6
        )


def test_a_claim_is_held_against_networks_recalibrated_as_it_says(run):
    texts = [
        "nll: pilot-a-aug < vanilla",
        *(f"nll[{name}]: pilot-a-aug < vanilla" for name in recalibration.RECALIBRATIONS),
    ]
    evidence = RunEvidence(run)
    judged = claims.judge_all(evidence, [spec.Claim(says=text, holds=text) for text in texts])[-len(texts) :]
    for claim, name in zip(judged, ("none", *recalibration.RECALIBRATIONS), strict=True):
        figures = evidence.figures(["nll"], recalibration=name)
        difference = figures.difference("nll", Row("pilot-a-aug"), Row("vanilla"))
        assert claim.difference == pytest.approx(difference.value)
    assert len({round(claim.difference, 9) for claim in judged}) == len(texts)


def test_the_papers_ensemble_is_of_the_arms_at_their_fixed_settings(arms, tuned):
    predictions = gathered([*arms, *tuned])
    members = [scores.log_probabilities(logits("test", "arms", arm, 0, "last")) for arm in ("vanilla", "l2", "dropout")]
    by_hand = np.mean(np.exp(members), 0)
    np.testing.assert_allclose(np.exp(predictions.rows[Row("ensemble", "ensemble")][0]), by_hand, atol=1e-9)


@pytest.mark.parametrize("at", ["last", "best"])
def test_floors_are_of_the_test_points(arms, at):
    each = [
        scores.ece_noise_floor(np.exp(scores.log_probabilities(logits("test", "arms", "l2", seed, at))).max(1))[0]
        for seed in (0, 1)
    ]
    predictions = gathered(arms, at)
    assert predictions.floors["ece"][Row("l2")] == pytest.approx(dict(enumerate(each)), rel=1e-6)
    assert predictions.floor("ece", Row("l2")) == pytest.approx(np.mean(each), rel=1e-6)
    assert predictions.floor("nll", Row("l2")) is None


# Figures.


def log_p(seed: int) -> np.ndarray:
    return scores.log_probabilities(np.random.default_rng(seed).normal(size=(SIZE["test"], CLASSES)))


def of_rows(rows: dict[Row, dict[int, np.ndarray]], fingerprint: str = FINGERPRINT) -> TestPredictions:
    return TestPredictions(rows, LABELS["test"], fingerprint, {})


def test_an_ensemble_of_seeds_is_compared_with_all_seeds_of_another():
    deep, other = Row("vanilla", "seeds"), Row("l2")
    rows = {deep: {0: log_p(9)}, other: {seed: log_p(seed) for seed in range(3)}}
    found = Figures(of_rows(rows), ["nll"], 50).difference("nll", deep, other)
    by_hand = nll(log_p(9), LABELS["test"]) - np.mean([nll(log_p(seed), LABELS["test"]) for seed in range(3)])
    assert found.value == pytest.approx(by_hand, abs=1e-6)
    assert found.seeds == 1


def test_the_same_points_are_resampled_alike_and_others_apart():
    def resampled(fingerprint: str) -> np.ndarray:
        figures = Figures(of_rows({Row("l2"): {0: log_p(0)}}, fingerprint), ["nll"], 20)
        return figures.samples["nll"][Row("l2")].resampled

    assert np.array_equal(resampled("ab" * 32), resampled("ab" * 32))
    assert not np.array_equal(resampled("ab" * 32), resampled("cd" * 32))


def known(value: float, p: float, seeds: int = 3) -> Estimate:
    """An estimate with this p-value."""
    deviation = abs(value) / stats.norm.isf(p / 2)
    half = stats.norm.isf(0.025) * deviation
    found = Estimate(value, value - half, value + half, seeds, deviation**2, ((0.0, seeds - 1),) if seeds > 1 else ())
    assert found.p == pytest.approx(p, rel=1e-6)
    return found


def with_known_differences(p: dict[Row, float], seeds: dict[Row, int], diverged: tuple[Row, ...] = ()) -> Figures:
    """Figures of rows whose NLL is 0.1, 0.2, .. in this order, and whose difference from any other has this p."""
    figures = Figures.__new__(Figures)
    figures.rows, figures.diverged = list(seeds), dict.fromkeys(diverged, 1)
    figures.seeds, figures.has = lambda row: seeds[row], lambda metric, row: True
    figures.figure = lambda metric, row: SimpleNamespace(value=0.1 * (1 + figures.rows.index(row)))
    figures.difference = lambda metric, ours, theirs: known(-0.5, p[theirs])
    return figures


ROWS = [Row(arm) for arm in ("vanilla", "l2", "dropout", "batchnorm", "data-aug")]


@pytest.mark.parametrize(
    ("p", "real", "near"),
    [
        ((0.04, 0.04, 0.04, 0.04), True, ()),  # each at the plain level
        ((0.06, 0.04, 0.01, 0.04), False, (1, 2, 4)),  # the level over their number is 0.0125
        ((0.06, 0.01, 0.01, 0.01), False, (1,)),
    ],
)
def test_the_best_beats_each_and_what_may_be_is_judged_over_their_number(p, real, near):
    figures = with_known_differences(dict(zip(ROWS[1:], p, strict=True)), dict.fromkeys(ROWS, 3))
    assert figures.best("nll", ROWS) == Best(ROWS[0], real, tuple(ROWS[place] for place in near))


def test_rows_of_one_seed_neither_lead_nor_are_near():
    p = dict.fromkeys(ROWS, 0.01) | {ROWS[0]: 0.9, ROWS[3]: 0.9}
    figures = with_known_differences(p, dict.fromkeys(ROWS, 3) | {ROWS[0]: 1, ROWS[3]: 1})
    assert figures.best("nll", ROWS) == Best(ROWS[1], is_real=True)
    assert with_known_differences(p, dict.fromkeys(ROWS, 1)).best("nll", ROWS) == Best()


def test_a_row_with_diverged_seeds_leads_only_where_all_have_such():
    p = dict.fromkeys(ROWS, 0.01) | {ROWS[0]: 0.9}
    figures = with_known_differences(p, dict.fromkeys(ROWS, 3), diverged=(ROWS[0],))
    assert figures.best("nll", ROWS) == Best(ROWS[1], near=(ROWS[0],))
    everywhere = with_known_differences(p, dict.fromkeys(ROWS, 3), diverged=tuple(ROWS))
    assert everywhere.best("nll", ROWS).leader == ROWS[0]


# Claims.


def judged(holds: str, found: dict[str, Estimate]) -> claims.Judgement:
    """A statement of `pilot-a-aug`, where its difference from each opponent is known."""
    rows = [Row("pilot-a-aug"), *map(Row.parse, found)]

    def contrast(metric, terms, constant):
        return found[str(terms[-1][1])]

    return claims.Judgement(Statement.parse(holds), SimpleNamespace(rows=rows, contrast=contrast), rows)


@pytest.mark.parametrize(("p", "verdict"), [(0.03, "undecided"), (0.01, "fails")])
def test_one_failure_in_a_group_is_corrected_for_their_number(p, verdict):
    """The smallest of three p-values counts three times."""
    estimates = {"vanilla": known(-0.1, 0.4), "l2": known(0.2, p), "dropout": known(-0.1, 0.5)}
    found = judged("nll: pilot-a-aug < baselines", estimates)
    assert found.uncorrected == verdict
    assert found.p == pytest.approx(3 * p)
    if verdict == "undecided":
        assert found.reason(None) == "it fails beside l2 alone, but not after correction for 3 comparisons"


def test_the_hardest_opponent_is_the_one_that_speaks_most_against_it():
    claim = "nll: pilot-a-aug < baselines"
    sure, unsure, against = known(-1.0, 1e-6), known(-0.1, 0.6), known(0.5, 1e-4)
    assert judged(claim, {"vanilla": sure, "l2": unsure}).hardest == "l2"
    assert judged(claim, {"vanilla": sure, "l2": unsure, "dropout": against}).hardest == "dropout"
    slightly = known(0.1, 0.6)  # more likely false than true
    assert judged(claim, {"vanilla": unsure, "l2": slightly}).hardest == "l2"


def test_a_group_with_one_opponent_of_one_seed_is_undecided():
    found = judged("nll: pilot-a-aug < baselines", {"vanilla": known(-1.0, 1e-6), "l2": known(-1.0, 1e-6, seeds=1)})
    assert found.uncorrected == "undecided"


def test_budgets_in_words():
    given = Budget(seeds=3, epochs=6, train_size=None, search_trials={"l2": 4, "dropout": 4}, confirm_seeds=5)
    tuned = [Row("l2", phase="confirm"), Row("dropout", phase="confirm")]
    assert claims.budget_in_words(tuned, given, 5) == "5 fresh seeds, 6 epochs, tuned with 4 trials each"
    assert claims.budget_in_words(tuned, given, 4).startswith("4 of 5 fresh seeds")
    known = replace(given, spent={"l2": Spent(4, 1234.4), "dropout": Spent(4, 20.0)})
    said = "5 fresh seeds, 6 epochs, tuned with 4 trials each (equal in trials: l2 1,234 s, dropout 20 s)"
    assert claims.budget_in_words(tuned, known, 5) == said
    shared = replace(known, search_by="seconds", spent={"l2": Spent(3, 36.0), "dropout": Spent(5, 35.2)})
    said = "tuned with trials shared out equally in seconds (l2 36 s in 3 trials, dropout 35 s in 5 trials)"
    assert claims.budget_in_words(tuned, shared, 5).endswith(said)
    assert claims.budget_in_words([Row("l2")], given, 3) == "3 seeds, 6 epochs, fixed settings"
    assert claims.budget_in_words([Row("l2")], given, 2).startswith("2 of 3 seeds")


def study(**changes) -> spec.Study:
    content = {
        "title": "made",
        "seeds": [0, 1],
        "data": {"name": "cifar10", "validation": 50},
        "network": {"name": "mlp-512"},
        "training": {"epochs": 6},
        "arms": {"vanilla": {}, "pilot-a-aug": {}, "l2": {}},
        "search": {"arms": ["l2"], "trials": 8},
    }
    return reading.validate_study(content | changes, "test")


class Given(RunEvidence):
    """The evidence of a run with these predictions, whatever is asked for."""

    def __init__(self, name: str, study: spec.Study, predictions: TestPredictions):
        frozen = SimpleNamespace(history=(), looks=None, tests={}, declared=lambda: declared_rows(study))
        files = SimpleNamespace(folder=Path(name))
        super().__init__(SimpleNamespace(name=name, files=files, study=lambda: study, frozen=lambda: frozen))
        self.predictions, self.trial_rows = predictions, []

    def at(self, *words, **marks) -> TestPredictions:
        return self.predictions


def test_claims_are_one_family_for_holm():
    """What cannot be tested is not in it."""

    def noisy(arm: str, seed: int) -> np.ndarray:
        random = np.random.default_rng([ord(c) for c in f"{arm}{seed}"])
        return scores.log_probabilities(logits("test", "shared") + 0.3 * random.normal(size=(SIZE["test"], CLASSES)))

    rows = {Row(arm): {seed: noisy(arm, seed) for seed in range(3)} for arm in ("vanilla", "l2", "pilot-a-aug")}
    said = ["nll: pilot-a-aug < vanilla", "nll: dropout < l2", "brier: vanilla > l2", "accuracy: pilot-a-aug > l2"]
    made = study(claims=[{"says": text, "holds": text} for text in said])
    found = claims.judge_all(Given("made", made, of_rows(rows)))
    assert [one.verdict == "not tested" for one in found] == [False, True, False, False]
    assert (found[1].p, found[1].p_holm) == (None, None)
    tested = sorted((one for one in found if one.p is not None), key=lambda one: one.p)
    so_far = 0.0
    for times, one in zip((3, 2, 1), tested, strict=True):
        so_far = max(so_far, min(1.0, times * one.p))
        assert one.p_holm == pytest.approx(so_far)
    assert tested[0].p_holm > tested[0].p


# Comparisons.


@pytest.mark.parametrize(
    ("changes", "arm", "ensemble"),
    [
        ({}, True, True),
        ({"training": {"epochs": 7}}, False, False),
        ({"network": {"name": "cnn"}}, False, False),
        ({"data": {"name": "cifar10", "validation": 60}}, False, False),
        ({"arms": {"vanilla": {}, "pilot-a-aug": {}, "l2": {"weight_decay": 0.125}}}, False, False),
        ({"arms": {"vanilla": {}, "l2": {}}}, True, False),
        ({"seeds": [0, 1, 2]}, True, True),
    ],
)
def test_a_seed_means_the_same_where_everything_else_does(changes, arm, ensemble):
    one, other = study(), study(**changes)
    assert compare.same_trials(one, other, Row("l2")) == arm
    assert compare.same_trials(one, other, Row("ensemble", "ensemble")) == ensemble
    assert not compare.same_trials(one, other, Row("l2", phase="confirm"))  # settings that were found


def test_a_difference_between_runs_is_theirs_less_the_firsts():
    sharpness, fingerprints = {"first": 1.0, "second": 3.0}, {"first": "ab" * 32, "second": "cd" * 32}
    by_seed = {
        name: {seed: scores.log_probabilities(sharp * log_p(seed)) for seed in range(2)}
        for name, sharp in sharpness.items()
    }
    runs = [Given(name, study(), of_rows({Row("l2"): by_seed[name]}, fingerprints[name])) for name in sharpness]
    (row,) = [comparison.record() for comparison in compare.compare_runs(runs, ["nll"])]
    own = {
        name: np.mean([nll(of_seed, LABELS["test"]) for of_seed in found.values()]) for name, found in by_seed.items()
    }
    assert own["second"] > own["first"]
    assert (row["in first"], row["run"], row["its figure"]) == (
        pytest.approx(own["first"]),
        "second",
        pytest.approx(own["second"]),
    )
    assert row["difference"] == pytest.approx(own["second"] - own["first"])
    assert row["points"] == "other"
    assert row["improvement"] is None  # images of other data say nothing of its chance


def test_words_about_a_difference():
    say = compare.difference_in_words
    assert say("nll", known(-1.0, 0.02), 0.02, 300) == "lower (better)"
    assert say("nll", known(1.0, 0.02), 0.02, 300) == "higher (worse)"
    assert say("accuracy", known(1.0, 0.02), 0.02, 300) == "higher (better)"
    assert say("entropy", known(1.0, 0.02), 0.02, 300) == "higher"
    many = say("nll", known(-1.0, 0.02), 0.06, 300)
    assert many == "lower (better), but not after correction for the number of comparisons"
    assert say("nll", known(-1.0, 0.02, seeds=1), 0.02, 300) == "lower (better) for this one seed"
    assert intervals.LEVEL == 0.95
