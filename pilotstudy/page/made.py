"""How the run was made: its study, command, budget, versions and machine."""

import shlex

from pilotstudy.evidence import paper
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.report.export import imported_sentence
from pilotstudy.runs.status import mixtures
from pilotstudy.study.budget import Budget
from pilotstudy.study.toml import toml_text


def planned_trials(budget: Budget, arm: str) -> int:
    """How many trials the arm's search has; where arms share seconds, how many it has had so far."""
    if budget.search_by == "seconds" and arm in budget.spent:
        return budget.spent[arm].trials
    return budget.search_trials.get(arm, 0)


def made_section(evidence: RunEvidence) -> dict[str, object]:
    frozen, study = evidence.run.frozen(), evidence.study
    given, made = evidence.budget, frozen.provenance
    budget: list[dict[str, object]] = [
        {
            "arm": arm,
            "seeds": given.trials_of(arm)["arms"],
            "epochs": given.epochs,
            "search trials": planned_trials(given, arm),
            "search seconds": round(given.spent[arm].seconds, 1) if arm in given.spent else 0,
            "fresh seeds": given.trials_of(arm)["confirm"],
        }
        for arm in study.arms
    ]
    if study.imported:
        budget = [{"arm": arm, "seeds": sum(row.arm == arm for row in evidence.trial_rows)} for arm in study.arms]
    return {
        "study": toml_text(frozen.study),
        "command": shlex.join(["pilotstudy", *frozen.history[-1].command[1:]]),
        "started": frozen.history[0].at,
        "starts": len(frozen.history),
        "fingerprint": frozen.fingerprint,
        "packages": {**made.packages, "python": made.python},
        "code": {"version": made.code_version, "commit": made.git_commit},
        "machine": dict(made.machine),
        "devices": list(frozen.devices),
        "notes": [*filter(None, [imported_sentence(study)]), *mixtures(evidence.trial_rows)],
        "budget": budget,
        "doubts": list(paper.GENERAL) if paper.printed_rows(study.network.name, study.data.name) else [],
    }
