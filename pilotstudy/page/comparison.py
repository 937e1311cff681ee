"""Several runs side by side: what differs between them, the figures of the same rows, who beats whom, the claims.

Intervals, marks and verdicts are those of `table`, `compare` and `claims`.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from pilotstudy.errors import InputError
from pilotstudy.evidence.claims import judge_all
from pilotstudy.evidence.figures import diverged_in_words
from pilotstudy.evidence.labels import row_label
from pilotstudy.evidence.pairs import pairs
from pilotstudy.evidence.reservations import reservations
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics.registry import headline_metrics
from pilotstudy.page.results import shown_metrics
from pilotstudy.page.rounding import rounded
from pilotstudy.report.formats import line_record
from pilotstudy.report.table import Line, build_table, table_order
from pilotstudy.runs.folder import Run
from pilotstudy.runs.status import overview
from pilotstudy.study.spec import Study
from pilotstudy.study.statements import Row

MOST = 20  # runs of one page
UNTRAINED = ("network", "training", "search", "resources")  # what a study of imported predictions does not say
NOT_COMPARED = ("name", "title", "claims", "uses", "imported", "resources", "arms", "seeds")


def comparison_data(runs: Sequence[Run], names: Sequence[str] = ()) -> dict[str, object]:
    """`names`: what the runs are called; by default what their folders are."""
    if not 2 <= len(runs) <= MOST:
        raise InputError(f"a comparison is of 2 to {MOST} runs, and these are {len(runs)}")
    found = [RunEvidence(run) for run in runs]
    called = list(names) or distinct([run.files.folder for run in runs])
    differing = differences([evidence.study for evidence in found])
    entries = [run_entry(evidence, name) for evidence, name in zip(found, called, strict=True)]
    rows = rows_of_all(found)
    return {
        "runs": [{**entry, "differs": own} for entry, own in zip(entries, differing, strict=True)],
        "rows": [
            {"row": str(row), "label": row_label(row), "arm": row.arm, "mode": row.mode, "phase": row.phase}
            for row in rows
        ],
        "arms": list(dict.fromkeys([*(arm for evidence in found for arm in evidence.study.arms), "ensemble"])),
        "metrics": [metric for metric in shown_metrics() if metric["in_table"]],
        "claims": shared_claims(found),
    }


def distinct(folders: Sequence[PurePath]) -> list[str]:
    """The folders' names; where two are the same, with as much of their paths as tells them apart."""
    for parts in range(1, max(len(folder.parts) for folder in folders) + 1):
        names = ["/".join(folder.parts[-parts:]) for folder in folders]
        if len(set(names)) == len(names):
            return names
    raise InputError(f"{folders[0].name} is given twice: a run is compared with others")


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


def run_entry(evidence: RunEvidence, name: str) -> dict[str, object]:
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
        "imported": bool(study.imported),
        "notes": reservations(evidence.run),
    }
    if not evidence.trials:
        return entry | {"points": 0, "lines": [], "paired": [], "pairs": {}}
    table = build_table(evidence)
    places = {row: place for place, row in enumerate(evidence.figures().rows)}
    every_pair = pairs(evidence, headline_metrics())
    return entry | {
        "points": evidence.figures().points,
        "lines": [line_entry(line) for line in table.lines],
        "paired": [str(row) for row in places],
        "pairs": {
            # [first, second, winner, difference, low, high, p, seeds]; rows by their place in `paired`
            metric: [
                [
                    places[pair.first],
                    places[pair.second],
                    pair.winner,
                    *(rounded(part, 4) for part in (pair.difference, pair.low, pair.high)),
                    rounded(pair.p_holm, 2),
                    pair.seeds,
                ]
                for pair in every_pair
                if pair.metric == metric
            ]
            for metric in headline_metrics()
        },
    }


def line_entry(line: Line) -> dict[str, object]:
    # All digits: what is rounded once here and once on the page may differ from what the commands print.
    record = {name: rounded(value, 17) for name, value in line_record(line, like_paper=False).items()}
    return record | {"diverged_in_words": diverged_in_words(line.diverged, line.seeds)}


def shared_claims(found: Sequence[RunEvidence]) -> list[dict[str, object]]:
    """A line for each statement that two or more runs judge, with a verdict for each run; None where it has none."""
    wanted = ("verdict", "reason", "difference", "low", "high", "p_holm", "hardest", "opponents", "budget", "stated")
    by_statement: dict[str, dict[str, object]] = {}
    verdicts: dict[str, dict[int, dict[str, object]]] = {}
    for number, evidence in enumerate(found):
        judged = judge_all(evidence) if evidence.study.claims and evidence.trials else []
        for claim in judged:
            record = claim.record()
            key = claim.holds
            by_statement.setdefault(key, {name: record[name] for name in ("says", "holds", "section")})
            verdicts.setdefault(key, {})[number] = {name: rounded(record[name], 6) for name in wanted}
    return [
        {**by_statement[key], "runs": [own.get(number) for number in range(len(found))]}
        for key, own in verdicts.items()
        if len(own) > 1
    ]


def differences(studies: Sequence[Study]) -> list[dict[str, str]]:
    """For each study, the keys in which they are not all alike, with its own values."""
    flat = [flattened(compared(study)) for study in studies]
    keys = dict.fromkeys(key for own in flat for key in own)
    differing = [key for key in keys if len({in_words(own.get(key)) for own in flat}) > 1]
    return [{key: in_words(own.get(key)) for key in differing} for own in flat]


def compared(study: Study) -> dict[str, object]:
    """What is held against other studies: data, network, recipe, budget, and each arm's settings."""
    left_out = {*NOT_COMPARED, *(UNTRAINED if study.imported else ())}
    content = study.model_dump(mode="json", exclude=left_out)
    content["seeds"] = len(study.seeds)
    content["predictions"] = "imported" if study.imported else "trained here"
    for arm in study.arms:
        content[arm] = study.settings(arm)
    return content


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
        return (
            f"{len(value)} entries" if any(isinstance(part, Mapping) for part in value) else ", ".join(map(str, value))
        )
    return str(value)
