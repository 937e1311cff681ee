"""Metrics that were added after a trial was evaluated: computed from its stored predictions."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pilotstudy.errors import DataError
from pilotstudy.metrics import scores
from pilotstudy.metrics.computation import Points
from pilotstudy.metrics.registry import METRICS
from pilotstudy.runs import schemas
from pilotstudy.runs.evaluating import fitted
from pilotstudy.runs.layout import RunFiles
from pilotstudy.runs.schemas import trials_schema
from pilotstudy.storage import AT_ONCE

Row = dict[str, Any]  # an evaluation as the table has it: a column for each metric, too


def filled(trials: pa.Table, files: RunFiles) -> pa.Table:
    """The table of trials with no figure missing, as far as predictions are there."""
    evaluations = trials["evaluations"].combine_chunks().flatten()
    fittable = _with_validation(trials["evaluations"].combine_chunks())
    missing = [
        name
        for name, metric in METRICS.items()
        if _lacks(evaluations.filter(fittable) if metric.needs_validation else evaluations, name)
    ]
    if not missing:
        return trials
    rows = trials.to_pylist()
    stored = {str(row["key"]): row["evaluations"] for row in rows if row["evaluations"]}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        complete = dict(
            zip(stored, pool.map(lambda key: _figures(files, key, missing, stored[key]), stored), strict=True)
        )
    for row in rows:
        row["evaluations"] = complete.get(str(row["key"]), row["evaluations"])
    return pa.Table.from_pylist(rows, schema=trials_schema())


def fill_in(files: RunFiles) -> None:
    """Writes the table of trials anew where a figure was missing."""
    trials = schemas.read(files.trials, trials_schema())
    complete = filled(trials, files)
    if complete is not trials:
        schemas.save(files.trials, complete)


def _with_validation(evaluations: pa.ListArray) -> pa.BooleanArray:
    """Which of all evaluations are of a trial that has validation predictions."""
    trials = pc.list_parent_indices(evaluations)
    return pc.is_in(trials, trials.filter(pc.equal(evaluations.flatten().field("split"), "validation")))


def _lacks(evaluations: pa.StructArray, name: str) -> bool:
    names = [field.name for field in evaluations.type]
    return len(evaluations) > 0 and name in names and evaluations.field(name).null_count > 0


def _figures(files: RunFiles, key: str, missing: list[str], stored: list[Row]) -> list[Row]:
    """The evaluations of a trial, with what was missing."""
    try:
        splits = {evaluation["split"] for evaluation in stored}
        predictions = schemas.load_predictions(
            files.trial(key).predictions, has_validation="validation" in splits, has_test="test" in splits
        )
    except DataError:  # whoever needs them says so
        return stored
    best = {(each["at"], each["mode"]): each["temperature"] for each in stored if each["scaled"]}
    complete = []
    for evaluation in stored:
        model = evaluation["at"], evaluation["mode"]
        pair, temperature = predictions[model], evaluation["temperature"]
        part = pair.splits[evaluation["split"]]
        fits = fitted(pair.validation, temperature, best.get(model))
        points = Points(scores.log_probabilities(part.logits, temperature), part.labels, fitted=fits)
        absent = [METRICS[name] for name in missing if evaluation[name] is None]
        new = {metric.name: metric.value(points) for metric in absent if metric.can_tell(points)}
        complete.append(evaluation | new)
    return complete
