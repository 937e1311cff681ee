"""The search: for each searched arm its parameters, what matters for reaching the best, and the winner."""

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from pilotstudy.arms.arm import Choice, Space, widened
from pilotstudy.evidence.importance import importance
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.evidence.summary import chosen_by, optimism
from pilotstudy.metrics.registry import METRICS
from pilotstudy.page.rounding import WHOLE, rounded
from pilotstudy.runs.records import TrialRow
from pilotstudy.study.space import start_of
from pilotstudy.study.spec import Study


def search_section(evidence: RunEvidence) -> dict[str, object]:
    """Trials are known by their places among all of the run."""
    study, trials, spaces = evidence.study, evidence.trial_rows, evidence.spaces
    options = study.search
    arms = options.arms if options and options.trials else ()
    objectives = known_objectives(study)
    return {
        "arms": {arm: arm_search(study, arm, trials, spaces[arm]) for arm in arms},
        "objectives": objectives,
        "floor": options.accuracy_floor if options else 0,
        "optimism": [rounded(asdict(gap), WHOLE) for gap in optimism(evidence)],
    }


def known_objectives(study: Study) -> list[str]:
    """Those of the search; without metrics whose code is not here, and never none."""
    known = [name for name in study.search.objectives if name in METRICS] if study.search else []
    return known or [chosen_by(study)][: bool(study.search)]


def arm_search(study: Study, arm: str, trials: Sequence[TrialRow], space: Space) -> dict[str, object]:
    """`paper`, `confirmed`: the places of the trials with the paper's settings, and with those that won."""
    places = [place for place, trial in enumerate(trials) if (trial.phase, trial.arm) == ("search", arm)]
    confirmed = [trial for trial in trials if (trial.phase, trial.arm) == ("confirm", arm)]
    winner = None
    if confirmed:
        winner = next((place for place in places if trials[place].settings == confirmed[0].settings), None)
    return {
        "parameters": [
            {"name": name, "log": not isinstance(choice, Choice) and choice.log, "choice": isinstance(choice, Choice)}
            for name, choice in space.items()
        ],
        "paper": next((place for place in places if trials[place].number == 0), None),
        "confirmed": winner,
        "importance": importances(study, arm, [trials[place] for place in places], space),
    }


def importances(study: Study, arm: str, trials: Sequence[TrialRow], space: Space) -> dict[str, object]:
    """For each objective of the search, how much each parameter matters for reaching the best trials."""
    space = widened(space, start_of(study, arm, space))
    evaluated = [(trial.settings, figures) for trial in trials if (figures := trial.figures)]
    if len(evaluated) < 4:
        return {}
    shares: dict[str, object] = {}
    for objective in known_objectives(study):
        losses = np.array([-METRICS[objective].sign * figures[objective] for _, figures in evaluated])
        shares[objective] = rounded(importance(space, [settings for settings, _ in evaluated], losses), 4)
    return shares
