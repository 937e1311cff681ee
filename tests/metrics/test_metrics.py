import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from netcal.metrics import ECE, MCE
from scipy.optimize import minimize_scalar
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss
from torchmetrics.functional.classification import multiclass_calibration_error

from pilotstudy.metrics import registry, scores


def sample(n: int = 3000, classes: int = 6, scale: float = 3.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are over-confident by a factor of two."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(n, classes)) * scale
    p = np.exp(scores.log_probabilities(logits, 2.0))
    labels = (p.cumsum(1) > random.random((n, 1))).argmax(1)
    return logits, labels


@pytest.fixture(scope="module")
def case():
    logits, labels = sample()
    p = np.exp(scores.log_probabilities(logits))
    return p, labels, registry.evaluate(logits, labels)


def test_scores_agree_with_scikit_learn(case):
    p, labels, found = case
    assert found["accuracy"] == pytest.approx(accuracy_score(labels, p.argmax(1)))
    assert found["nll"] == pytest.approx(log_loss(labels, p))
    one_vs_rest = [brier_score_loss(labels == k, p[:, k]) for k in range(6)]
    assert found["brier"] == pytest.approx(sum(one_vs_rest))
    assert found["entropy"] == pytest.approx(torch.distributions.Categorical(torch.tensor(p)).entropy().mean().item())


def test_calibration_errors_agree_with_torchmetrics_and_netcal(case):
    p, labels, found = case
    args = torch.tensor(p), torch.tensor(labels), 6, 15
    assert found["ece"] == pytest.approx(multiclass_calibration_error(*args, norm="l1").item(), abs=1e-6)
    assert found["mce"] == pytest.approx(multiclass_calibration_error(*args, norm="max").item(), abs=1e-6)
    assert found["ece"] == pytest.approx(ECE(15).measure(p, labels), abs=1e-6)
    assert found["mce"] == pytest.approx(MCE(15).measure(p, labels), abs=1e-6)
    classwise = [ECE(15).measure(p[:, k], (labels == k).astype(int)) for k in range(6)]
    assert found["classwise_ece"] == pytest.approx(np.mean(classwise), abs=1e-6)


def test_adaptive_ece_agrees_with_a_slow_version(case):
    p, labels, found = case
    order = np.argsort(p.max(1))
    right = (p.argmax(1) == labels)[order]
    confidence = p.max(1)[order]
    chunks = np.split(np.arange(3000), [200 * k for k in range(1, 15)])  # 3,000 samples in 15 bins: 200 in each
    expected = sum(len(c) * abs(right[c].mean() - confidence[c].mean()) for c in chunks) / 3000
    assert found["adaptive_ece"] == pytest.approx(expected)


def test_aurc_agrees_with_a_slow_version(case):
    p, labels, found = case
    order = np.argsort(-p.max(1))
    wrong = (p.argmax(1) != labels)[order]
    assert found["aurc"] == pytest.approx(np.mean([wrong[: k + 1].mean() for k in range(len(wrong))]))


def test_brier_decomposition_agrees_with_scikit_learns_isotonic_regression(case):
    p, labels, found = case
    miscalibration = discrimination = 0.0
    for k in range(6):
        y = (labels == k).astype(float)
        best = IsotonicRegression(out_of_bounds="clip").fit(p[:, k], y).predict(p[:, k])
        miscalibration += brier_score_loss(y, p[:, k]) - np.square(best - y).mean()
        discrimination += np.square(y.mean() - y).mean() - np.square(best - y).mean()
    assert found["brier_miscalibration"] == pytest.approx(miscalibration, abs=1e-6)
    assert found["brier_discrimination"] == pytest.approx(discrimination, abs=1e-6)


@st.composite
def predictions(draw):
    n, classes = draw(st.integers(1, 60)), draw(st.integers(2, 5))
    logits = draw(hnp.arrays(np.float64, (n, classes), elements=st.sampled_from([-40.0, -3, -1, 0, 0.5, 1, 2, 40])))
    return logits, draw(hnp.arrays(np.int64, n, elements=st.integers(0, classes - 1)))


@given(predictions(), st.integers(0, 100))
@settings(max_examples=60, deadline=None)
def test_laws(case, seed):
    logits, labels = case
    found = registry.evaluate(logits, labels)
    parts = found["brier_miscalibration"] - found["brier_discrimination"] + found["brier_uncertainty"]
    assert found["brier"] == pytest.approx(parts, abs=1e-9)
    assert found["brier_miscalibration"] >= -1e-12
    assert found["brier_discrimination"] >= -1e-12
    assert 0 <= found["ece"] <= found["mce"] + 1e-12 <= 1 + 1e-9
    assert abs(found["confidence"] - found["accuracy"]) <= found["ece"] + 1e-9
    assert all(np.isfinite(value) for value in found.values())
    order = np.random.default_rng(seed).permutation(len(labels))
    shuffled = registry.evaluate(logits[order], labels[order])
    for name in found.keys() - {"ece_noise_floor", "ece_noise_floor_95"}:
        assert shuffled[name] == pytest.approx(found[name], abs=1e-9), name


@given(st.integers(1, 30), st.integers(1, 400))
def test_confidences_on_an_edge_go_into_the_lower_bin(bins, m):
    edge = np.array([(m % bins + 1) / bins])
    assert scores.equal_width_index(edge, bins) == [m % bins]


def test_edges_by_hand():
    right = np.ones(1)
    assert scores.equal_width_index(np.array([0.0, 0.1, 0.2, 0.3, 0.6, 0.7, 0.9, 1.0]), 10).tolist() == [
        0, 0, 1, 2, 5, 6, 8, 9,
    ]  # fmt: skip
    certain = scores.binned(np.ones(4), np.array([1.0, 1, 1, 0]))
    assert certain.count.tolist() == [0] * 14 + [4]
    assert certain.expected_error == pytest.approx(0.25)
    assert np.isnan(certain.accuracy[:14]).all()
    assert scores.binned(np.array([0.7]), right).gaps.max() == pytest.approx(0.3)


def test_perfect_uniform_and_one_class():
    labels = np.arange(100) % 4
    perfect = registry.evaluate(np.eye(4)[labels] * 1000, labels)
    assert (perfect["accuracy"], perfect["nll"], perfect["ece"], perfect["brier"], perfect["aurc"]) == (1, 0, 0, 0, 0)
    uniform = registry.evaluate(np.zeros((100, 4)), labels)
    assert uniform["accuracy"] == 0.25  # the first class, a quarter of the labels
    assert uniform["ece"] == pytest.approx(0)
    assert uniform["nll"] == pytest.approx(np.log(4))
    assert uniform["entropy"] == pytest.approx(np.log(4))
    assert uniform["brier"] == pytest.approx(0.75)
    assert uniform["aurc"] == pytest.approx(0.75)  # all tied: the expected risk at every coverage
    alone = registry.evaluate(np.zeros((10, 1)), np.zeros(10, int))
    assert (alone["accuracy"], alone["ece"], alone["brier"]) == (1, 0, 0)


def test_equal_confidences_share_an_equal_mass_bin():
    confidence = np.array([0.5] * 50 + [0.9] * 50)
    bins = scores.binned(confidence, np.ones(100), 15, equal_mass=True)
    assert sorted(bins.count[bins.count > 0].tolist()) == [50, 50]


def test_the_noise_floor_is_what_calibrated_models_score():
    random = np.random.default_rng(0)
    confidence = random.beta(3, 1.5, 10_000)
    mean, high = scores.ece_noise_floor(confidence)
    simulated = [
        scores.binned(confidence, (random.random(10_000) < confidence) * 1.0).expected_error for _ in range(300)
    ]
    assert mean == pytest.approx(np.mean(simulated), rel=0.05)
    assert high == pytest.approx(np.quantile(simulated, 0.95), rel=0.08)
    assert 0.008 < mean < 0.014  # as in the notes for n = 10,000
    assert scores.ece_noise_floor(np.ones(50)) == (0.0, 0.0)


@pytest.mark.parametrize("true_temperature", [0.5, 1.0, 6.0, 20.0])
def test_temperature_is_the_minimum_of_the_nll(true_temperature):
    logits, labels = sample(2000, seed=3)
    logits = logits / 2 * true_temperature
    found = scores.fit_temperature(logits, labels)

    def nll(log_t: float) -> float:
        return float(-scores.log_probabilities(logits, np.exp(log_t))[np.arange(2000), labels].mean())

    reference = np.exp(minimize_scalar(nll, bounds=(-4, 4), method="bounded", options={"xatol": 1e-10}).x)
    assert found == pytest.approx(reference, rel=1e-4)
    assert found == pytest.approx(true_temperature, rel=0.1)


def test_temperature_of_logits_without_a_minimum_stays_finite():
    labels = np.arange(20) % 2
    assert scores.fit_temperature(np.eye(2)[labels], labels) < 2e-3
    assert scores.fit_temperature(-np.eye(2)[labels], labels) == pytest.approx(1e3)
    assert np.isfinite(scores.fit_temperature(np.zeros((20, 2)), labels))


def test_accuracy_does_not_change_with_temperature():
    logits, labels = sample(500)
    assert registry.evaluate(logits, labels, 3.0)["accuracy"] == registry.evaluate(logits, labels)["accuracy"]
    assert registry.evaluate_epoch(logits, labels).items() <= registry.evaluate(logits, labels).items()
