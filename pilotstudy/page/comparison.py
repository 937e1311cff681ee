"""Several runs side by side: what differs between them, the figures of the same rows, who beats whom, the claims.

Intervals, marks and verdicts are those of `table`, `compare` and `claims`.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

from pilotstudy.errors import InputError
from pilotstudy.evidence.claims import Judged
from pilotstudy.evidence.claims_beside import claims_beside
from pilotstudy.evidence.figures import diverged_in_words
from pilotstudy.evidence.labels import row_label
from pilotstudy.evidence.pairs import Pair, pairs
from pilotstudy.evidence.recommendation import Answer, answer, gains_over_reference
from pilotstudy.evidence.reservations import reservations
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics.registry import headline_metrics
from pilotstudy.page.overall import Against, against_in_words, rows_that_matter
from pilotstudy.page.results import shown_metrics
from pilotstudy.page.rounding import rounded
from pilotstudy.report.table import Cell, Line, build_table, table_order
from pilotstudy.runs.folder import Run, distinct
from pilotstudy.runs.status import overview
from pilotstudy.study.spec import Study
from pilotstudy.study.statements import Row

MOST = 20  # runs of one page
ARMS_NAMED = 6  # where runs have other arms
UNTRAINED = ("network", "training", "search", "resources")  # what a study of imported predictions does not say
NOT_COMPARED = ("name", "title", "claims", "uses", "imported", "resources", "arms", "seeds")


def comparison_data(runs: Sequence[Run], names: Sequence[str] = ()) -> dict[str, object]:
    """`names`: what the runs are called; by default what their folders are."""
    if not 2 <= len(runs) <= MOST:
        raise InputError(f"a comparison is of 2 to {MOST} runs, and these are {len(runs)}")
    called = list(names) or distinct([run.files.folder for run in runs])
    found = [RunEvidence(run) for run in runs]
    differing = differences([evidence.study for evidence in found])
    answers = [answer(evidence) for evidence in found]
    entries = [run_entry(*one) for one in zip(found, called, answers, strict=True)]
    rows = rows_of_all(found)
    against = [against_reference(evidence) for evidence in found]
    return {
        "run": {"run": "comparison"},  # what its files are called
        "runs": [
            {**entry, "differs": own, "against": judged.record() if judged else None}
            for entry, own, judged in zip(entries, differing, against, strict=True)
        ],
        "rows": [
            {"row": str(row), "label": row_label(row), "arm": row.arm, "mode": row.mode, "phase": row.phase}
            for row in rows
        ],
        "matter": [str(row) for row in rows_that_matter(rows, found, answers, against)],
        "arms": {arm: row_label(Row(arm, declared=own)) for evidence in found for arm, own in evidence.arms.items()},
        "metrics": [metric for metric in shown_metrics() if metric["in_table"]],
        "answer": {metric: against_in_words(metric, rows, against) for metric in headline_metrics()},
        "claims": shared_claims(found),
    }


def rows_of_all(found: Sequence[RunEvidence]) -> list[Row]:
    """Every row that any of the runs has or plans, in the order of the tables."""
    rows: dict[Row, None] = {}
    for evidence in found:
        if evidence.trials:
            rows |= dict.fromkeys(evidence.figures().rows)
        rows |= dict.fromkeys(evidence.diverged)
    arms = list(dict.fromkeys(arm for evidence in found for arm in evidence.study.arms))
    by_arm = sorted(rows, key=lambda row: arms.index(row.arm) if row.arm in arms else len(arms))
    return table_order(by_arm)


def against_reference(evidence: RunEvidence) -> Against | None:
    gains = gains_over_reference(evidence) if evidence.trials else None
    return Against(*gains) if gains else None


def run_entry(evidence: RunEvidence, name: str, recommended: Answer) -> dict[str, object]:
    state, study = overview(evidence.run), evidence.study
    entry: dict[str, object] = {
        "name": name,
        "title": study.title,
        "state": state["state"],
        "done": state["done"],
        "trials": state["trials"],
        "failed": state["failed"],
        "data": state["data"],
        "network": state["network"],
        "seeds": in_words(study.seeds) if len(study.seeds) <= 5 else f"{len(study.seeds)} of them",
        "imported": bool(study.imported),
        "answer": list(recommended.sentences),
        "settling": recommended.settling.says if recommended.settling else "",
        "notes": reservations(evidence.run),
    }
    if not evidence.trials:
        return entry | {"points": 0, "lines": [], "paired": [], "pairs": {}}
    every_pair, rows = pairs(evidence, headline_metrics()), evidence.figures().rows
    return entry | {
        "points": evidence.figures().points,
        "lines": [line_entry(line) for line in build_table(evidence).lines],
        "paired": [str(row) for row in rows],
        "pairs": {
            metric: packed_pairs(rows, [pair for pair in every_pair if pair.metric == metric])
            for metric in headline_metrics()
        },
    }


def line_entry(line: Line) -> dict[str, object]:
    return {
        "row": str(line.row),
        "seeds": line.seeds,
        "diverged": diverged_in_words(line.diverged, line.seeds),
        **{metric: cell_entry(cell) for metric, cell in line.cells.items()},
    }


def cell_entry(cell: Cell) -> list[object] | None:
    """[figure, low, high, deviation over seeds, mark]"""
    if cell.ours is None:
        return None
    parts = cell.ours.value, cell.ours.low, cell.ours.high, cell.ours.deviation
    return [*(rounded(part, 8) for part in parts), cell.mark]


def packed_pairs(rows: Sequence[Row], found: Sequence[Pair]) -> dict[str, object]:
    """Of the first row with all that follow it, then of the second, ..; a run may have thousands of pairs.

    Differences and halves of their intervals are in units of 0.0001, p-values of 0.001; `winner`: + the first, - the
    second, p and m the same before correction, 0 neither, and a space where the two cannot be compared.
    """
    by_rows = {(pair.first, pair.second): pair for pair in found}
    ordered = [by_rows.get(both) for both in combinations(rows, 2)]
    return {
        "difference": [pair and in_units(pair.difference, 10_000) for pair in ordered],
        "half": [pair and in_units((pair.high - pair.low) / 2, 10_000) for pair in ordered],
        "p": [pair and in_units(pair.p_holm, 1000) for pair in ordered],
        "winner": "".join(
            ("-0+"[pair.winner + 1] if pair.winner else "m0p"[pair.alone + 1]) if pair else " " for pair in ordered
        ),
    }


def in_units(value: float, of_one: int) -> int | None:
    return round(of_one * value) if math.isfinite(value) else None


def shared_claims(found: Sequence[RunEvidence]) -> list[dict[str, object]]:
    """A line for each statement that two or more runs judge, with a verdict for each run; None where it has none."""
    wanted = ("verdict", "reason", "difference", "low", "high", "p_holm", "hardest", "opponents", "budget", "stated")

    def entry(verdict: Judged | None) -> dict[str, object] | None:
        return {name: rounded(getattr(verdict, name), 6) for name in wanted} if verdict else None

    return [
        {"says": claim.says, "holds": claim.holds, "section": claim.section, "runs": [*map(entry, claim.verdicts)]}
        for claim in claims_beside(found)
        if len(claim.judged) > 1
    ]


def differences(studies: Sequence[Study]) -> list[dict[str, str]]:
    """For each study, the keys in which they are not all alike, with its own values.

    A study that lacks a whole table, such as an arm or the search, differs in that, and not in each key of it.
    """
    contents = [compared(study, studies) for study in studies]
    flat = [flattened(content) for content in contents]
    keys = dict.fromkeys(key for own in flat for key in own)

    def values(key: str) -> set[str]:
        has_table = [key.partition(".")[0] in content for content in contents]
        return {in_words(own.get(key)) for own, has in zip(flat, has_table, strict=True) if has}

    differing = [key for key in keys if len(values(key)) > 1]
    return [{key: in_words(own.get(key)) for key in differing} for own in flat]


def compared(study: Study, studies: Sequence[Study]) -> dict[str, object]:
    """What is held against other studies: data, network, recipe, budget, and each arm's settings."""
    left_out = {*NOT_COMPARED, *(UNTRAINED if study.imported else ())}
    content = study.model_dump(mode="json", exclude=left_out)
    if not study.search:
        content.pop("search", None)
    else:
        content.get("search", {}).pop("trials", None)  # told below
    content["searched"] = f"{study.search.trials} trials" if study.search else "no"
    content["seeds"] = len(study.seeds)
    content["predictions"] = "imported" if study.imported else "trained here"
    content["arms"] = arms_in_words(list(study.arms), list(dict.fromkeys(arm for each in studies for arm in each.arms)))
    for arm in study.arms:
        content[arm] = study.settings(arm)
    return content


def arms_in_words(own: Sequence[str], of_all: Sequence[str]) -> str:
    """Which of all arms a study has, by those that it lacks if they are the fewer."""
    lacking = [arm for arm in of_all if arm not in own]
    if not lacking:
        return f"all {len(own)}"
    named, start = (own, f"{len(own)}: ") if len(own) <= len(lacking) else (lacking, f"{len(own)}, without ")
    more = f" and {len(named) - ARMS_NAMED} more" if len(named) > ARMS_NAMED else ""
    return f"{start}{', '.join(named[:ARMS_NAMED])}{more}"


def flattened(content: Mapping[str, object], before: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            found |= flattened(value, f"{before}{key}.")
        else:
            found[before + key] = value
    return found


def in_words(value: object) -> str:
    """A setting as a person would write it."""
    if value is None or value in ({}, [], ""):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(str(part.get("data") or part) if isinstance(part, Mapping) else str(part) for part in value)
    return str(value)
