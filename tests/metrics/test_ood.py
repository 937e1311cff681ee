"""Metrics of scores, against scikit-learn and against resampling itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, logsumexp
from sklearn import metrics as sk

from pilotstudy.metrics.ood import Scored, aupr, auroc, auroc_and_influences, fpr95, ood_value, scores_of
from pilotstudy.metrics.resampling import resampled_weights

TIED = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=4, max_size=60).filter(
    lambda pairs: len({ood for _, ood in pairs}) == 2
)


def scored(pairs) -> Scored:
    score, is_ood = zip(*pairs, strict=True)
    return Scored(np.array(score, float), np.array(is_ood))


def slow_fpr95(given_scores: Scored) -> float:
    """The least share of false alarms over all thresholds that catch 95 % of what is unseen."""
    false, true, _ = sk.roc_curve(given_scores.is_ood, -given_scores.score, drop_intermediate=False)
    return float(false[true >= 0.95].min())


@given(pairs=TIED)
@settings(max_examples=200, deadline=None)
def test_ties_and_all_as_scikit_learn_has_them(pairs):
    given_scores = scored(pairs)
    assert auroc(given_scores) == pytest.approx(sk.roc_auc_score(~given_scores.is_ood, given_scores.score), abs=1e-9)
    expected = sk.average_precision_score(given_scores.is_ood, -given_scores.score)
    assert aupr(given_scores) == pytest.approx(expected, abs=1e-9)
    assert fpr95(given_scores) == pytest.approx(slow_fpr95(given_scores), abs=1e-9)
    assert auroc_and_influences(given_scores).mean() == pytest.approx(auroc(given_scores), abs=1e-9)


def test_influences_give_the_deviation_of_resampled_aurocs():
    random = np.random.default_rng(0)
    is_ood = np.arange(900) % 3 == 0
    given_scores = Scored(random.normal(size=900) - 0.8 * is_ood, is_ood)
    weights = np.concatenate(list(resampled_weights(900, 600, 1)))
    by_influence = weights @ auroc_and_influences(given_scores)
    drawn = [np.repeat(np.arange(900), np.rint(900 * row).astype(int)) for row in weights]
    really = [sk.roc_auc_score(~is_ood[rows], given_scores.score[rows]) for rows in drawn]
    assert by_influence.std() == pytest.approx(np.std(really), rel=0.05)
    assert np.corrcoef(by_influence, really)[0, 1] > 0.98


def test_scores():
    logits = np.random.default_rng(0).normal(size=(50, 4)) * 30
    log_p = log_softmax(logits, axis=1)
    known = scores_of(log_p, logits, np.full(50, 0.25))
    p = np.exp(log_p)
    assert np.allclose(known["msp"], p.max(1))
    assert np.allclose(known["energy"], logsumexp(logits, axis=1))
    entropies = -np.where(p > 0, p * log_p, 0).sum(1)
    assert np.allclose(known["entropy"], -entropies)
    assert np.allclose(known["mi"], 0.25 - entropies)  # the more the draws disagree, the lower
    assert scores_of(log_p).keys() == {"msp", "entropy"}


def test_what_surprises_less_than_usual_is_told_by_typicality_alone():
    """As house numbers by a DGM of photographs: seen are −2 to 2 about 10, unseen one far below and one far above."""
    log_p = np.full((7, 2), np.log(0.5))
    surprise = np.array([8, 9, 10, 11, 12, 1, 20], np.float32)
    is_ood = np.arange(7) > 4
    known = scores_of(log_p, surprise=surprise, usual=np.array([3, 10, 11], np.float32))  # its mean is 8
    assert known["surprise"].tolist() == [-8, -9, -10, -11, -12, -1, -20]
    assert known["typicality"].tolist() == [-2, -1, 0, -1, -2, -9, -10]
    assert ood_value("auroc_surprise", known, is_ood) == 0.5
    assert ood_value("auroc_typicality", known, is_ood) == 1
    assert ood_value("fpr95_typicality", known, is_ood) == 0
    assert ood_value("aupr_typicality", known, is_ood) == 1
    assert "typicality" not in scores_of(log_p, surprise=surprise)  # with nothing to be usual
    assert ood_value("auroc_typicality", scores_of(log_p), is_ood) is None
