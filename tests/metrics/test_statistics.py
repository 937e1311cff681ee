"""Intervals, p-values and corrections, against scipy and closed forms, and by simulation where there is none."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pilotstudy.metrics import intervals, registry, resampling, scores
from pilotstudy.metrics.computation import Fitted
from pilotstudy.metrics.intervals import contrast, estimate, holm, seeds_needed
from pilotstudy.metrics.resampling import Sample


def predictions(n: int = 2000, classes: int = 5, seed: int = 0, sharp: float = 2.0):
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, n)
    logits = random.normal(size=(n, classes)) * sharp
    logits[np.arange(n), labels] += 1.5
    return scores.log_probabilities(logits), labels


def test_the_metrics_are_those_of_the_evaluation():
    log_p, labels = predictions()
    both = [log_p, log_p[:, ::-1]]
    fits = [Fitted.on(each, labels) for each in both]
    values, resampled = resampling.resample(both, labels, registry.resampled_metrics(), 10, fits=fits)
    expected = registry.evaluate(log_p, labels, fitted=fits[0])
    for name in registry.resampled_metrics():
        assert values[name][0] == pytest.approx(expected[name], abs=1e-6), name
        assert resampled[name].shape == (10, 2)


def test_a_resample_is_the_metric_of_the_resampled_points():
    log_p, labels = predictions(500)
    names = [name for name in registry.resampled_metrics() if name not in ("adaptive_ece", "aurc", "augrc")]
    fitted = Fitted.on(log_p, labels)
    _, resampled = resampling.resample([log_p], labels, names, 3, seed=7, fits=[fitted])
    weights = np.concatenate(list(resampling.resampled_weights(500, 3, 7)))
    for row, weight in enumerate(weights):
        drawn = np.repeat(np.arange(500), np.rint(weight * 500).astype(int))
        assert len(drawn) == 500
        slow = registry.evaluate(log_p[drawn], labels[drawn], fitted=fitted)
        for name in names:
            assert resampled[name][row, 0] == pytest.approx(slow[name], abs=1e-5), name


@pytest.mark.parametrize("name", ["aurc", "augrc", "adaptive_ece"])
def test_the_quick_resamples_spread_as_the_slow_ones(name):
    log_p, labels = predictions(1000)
    _, quick = resampling.resample([log_p], labels, [name], 400, seed=1)
    random = np.random.default_rng(0)
    slow = []
    for _ in range(400):
        drawn = random.integers(0, 1000, 1000)
        slow.append(registry.evaluate(log_p[drawn], labels[drawn])[name])
    assert quick[name].std() == pytest.approx(np.std(slow), rel=0.2)


def test_with_seeds_alone_it_is_the_paired_t_test():
    random = np.random.default_rng(0)
    ours, theirs = random.normal(size=(2, 4))
    theirs += 0.5
    flat = [Sample((0, 1, 2, 3), values, np.tile(values, (50, 1))) for values in (ours, theirs)]
    found = contrast([(1, flat[0]), (-1, flat[1])], ["same", "same"])
    expected = stats.ttest_rel(ours, theirs)
    interval = expected.confidence_interval()
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    one = contrast([(1, flat[0])], ["same"])
    assert one.p == pytest.approx(stats.ttest_1samp(ours, 0).pvalue, rel=1e-6)
    swapped = Sample((3, 2, 1, 0), theirs[::-1], np.tile(theirs[::-1], (50, 1)))  # paired by seed, not by place
    assert contrast([(1, flat[0]), (-1, swapped)], ["same", "same"]).p == pytest.approx(found.p)


def test_with_points_alone_it_is_the_normal_interval():
    log_p, labels = predictions(4000)
    values, resampled = resampling.resample([log_p], labels, ["nll"], 4000)
    found = estimate([(values["nll"], resampled["nll"])])
    points = -log_p[np.arange(4000), labels]
    assert found.value == pytest.approx(points.mean())
    assert found.high - found.value == pytest.approx(1.96 * points.std() / np.sqrt(4000), rel=0.04)
    assert found.deviation is None


def simulate(random, seeds: int, points: int, shift: float, of_seeds: float, resamples: int = 200):
    """Two rows over shared seeds and points: main effects of both, and what seeds do to single points."""
    shared = random.normal(size=points)
    rows = []
    for effect in 0.0, shift:
        values = effect + of_seeds * random.normal(size=(seeds, 1)) + shared + random.normal(size=(seeds, points))
        rows.append(values)
    weights = np.concatenate(list(resampling.resampled_weights(points, resamples, int(random.integers(1 << 30)))))
    return [Sample(tuple(range(seeds)), row.mean(1), (weights @ row.T).astype(float)) for row in rows]


@pytest.mark.parametrize(("seeds", "of_seeds"), [(2, 0.3), (3, 0.0), (3, 0.05), (3, 0.3), (5, 0.1)])
def test_intervals_cover_and_false_findings_are_as_rare_as_stated(seeds, of_seeds):
    random = np.random.default_rng(3)
    rounds, covered, false = 400, 0, 0
    for _ in range(rounds):
        one, other = simulate(random, seeds, 100, 0.0, of_seeds)
        covered += abs((found := contrast([(1, other)], ["s"])).value) <= found.high - found.value
        false += contrast([(1, one), (-1, other)], ["s", "s"]).p < 0.05
    assert covered / rounds > 0.95 - 0.022  # two standard errors of the simulation
    assert false / rounds < 0.05 + 0.022
    if of_seeds >= 0.1:  # nor are they idle: not far wider than they need to be
        assert covered / rounds < 0.99


@pytest.mark.parametrize("sharp", [1.0, 3.0])
def test_the_interval_of_the_ece_covers_what_another_test_set_would_give(sharp):
    """One network, many test sets: calibrated (at the noise floor) and over-confident."""

    def test_set(seed: int):
        random = np.random.default_rng(seed)
        logits = random.normal(size=(1000, 4)) * 1.5
        p = np.exp(scores.log_probabilities(logits))
        labels = (p.cumsum(1) > random.random((1000, 1))).argmax(1)
        return scores.log_probabilities(logits * sharp), labels

    drawn = [test_set(seed) for seed in range(300)]
    expected = np.mean([registry.evaluate_epoch(log_p, labels)["ece"] for log_p, labels in drawn])
    covered = 0
    for log_p, labels in drawn:
        values, resampled = resampling.resample([log_p], labels, ["ece"], 200)
        found = estimate([(values["ece"], resampled["ece"])])
        covered += found.low <= expected <= found.high
    assert covered / 300 > 0.92


def test_the_family_of_holm_keeps_its_level():
    random = np.random.default_rng(0)
    any_false = 0
    for _ in range(250):
        rows = [simulate(random, 3, 50, 0.0, 0.2, 100) for _ in range(6)]
        p = [contrast([(1, one), (-1, other)], ["s", "s"]).p for one, other in rows]
        any_false += min(holm(p)) < 0.05
    assert any_false / 250 < 0.05 + 0.028


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_by_its_definition(p):
    order = sorted(range(len(p)), key=lambda i: p[i])
    expected, so_far = {}, 0.0
    for k, i in enumerate(order):
        so_far = max(so_far, min(1.0, (len(p) - k) * p[i]))
        expected[i] = so_far
    assert holm(p) == [expected[i] for i in range(len(p))]
    assert all(adjusted >= given for adjusted, given in zip(holm(p), p, strict=True))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.lists(st.integers(0, 5), min_size=1, max_size=6))
def test_probability_of_improvement_is_mann_whitneys(ours, theirs):
    u = stats.mannwhitneyu(ours, theirs).statistic  # counts ours > theirs
    found = intervals.probability_of_improvement(np.array(ours), np.array(theirs), sign=1)
    assert found == pytest.approx(u / (len(ours) * len(theirs)))


@pytest.mark.parametrize("effect", [0.5, 1.0, 2.0])
def test_seeds_needed_reaches_the_power_of_the_t_test(effect):
    values = np.array([-1.0, 0.0, 1.0]) + effect  # deviation 1
    found = estimate([(values, np.tile(values, (10, 1)))])
    needed = seeds_needed(found)

    def power(n: int, deviation: float) -> float:
        return stats.nct.sf(stats.t.isf(0.025, n - 1), n - 1, effect / deviation * np.sqrt(n))

    for n, quantile in (needed.low, 0.9), (needed.high, 0.1):  # of what the sample variance may be of the true one
        deviation = np.sqrt(2 / stats.chi2.ppf(quantile, 2))
        assert power(n, deviation) >= 0.75
        assert power(n - 2, deviation) < 0.85 or n == 4  # one more than there are
    assert str(needed) == f"{needed.low} to {needed.high} seeds"


def test_seeds_cannot_make_up_for_points():
    random = np.random.default_rng(0)
    one, other = simulate(random, 5, 50, 0.001, 0.0)
    noisy = contrast([(1, one)], ["s"], constant=0.01 - one.values.mean())
    assert noisy.value == pytest.approx(0.01)
    assert np.sqrt(noisy.points_variance) > 0.05
    assert seeds_needed(noisy) is None
    assert seeds_needed(estimate([(one.values[:1], one.resampled[:, :1])])) is None
    assert contrast([(1, one), (-1, Sample((9,), other.values[:1], other.resampled[:, :1]))], ["s", "s"]) is None


def test_unpaired_seeds_are_welchs_groups():
    random = np.random.default_rng(1)
    ours, theirs = random.normal(size=4), random.normal(size=3) + 1
    rows = [Sample(tuple(range(len(v))), v, np.tile(v, (20, 1))) for v in (ours, theirs)]
    found = contrast([(1, rows[0]), (-1, rows[1])], ["arms", "confirm"])
    welch = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval()
    assert found.value == pytest.approx(ours.mean() - theirs.mean())
    assert (found.low, found.high) == pytest.approx((welch.low, welch.high))
    assert found.p == pytest.approx(stats.ttest_ind(ours, theirs, equal_var=False).pvalue, rel=1e-6)


def test_of_rows_that_are_alike_one_is_rarely_the_best():
    random = np.random.default_rng(0)
    declared = 0
    for _ in range(150):
        rows = [row for _ in range(3) for row in simulate(random, 3, 50, 0.0, 0.2, 100)]
        leader = min(rows, key=lambda row: row.values.mean())
        others = [row for row in rows if row is not leader]
        p = [contrast([(1, leader), (-1, row)], ["s", "s"]).p for row in others]
        declared += max(p) < 0.05  # as `Figures.best` does: the winner needs no correction
    assert declared / 150 < 0.05


def test_figures_that_are_no_numbers_decide_nothing():
    unknown = estimate([(np.array([np.nan, np.nan]), np.full((10, 2), np.nan))])
    assert (unknown.p, unknown.sign) == (1, 0)


# Verdicts: the floor under intervals, noise floors, looks, divergence.

NUMBERS = st.floats(-5, 5)


@given(
    st.lists(NUMBERS, min_size=2, max_size=5), st.lists(NUMBERS, max_size=4), st.integers(0, 1000), st.floats(0.01, 3)
)
def test_no_interval_is_narrower_than_the_bootstrap_of_its_networks_and_p_is_where_it_touches_0(ours, theirs, seed, sd):
    random = np.random.default_rng(seed)
    groups = []
    for values in filter(None, (ours, theirs)):
        groups.append((np.array(values), np.array(values) + sd * random.normal(size=(40, len(values)))))
    found = estimate(groups)
    bootstrap = np.std(sum(resampled.mean(1) for _, resampled in groups), ddof=1)
    assert found.high - found.value >= stats.norm.isf(0.025) * bootstrap * (1 - 1e-9)
    assert found.value - found.low == pytest.approx(found.high - found.value, rel=1e-6, abs=1e-9)
    assert found.sign == int(found.low > 0) - int(found.high < 0)
    if 1e-9 < found.p < 1:
        tail = found.p / 2
        parts = found.points_variance, found.of_seeds, found.networks_variance
        assert intervals.half_width(*parts, tail) == pytest.approx(abs(found.value), rel=1e-6)


def test_degrees_of_freedom_of_variances_whose_squares_are_too_small_for_a_float():
    assert intervals.degrees_of_freedom([(1e-262, 4)]) == pytest.approx(4)
    assert intervals.degrees_of_freedom([(1e-262, 4), (1e-262, 4)]) == pytest.approx(8)


def test_seeds_that_agree_by_chance_do_not_make_it_narrow():
    """Three seeds with the same figure, whose networks err on other points: seeds alone would tell no uncertainty."""
    random = np.random.default_rng(0)
    values = np.array([1.0, 1.001, 0.999])
    found = estimate([(values, values + random.normal(size=(5000, 3)))])
    assert found.high - found.value == pytest.approx(1.96 / np.sqrt(3), rel=0.05)
    assert found.points_variance == pytest.approx(0, abs=0.05)
    assert found.p == pytest.approx(2 * stats.norm.sf(np.sqrt(3)), rel=0.1)


def test_more_groups_are_satterthwaites():
    random = np.random.default_rng(5)
    groups = [random.normal(size=n) * sd for n, sd in ((4, 1.0), (3, 2.0), (6, 0.5))]
    found = estimate([(values, np.tile(values, (5, 1))) for values in groups])
    variances = [values.var(ddof=1) / len(values) for values in groups]
    df = sum(variances) ** 2 / sum(v**2 / (len(values) - 1) for v, values in zip(variances, groups, strict=True))
    assert found.high - found.value == pytest.approx(stats.t.isf(0.025, df) * np.sqrt(sum(variances)))


def flat(values: list[float], floors: list[float] | None = None) -> Sample:
    """Of seeds alone."""
    own = np.array(values)
    return Sample(tuple(range(len(own))), own, np.tile(own, (10, 1)), None if floors is None else np.array(floors))


@pytest.mark.parametrize(
    ("floors", "p", "sign"),
    [
        ([0.0, 0.0, 0.0], "raw", -1),
        ([-0.02, -0.02, -0.02], "less", 0),  # what is left is small
        ([-0.2, -0.2, -0.2], "none", 0),  # and here it points the other way
        ([0.2, 0.2, 0.2], "raw", -1),  # a larger difference convinces no more than the raw one
    ],
)
def test_a_verdict_holds_raw_and_with_noise_floors_taken_off(floors, p, sign):
    ours, theirs = [0.10, 0.11, 0.105], [0.127, 0.130, 0.133]
    found = contrast([(1, flat(ours, floors)), (-1, flat(theirs, [0.0] * 3))], ["s", "s"])
    raw = stats.ttest_rel(ours, theirs)
    less = stats.ttest_rel(np.array(ours) - floors, theirs)
    assert found.p == pytest.approx({"raw": raw.pvalue, "less": less.pvalue, "none": 1.0}[p], rel=1e-5)
    assert found.sign == sign
    assert found.is_within_floors == (sign == 0)
    interval = raw.confidence_interval()
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))  # what is shown is the raw one


def test_looks_multiply_p_and_leave_the_interval():
    once = contrast([(1, flat([1.0, 1.1, 1.3]))], ["s"])
    assert once.sign == 1
    for looks in 2, 3, 1000:
        again = replace(once, looks=looks)
        assert again.p == pytest.approx(min(1.0, looks * once.p))
        assert (again.low, again.high) == (once.low, once.high)
    assert replace(once, looks=1000).sign == 0


@pytest.mark.parametrize(("barred", "sign"), [((), 1), ((-1,), 1), ((1,), 0), ((-1, 1), 0)])
def test_a_barred_sign_is_never_found(barred, sign):
    found = replace(contrast([(1, flat([1.0, 1.1, 1.3]))], ["s"]), barred=barred)
    assert (found.sign, found.is_barred) == (sign, sign == 0)
    assert (found.p == 1) == (sign == 0)


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("kind", ["normal", "exponential", "standard_t"])
def test_error_and_coverage_with_seeds_of_any_shape(kind, seeds):
    """Differences of rows, with images that a bootstrap sees; the long form is tests/bench/error_rates.py."""
    random = np.random.default_rng(11)
    draw = {
        "normal": lambda: random.normal(size=seeds),
        "exponential": lambda: random.exponential(size=seeds) - 1,
        "standard_t": lambda: random.standard_t(3, size=seeds) / np.sqrt(3),
    }[kind]
    covered, rounds = 0, 600
    for _ in range(rounds):
        values = draw() - draw() + 0.3 * random.normal() + 0.4 * random.normal(size=seeds)
        resampled = values + 0.3 * random.normal(size=(150, 1)) + 0.4 * random.normal(size=(150, seeds))
        found = estimate([(values, resampled)])
        covered += found.low <= 0 <= found.high
    assert covered / rounds > 0.95 - 0.018  # two standard errors
    assert covered / rounds < 0.995


def test_welch_errs_as_rarely_as_stated_and_finds_more_than_a_t_for_each_group():
    random = np.random.default_rng(12)
    false = finds = careful = 0
    for _ in range(600):
        groups = [(values, np.tile(values, (5, 1))) for values in random.normal(size=(2, 3))]
        null = estimate([groups[0], (-groups[1][0], -groups[1][1])])
        false += null.sign != 0
        apart = abs(null.value + 4 * np.sqrt(2 / 3))
        finds += apart > null.high - null.value
        careful += apart > stats.t.isf(0.025, 2) * np.sqrt(sum(variance for variance, _ in null.of_seeds))
    assert false / 600 < 0.05 + 0.018
    assert finds / 600 > 0.68
    assert careful / 600 < 0.6
