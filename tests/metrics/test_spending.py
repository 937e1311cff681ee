"""The error rate over planned looks: published spending, and what Student's t makes of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pilotstudy.metrics.spending import shares, spent
from tests.bench.until_decided import gaussian_levels

LOOKS = (3, 5, 8, 12, 20)


def test_the_spending_is_lan_and_demets_for_pocock():
    """One-sided 2.5 %, five equal looks: the published cumulative values."""
    published = [0.0074, 0.0131, 0.0177, 0.0216, 0.0250]
    assert [0.025 * spent(k / 5) for k in range(1, 6)] == pytest.approx(published, abs=5e-5)


@given(st.lists(st.integers(2, 10_000), min_size=1, max_size=12, unique=True).map(sorted))
def test_the_shares_are_all_of_the_rate(seeds):
    assert sum(shares(seeds)) == pytest.approx(1)
    assert min(shares(seeds)) > 0
    assert len(shares(seeds)) == len(seeds)


def looked_at(values: np.ndarray, levels) -> float:
    """How often one of the looks at t statistics is below its level."""
    hit = np.zeros(len(values), bool)
    for number, level in zip(LOOKS, levels, strict=True):
        hit |= stats.ttest_1samp(values[:, :number], 0, axis=1).pvalue < level
    return hit.mean()


@pytest.mark.parametrize("claims", [1, 10])
@pytest.mark.parametrize(
    "seeds",
    [np.random.Generator.standard_normal, lambda random, size: random.standard_t(3, size)],
    ids=["normal", "t3"],
)
def test_the_rate_holds_over_all_looks(claims, seeds):
    """Also at a tenth of it, as Holm's correction asks for."""
    rate, rounds = 0.05 / claims, 40_000
    values = seeds(np.random.default_rng(1), (rounds, LOOKS[-1]))
    assert looked_at(values, rate * np.array(shares(LOOKS))) < rate + 3 * np.sqrt(rate / rounds)


def test_levels_for_gaussian_statistics_would_not_hold():
    levels = gaussian_levels(LOOKS, 0.05)
    together = stats.multivariate_normal(cov=np.sqrt([[min(a, b) / max(a, b) for a in LOOKS[:2]] for b in LOOKS[:2]]))
    bounds = stats.norm.isf(levels[:2] / 2)
    assert 1 - together.cdf(bounds, lower_limit=-bounds) == pytest.approx(0.05 * spent(5 / 20), rel=1e-3)
    values = np.random.default_rng(2).standard_normal((40_000, LOOKS[-1]))
    assert looked_at(values, levels) > 0.05 + 3 * np.sqrt(0.05 / 40_000)
