import pytest

from pilotstudy.evidence.figures import Figures
from pilotstudy.evidence.run_evidence import RunEvidence


@pytest.fixture(scope="module")
def evidence(run) -> RunEvidence:
    return RunEvidence(run)


@pytest.fixture(scope="module")
def figures(evidence) -> Figures:
    return evidence.figures(("accuracy", "nll", "ece", "entropy"))
