"""Everything that a run's page shows, as plain data: the same results give the same data.

It reads Parquet files and the frozen study, and nothing else, so that it can never disturb a run.
"""

import json
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from pilotstudy import arms, claims, evidence, metrics, paper, report, statistics, tabulate
from pilotstudy.dashboard.trials import Curves, rounded, training, trial_columns
from pilotstudy.director import PHASES
from pilotstudy.errors import InputError
from pilotstudy.importance import importance
from pilotstudy.results import Results, optimism, validation_figures
from pilotstudy.runs import Run, overview, progress_of
from pilotstudy.spec import Study
from pilotstudy.statements import Row

ENTROPY_BINS = 25
COVERAGE_STEPS = 50
RESAMPLES = 1000  # for the page's intervals
MOST_TRACEBACKS = 20


def page_data(run: Run) -> dict[str, Any]:
    """One JSON-able value for each section of the page."""
    study, results = run.study(), Results(run.files)
    trials = in_order(study, results.trials.to_pylist())
    stored = evidence.read(run)
    curves = Curves(results)
    return {
        "run": overview(run) | {"title": study.title, "phases": progress_of(run)},
        "answer": answer(run, study, stored),
        "table": table(run, study, stored),
        "calibration": calibration(run, study, stored),
        "search": searches(study, trials),
        "training": training(study, trials, curves),
        "trials": trial_columns(study, trials, curves) | {"tracebacks": tracebacks(run, trials)},
        "made": how_it_was_made(run, study),
    }


