import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotstudy.data.splits import shares, split
from pilotstudy.errors import InputError


@given(st.lists(st.integers(3, 40), min_size=2, max_size=6), st.data())
def test_splits_are_stratified_disjoint_and_repeatable(counts, data):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    validation = data.draw(st.integers(1, len(labels) // 2))
    train, held_out = split(labels, validation, None)
    assert sorted([*train, *held_out]) == list(range(len(labels)))
    assert len(held_out) == validation
    share = np.bincount(labels[held_out], minlength=len(counts)) - np.array(counts) * validation / len(labels)
    assert (np.abs(share) < 1).all()
    most = int(np.bincount(labels[train], minlength=len(counts)).min()) * len(counts)
    if most >= len(counts):
        size = data.draw(st.integers(len(counts), most))
        subset, same = split(labels, validation, size)
        assert np.array_equal(same, held_out)
        assert len(subset) == size
        assert set(subset) <= set(train)
        assert np.ptp(np.bincount(labels[subset], minlength=len(counts))) <= 1
    with pytest.raises(InputError, match="every class alike"):
        split(labels, validation, len(labels) * 2)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(0, 500))
def test_shares_add_up(weights, total):
    found = shares(weights, total)
    assert sum(found) == total
    assert all(abs(n - total * w / sum(weights)) < 1 for n, w in zip(found, weights, strict=True))
