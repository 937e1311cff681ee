"""Our PED-ANOVA against Optuna's."""

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotstudy.arms.arm import Choice, Range
from pilotstudy.evidence.importance import importance
from pilotstudy.schedule.search import distributions

SPACE = {
    "rate": Range(0.0, 0.9),
    "variance": Range(1e-3, 10.0, log=True),
    "layers": Range(1, 6, whole=True),
    "width": Range(32, 512, log=True, whole=True),
    "schedule": Choice(("constant", "rise", "fall")),
}
START = {"rate": 0.5, "variance": 0.1, "layers": 2, "width": 256, "schedule": "constant"}


@settings(max_examples=25, deadline=None)
@given(n=st.integers(4, 150), seed=st.integers(0, 1000), matters=st.sampled_from(list(SPACE)))
def test_importance_is_optunas(n, seed, matters):
    random = np.random.default_rng(seed)
    known = distributions(SPACE, START)
    tried = [
        {
            "rate": random.uniform(0, 0.9),
            "variance": float(np.exp(random.uniform(np.log(1e-3), np.log(10)))),
            "layers": int(random.integers(1, 7)),
            "width": int(random.integers(32, 513)),
            "schedule": ("constant", "rise", "fall")[random.integers(3)],
        }
        for _ in range(n)
    ]
    places = {"schedule": {"constant": 0, "rise": 1, "fall": 2}}
    values = np.array([places.get(matters, {}).get(one[matters], one[matters]) for one in tried], float)
    losses = values / values.max() + 0.1 * random.normal(size=n)
    study = optuna.create_study()
    for one, loss in zip(tried, losses, strict=True):
        study.add_trial(optuna.trial.create_trial(params=one, distributions=known, value=float(loss)))
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    theirs = optuna.importance.get_param_importances(study, evaluator=evaluator)
    assert importance(SPACE, tried, losses) == pytest.approx(theirs, rel=1e-6, abs=1e-9)