def in_order(study: Study, trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As the study plans them, whatever order they were taken up in."""
    place = {arm: number for number, arm in enumerate(study.arms)}
    return sorted(trials, key=lambda t: (PHASES.index(t["phase"]), place.get(t["arm"], len(place)), t["number"]))


# The answer


def answer(run: Run, study: Study, stored: evidence.Stored) -> dict[str, Any]:
    """Which row is best in what, whether that is real, and the verdicts."""
    if not stored:
        return {"sentences": ["No trial has finished yet, so there is nothing to say."], "cards": [], "claims": []}
    found = evidence.Evidence(evidence.load(run, stored=stored), evidence.PAPER_METRICS, RESAMPLES)
    rows = found.rows
    cards = [card(found, metric, rows) for metric in evidence.PAPER_METRICS]
    sentences = [one["says"] for one in cards]
    pilot, vanilla = Row("pilot-a-aug"), Row("vanilla")
    if pilot in rows and vanilla in rows:
        sentences += filter(None, [against(found, pilot, vanilla)])
    judged = claims.rows(claims.judge_all(run, stored=stored))
    if judged:
        counts = {v: sum(one["verdict"] == v for one in judged) for v in ("holds", "fails", "undecided", "not tested")}
        several = {"holds": "hold", "fails": "fail"}
        told = [f"{n} {v if n == 1 else several.get(v, v)}" for v, n in counts.items() if n]
        sentences.append(f"Of {len(judged)} claims, {', '.join(told)}.")
    return {"sentences": sentences, "cards": cards, "claims": judged}


def card(found: evidence.Evidence, metric: str, rows: Sequence[Row]) -> dict[str, Any]:
    """The best row in one metric."""
    head = {"accuracy": "accuracy", "nll": "likelihood (NLL)", "ece": "calibration (ECE)"}[metric]
    really, near = found.best(metric, rows)
    leader = really or near[0]
    figure = found.figure(metric, leader)
    others = [tabulate.label(row) for row in near if row != leader]
    if really:
        real = "better than every other row"
    elif len(rows) == 1:
        real = "the only row"
    elif figure.seeds < 2:
        real = "of one seed, which tells nothing of others"
    else:
        shown = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
        real = f"but {shown} cannot be told from it at this size"
    return {
        "metric": metric,
        "head": f"Best {head}",
        "row": str(leader),
        "label": tabulate.label(leader),
        "value": figure.value,
        "low": figure.low,
        "high": figure.high,
        "real": really is not None,
        "verdict": "really the best" if really else "the only row" if len(rows) == 1 else "may not be the best",
        "says": f"{tabulate.label(leader)} has the best {head}, {figure.value:.3f}, {real}.",
    }


def against(found: evidence.Evidence, ours: Row, theirs: Row) -> str:
    """How one row compares with another, in words."""
    parts = []
    for metric in evidence.PAPER_METRICS:
        difference = found.difference(metric, ours, theirs)
        if difference is None:
            continue
        one, other = (found.figure(metric, row).value for row in (ours, theirs))
        name = {"accuracy": "accuracy", "nll": "NLL", "ece": "ECE"}[metric]
        one_seed = " (one seed, which tells nothing of others)"
        sure = (
            one_seed if difference.seeds < 2 else "" if difference.sign else " (no difference can be seen at this size)"
        )
        parts.append(f"{name} {one:.3f} against {other:.3f}{sure}")
    return "" if not parts else f"{tabulate.label(ours)} beside {tabulate.label(theirs)}: {'; '.join(parts)}."


# The table


def table(run: Run, study: Study, stored: evidence.Stored) -> dict[str, Any]:
    """Rows for each epoch, with and without temperature scaling."""
    beside = bool(paper.rows(study.network.name, study.data.name))
    variants: dict[str, list[dict[str, Any]]] = {}
    notes: list[str] = []
    for at in "last", "best":
        for scaled in False, True:
            name = f"{at}{'-scaled' if scaled else ''}"
            variants[name] = []
            if stored:
                built = tabulate.build(run, like_paper=beside, at=at, scaled=scaled, stored=stored, resamples=RESAMPLES)
                variants[name] = [
                    rounded(row)
                    | {"label": tabulate.label(line.row)}
                    | {f"{name}_printed": tabulate.published(cell) for name, cell in line.cells.items()}
                    for row, line in zip(tabulate.rows(built), built.lines, strict=True)
                ]
                notes = notes or built.notes
    return {"variants": variants, "paper": beside, "notes": notes}


# Calibration


def calibration(run: Run, study: Study, stored: evidence.Stored) -> dict[str, Any]:
    """Reliability, entropies and risk against coverage of every row, over seeds."""
    if not stored:
        return {"rows": [], "bins": metrics.BINS, "points": 0, "most_entropy": 0}
    loaded = evidence.load(run, stored=stored)
    classes = next(iter(next(iter(loaded.rows.values())).values())).shape[1]
    most = float(np.log(classes))
    rows = []
    for row, predicted in loaded.rows.items():
        points = [statistics.Points(log_p, loaded.labels) for log_p in predicted.values()]
        rows.append(
            {
                "row": str(row),
                "label": tabulate.label(row),
                "mode": row.mode,
                "phase": row.phase,
                "seeds": len(points),
                "accuracy": mean([p.correct.mean() for p in points]),
                "confidence": mean([p.confidence.mean() for p in points]),
                "ece": mean([metrics.binned(p.confidence, p.correct).expected_error for p in points]),
                "floor": loaded.floors.get(row),
                "width": reliability(points, equal_mass=False),
                "mass": reliability(points, equal_mass=True),
                "entropy": entropies(points, most),
                "risk": risk_coverage(points),
            }
        )
    found = {"rows": rows, "bins": metrics.BINS, "points": len(loaded.labels), "most_entropy": most}
    return dict(rounded(found, 4))


def mean(values: Sequence[Any]) -> float:
    return float(np.mean(values))


def reliability(points: Sequence[statistics.Points], *, equal_mass: bool) -> dict[str, list[float | None]]:
    """By bin: the mean over seeds of its bounds, accuracy, confidence and count, and the seeds' range of accuracy."""
    bins = [metrics.binned(p.confidence, p.correct, equal_mass=equal_mass) for p in points]
    accuracy = np.stack([one.accuracy for one in bins])
    confidence = np.stack([one.confidence for one in bins])
    count = np.stack([one.count for one in bins])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a bin that is empty for every seed
        parts = {
            "accuracy": np.nanmean(accuracy, 0),
            "low": np.nanmin(accuracy, 0),
            "high": np.nanmax(accuracy, 0),
            "confidence": np.nanmean(confidence, 0),
        }
    parts |= {
        "lower": np.mean([one.lower for one in bins], 0),
        "upper": np.mean([one.upper for one in bins], 0),
        "count": count.mean(0),
    }
    return {name: [None if np.isnan(v) else float(v) for v in values] for name, values in parts.items()}


def entropies(points: Sequence[statistics.Points], most: float) -> list[float]:
    """The share of test points in each of ENTROPY_BINS bins from 0 to ln K."""
    counts = [np.histogram(metrics.entropies(p.p), ENTROPY_BINS, (0, most + 1e-9))[0] / len(p.labels) for p in points]
    return [float(v) for v in np.mean(counts, 0)]


def risk_coverage(points: Sequence[statistics.Points]) -> list[float]:
    """The error rate among the most confident 2 %, 4 %, .. 100 % of the points."""
    n = len(points[0].labels)
    at = np.maximum(np.ceil(np.arange(1, COVERAGE_STEPS + 1) / COVERAGE_STEPS * n).astype(int), 1) - 1
    return [float(v) for v in np.mean([metrics.selective_risk(p.confidence, p.correct)[at] for p in points], 0)]


# The search


def searches(study: Study, trials: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """For each searched arm: its parameters, what matters for reaching the best, the paper's settings, the winner."""
    found: dict[str, Any] = {}
    options = study.search
    for arm in options.arms if options and options.trials else ():
        space = arms.get(arm).space
        at = [i for i, trial in enumerate(trials) if (trial["phase"], trial["arm"]) == ("search", arm)]
        confirmed = [trial for trial in trials if (trial["phase"], trial["arm"]) == ("confirm", arm)]
        winner = None
        if confirmed:
            winner = next((i for i in at if trials[i]["settings"] == confirmed[0]["settings"]), None)
        found[arm] = {
            "parameters": [
                {"name": name, "log": not isinstance(s, arms.Choice) and s.log, "choice": isinstance(s, arms.Choice)}
                for name, s in space.items()
            ],
            "paper": next((i for i in at if trials[i]["number"] == 0), None),
            "confirmed": winner,
            "importance": importances(study, arm, [trials[i] for i in at]),
        }
    objectives = list(options.objectives) if options else []
    return {
        "arms": found,
        "objectives": objectives,
        "floor": options.accuracy_floor if options else 0,
        "optimism": rounded(optimism(trials, objectives[0])) if objectives else [],
    }


def importances(study: Study, arm: str, trials: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """For each objective of the search, how much each parameter matters for reaching the best trials."""
    space = arms.widened(arms.get(arm).space, study.arms[arm])
    known = [(json.loads(t["settings"]), figures) for t in trials if (figures := validation_figures(t["evaluations"]))]
    if len(known) < 4:
        return {}
    found: dict[str, dict[str, float]] = {}
    for objective in study.search.objectives if study.search else ():
        sign = -1 if objective == "accuracy" else 1
        losses = np.array([sign * figures[objective] for _, figures in known])
        found[objective] = rounded(importance(space, [settings for settings, _ in known], losses), 4)
    return found


# How it was made


def how_it_was_made(run: Run, study: Study) -> dict[str, Any]:
    frozen = run.frozen()
    given = evidence.budget(run)
    made = frozen["provenance"]
    budget = [
        {
            "arm": arm,
            "seeds": given["seeds"],
            "epochs": given["epochs"],
            "search trials": given["search_trials"].get(arm, 0),
            "fresh seeds": given["confirm_seeds"] if arm in given["search_trials"] else 0,
        }
        for arm in study.arms
    ]
    command = frozen["history"][-1]["command"]
    return {
        "study": report.toml(frozen["study"]),
        "command": " ".join(["pilotstudy", *command[1:]]),
        "started": frozen["history"][0]["at"],
        "starts": len(frozen["history"]),
        "fingerprint": frozen["fingerprint"],
        "packages": made["packages"] | {"python": made["python"]},
        "code": {"version": made["code_version"], "commit": made["git_commit"]},
        "machine": made["machine"],
        "devices": frozen.get("devices", []),
        "budget": budget,
        "doubts": list(paper.GENERAL) if paper.rows(study.network.name, study.data.name) else [],
    }


def tracebacks(run: Run, trials: Sequence[dict[str, Any]]) -> dict[int, str]:
    """Where failed trials failed, by their place; of many, the first ones."""
    failed = [place for place, row in enumerate(trials) if row["status"] == "failed"][:MOST_TRACEBACKS]
    results = {place: run.result(trials[place]["key"]) or {} for place in failed}
    return {place: str(result["traceback"]) for place, result in results.items() if result.get("traceback")}


def safe(run: Run) -> dict[str, Any]:
    """`page_data`, or what is wrong, for a page that must go on while a run's files are being written."""
    try:
        return page_data(run)
    except (InputError, OSError, ValueError, LookupError) as error:
        return {"problem": f"{run.name}: {' '.join(str(error).split())[:300]}"}


# The index of all runs


def index_row(run: Run, content: dict[str, Any]) -> dict[str, Any]:
    """What the index says of a run: its state, its best figures, and every row of its table."""
    if "problem" in content:
        return {"run": run.name, "problem": content["problem"], "best": [], "rows": []}
    known = overview(run)
    rows = content.get("table", {}).get("variants", {}).get("last", [])
    kept = ("row", "label", "seeds", *(f"{m}{s}" for m in evidence.PAPER_METRICS for s in ("", "_sd", "_low", "_high")))
    return known | {
        "title": run.study().title,
        "problem": "",
        "best": [{name: card[name] for name in ("metric", "label", "value", "real")} for card in cards_of(content)],
        "rows": [{name: row[name] for name in kept} for row in rows if row["nll"] is not None],
    }


def cards_of(content: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = content.get("answer", {}).get("cards", [])
    return found
