"""A metric is one entry, from which everything else follows."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotstudy.errors import InputError
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.evidence.summary import summary
from pilotstudy.metrics import registry, resampling, scores
from pilotstudy.metrics.computation import Fitted, Points, mean_of
from pilotstudy.metrics.registry import METRICS, Metric
from pilotstudy.page.content import page_data
from pilotstudy.report import formats
from pilotstudy.report.table import build_table
from pilotstudy.study.spec import Search
from pilotstudy.study.statements import Row, Statement


def top2_error(points: Points) -> np.ndarray:
    """Whether the label is not among the two likeliest classes."""
    own = points.p[np.arange(len(points.labels)), points.labels]
    return ((points.p > own[:, None]).sum(1) >= 2).astype(float)


TOP2 = Metric(
    "top2_error",
    "lower",
    mean_of(top2_error),
    bounds=(0, 1),
    short="top-2 error",
    heading="top-2",
    headline=True,
    objective=True,
)


@pytest.fixture
def top2(monkeypatch) -> Metric:
    monkeypatch.setitem(METRICS, TOP2.name, TOP2)
    return TOP2


def predictions(n: int = 400, classes: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, n)
    logits = random.normal(size=(n, classes)) * 2
    logits[np.arange(n), labels] += 1
    return logits, labels


def test_one_entry_is_evaluated_resampled_claimed_and_searched(top2):
    logits, labels = predictions()
    value = top2_error(Points(scores.log_probabilities(logits), labels)).mean()
    assert registry.evaluate(logits, labels)["top2_error"] == value
    values, resampled = resampling.resample([scores.log_probabilities(logits)], labels, ["top2_error"], 50)
    assert values["top2_error"] == pytest.approx([value])
    assert 0 < resampled["top2_error"].std() < 0.1
    assert Statement.parse("top2_error: pilot-a-aug < vanilla").metric == "top2_error"
    assert Search(arms=("dropout",), objectives=("top2_error",)).objectives == ("top2_error",)
    assert registry.headline_metrics() == ("accuracy", "nll", "ece", "top2_error")


def test_one_entry_is_in_the_table_and_on_the_page_of_a_run_that_did_not_know_it(top2, run):
    evidence = RunEvidence(run)
    figure = evidence.figures().figure("top2_error", Row("vanilla"))
    assert 0 <= figure.low < figure.value < figure.high <= 1
    text = formats.as_text(build_table(evidence))
    assert "top-2" in text.splitlines()[2]
    (line,) = (line for line in summary(evidence) if (line.arm, line.mode, line.at) == ("vanilla", "point", "last"))
    assert line.figures["top2_error"].mean == pytest.approx(figure.value, abs=1e-6)
    content = page_data(run)
    assert [metric["name"] for metric in content["metrics"]][-2:] == ["top2_error", "brier"]
    assert content["metrics"][-2]["head"] == "top-2 error"
    assert "Best top-2 error" in [card["head"] for card in content["answer"]["cards"]]
    (shown,) = (line for line in content["table"]["variants"]["last"] if line["row"] == "vanilla")
    assert shown["top2_error"] == pytest.approx(figure.value, rel=1e-3)
    assert "top2_error" in content["trials"]["columns"]


def test_one_entry_is_in_the_files_of_trials_and_fills_in_for_runs_without_it(run):
    script = (
        "from pathlib import Path\n"
        "from pilotstudy.metrics.computation import mean_of\n"
        "from pilotstudy.metrics.registry import Metric, register\n"
        "register(Metric('sure', 'neither', mean_of(lambda points: points.confidence > 0.9), every_epoch=True))\n"
        "from pilotstudy.evidence.run_evidence import RunEvidence\n"
        "from pilotstudy.evidence.summary import summary\n"
        "from pilotstudy.runs import schemas\n"
        "from pilotstudy.runs.folder import Run\n"
        "assert 'sure' in [field.name for field in schemas.evaluation_fields()]\n"
        "assert 'sure' in [field.name for field in schemas.trials_schema().field('evaluations').type.value_type]\n"
        "assert 'validation_sure' in schemas.epochs_schema().names\n"
        f"evidence = RunEvidence(Run(Path({str(run.files.folder)!r})))\n"
        "figures = evidence.figures(['sure'])\n"
        "assert abs(summary(evidence)[0].figures['sure'].mean - figures.figure('sure', figures.rows[0]).value) < 1e-6\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_metrics_need_numpy_and_scipy_only():
    script = (
        "import sys; from pilotstudy.metrics import intervals, registry, resampling\n"
        "assert not {'torch', 'ray', 'pydantic', 'pyarrow', 'optuna'} & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_what_trials_store_keeps_its_order():
    logits, labels = predictions(20)
    assert list(registry.evaluate(logits, labels)) == [
        *("accuracy", "nll", "brier", "brier_miscalibration", "brier_discrimination", "brier_uncertainty"),
        *("ece", "ece_noise_floor", "ece_noise_floor_95", "adaptive_ece", "classwise_ece", "mce", "aurc", "entropy"),
        *("confidence", "augrc", "smece"),
    ]
    fitted = Fitted.on(scores.log_probabilities(logits), labels)
    assert list(registry.evaluate(logits, labels, fitted=fitted))[-4:] == [
        *("nll_refinement", "nll_calibration", "conformal_size", "conformal_coverage"),
    ]
    assert list(registry.evaluate_epoch(logits, labels)) == ["accuracy", "nll", "ece", "brier", "entropy"]
    assert registry.objectives() == ("nll", "accuracy", "ece", "brier")


@given(st.integers(1, 300), st.integers(1, 6), st.sampled_from([0.1, 1.0, 10.0, 1000.0]), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_each_metric_is_within_its_bounds_and_its_columns_give_its_value(n, classes, scale, seed):
    """Where the two are written apart, they are the same but for rounding."""
    logits, labels = predictions(n, classes, seed)
    log_p = scores.log_probabilities(logits * scale)
    points = Points(log_p, labels, draws=5, fitted=Fitted.on(log_p[: n // 2 + 1], labels[: n // 2 + 1]))
    for metric in METRICS.values():
        value = metric.value(points)
        low, high = metric.bounds
        assert low - 1e-12 <= value <= high + 1e-12, metric.name
        if metric.is_resampled:
            columns = metric.columns(points)
            assert columns.shape[0] == n
            assert float(metric.figure(columns.mean(0))) == pytest.approx(value, rel=1e-9, abs=1e-9), metric.name


def test_the_entries_fit_together():
    for name, metric in METRICS.items():
        assert metric.name == name
        assert not metric.floor or metric.floor in METRICS
        assert metric.is_resampled or not (metric.headline or metric.objective)
        assert metric.better != "neither" or not metric.objective
    assert registry.DEFAULT_OBJECTIVE in registry.objectives()
    with pytest.raises(InputError, match="there is a metric 'nll' already"):
        registry.register(METRICS["nll"])
    with pytest.raises(InputError, match="cannot be an objective"):
        Metric("odd", "neither", mean_of(lambda points: points.confidence), objective=True)


@pytest.mark.parametrize("better", ["up", "Higher", "", None])
def test_which_way_is_better_is_one_of_three(better):
    with pytest.raises(InputError, match=r"metric 'odd': better = .*: it is one of higher, lower, neither"):
        registry.metric("odd", better=better)(top2_error)
    assert "odd" not in METRICS


def test_bounds_are_in_order():
    with pytest.raises(InputError, match="metric 'odd': bounds = "):
        registry.metric("odd", better="lower", bounds=(1, 0))(top2_error)
    assert "odd" not in METRICS


ARRAYS = {
    **{name: lambda points, name=name: getattr(points, name) for name in ("log_p", "labels", "p", "confidence")},
    **{name: lambda points, name=name: getattr(points, name) for name in ("correct", "risk")},
    "bins": lambda points: points.reliability.accuracy,
    "bins of equal mass": lambda points: points.equal_mass_reliability.count,
}


@pytest.mark.parametrize("name", ARRAYS)
def test_no_metric_can_write_into_what_the_others_read(name):
    logits, labels = predictions(20)
    log_p = scores.log_probabilities(logits)
    before = log_p.copy(), labels.copy()
    points = Points(log_p, labels)
    with pytest.raises(ValueError, match="read-only"):
        ARRAYS[name](points)[0] = 1
    assert np.array_equal(log_p, before[0])
    assert np.array_equal(labels, before[1])
    log_p[0] = 0  # whoever made the points has arrays of their own


def test_a_metric_that_writes_is_told_so_in_a_line():
    @registry.metric("greedy", better="lower")
    def greedy(points):
        points.p[:] = 1
        return points.p[:, 0]

    try:
        with pytest.raises(InputError, match=r"metric 'greedy' cannot be computed: .*read-only; .*change a copy"):
            registry.evaluate(*predictions(20))
    finally:
        del METRICS["greedy"]


def test_the_intervals_of_brier_end_at_2(run):
    figures = RunEvidence(run).figures(("brier",))
    assert METRICS["brier"].bounds == (0, 2)
    assert all(figures.figure("brier", row).high <= 2 for row in figures.rows)


def test_the_help_names_the_metrics_that_are_shown():
    from pilotstudy.cli.read import Metrics

    *first, last = registry.headline_metrics()
    assert Metrics.__metadata__[0].help == f"Default: {', '.join(first)} and {last}."
