"""A run from predictions that were made elsewhere: readers find in it what they find in any other.

Nothing is trained and nothing made up: there is one epoch, which counts as the last, and where there are no validation
predictions there is no temperature.
"""

import hashlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from pilotstudy import __version__
from pilotstudy.arms.arm import Declared, Mode, Role
from pilotstudy.arms.catalogue import all_arms
from pilotstudy.console import Progress
from pilotstudy.errors import DataError, InputError, nearest
from pilotstudy.runs import schemas
from pilotstudy.runs.evaluating import evaluate, reliability
from pilotstudy.runs.folder import Run
from pilotstudy.runs.foreign import read_parts
from pilotstudy.runs.foreign_trials import ForeignTrial, fingerprint, trials_of
from pilotstudy.runs.frozen import FrozenStudy, Provenance, Start
from pilotstudy.runs.provenance import provenance
from pilotstudy.runs.records import Diagram, Status, TrialResult, TrialRow, first_problem
from pilotstudy.runs.results import Results
from pilotstudy.runs.schemas import trials_schema
from pilotstudy.storage import write
from pilotstudy.study.checking import check_claims, check_row_name
from pilotstudy.study.spec import FROZEN, Claim, Imported, Study, Trial

COMPUTED_WITH = ("pilotstudy", "numpy", "scipy", "pyarrow")  # packages that have a part in the figures


@dataclass(frozen=True)
class Words:
    """What the files do not tell. `roles`: by arm."""

    title: str = ""
    data_name: str = ""
    roles: Mapping[str, Role] = field(default_factory=dict)
    claims: Sequence[Claim] = ()


def import_predictions(run: Run, files: Sequence[Path], words: Words) -> list[ForeignTrial]:
    """Makes a run of them, or adds to one that was made so; what it has is never replaced. Returns what was new."""
    trials = trials_of([part for path in dict.fromkeys(files) for part in read_parts(path)])
    for trial in trials:
        check_row_name(trial.arm)
    if not run.files.study.exists():
        _study(run, trials, [], words, None)  # what is wrong is said before there is a folder
    with run.locked():
        before = run.frozen() if run.files.study.exists() else None
        rows = _rows_there(run, before)
        new = _new_trials(run, before, rows, trials)
        frozen = _study(run, new, rows, words, before)
        if before is None or new or frozen.study != before.study or frozen.arms != before.arms:
            _write(run, new, rows, frozen)
    return new


# The run that is there already


def _rows_there(run: Run, before: FrozenStudy | None) -> list[TrialRow]:
    if before is None:
        return []
    if not before.parsed().imported:
        raise InputError(f"run {run.name!r} was trained, not imported: give another name")
    return Results(run.files).rows()


def _new_trials(
    run: Run, before: FrozenStudy | None, rows: Sequence[TrialRow], trials: Sequence[ForeignTrial]
) -> list[ForeignTrial]:
    known = {(row.arm, row.seed): row.key for row in rows}
    if before and before.fingerprint != fingerprint(trials[0]):
        raise DataError(f"the test images or their labels are not those that run {run.name!r} has: give another name")
    _check_validation(run, rows, trials)
    new = []
    for trial in trials:
        key = known.get((trial.arm, trial.seed))
        if key is None:
            new.append(trial)
        elif key != trial.key:
            raise InputError(
                f"run {run.name!r} has other predictions of {trial.arm}, seed {trial.seed}: nothing is replaced, so "
                "give another name"
            )
    return new


def _check_validation(run: Run, rows: Sequence[TrialRow], trials: Sequence[ForeignTrial]) -> None:
    """Temperatures of ensembles are fitted on the validation images that all have."""
    there = next((row for row in rows if row.has_validation), None)
    given = (pair.validation for trial in trials for pair in trial.predictions.values())
    new = next((part for part in given if len(part.labels)), None)
    if there is None or new is None:
        return
    old = next(iter(schemas.load_predictions(run.files.trial(there.key).predictions).values())).validation
    if not (np.array_equal(old.rows, new.rows) and np.array_equal(old.labels, new.labels)):
        raise DataError(f"the validation images or their labels are not those that run {run.name!r} has")


# What is written


def _study(
    run: Run,
    new: Sequence[ForeignTrial],
    rows: Sequence[TrialRow],
    words: Words,
    before: FrozenStudy | None,
) -> FrozenStudy:
    old = before.parsed() if before else None
    arms = _declared(new, before.arms if before else {}, words.roles)
    if old and words.data_name not in ("", old.data.name):
        raise InputError(f"run {run.name!r} has data = {old.data.name!r}, not {words.data_name!r}: give another name")
    claims = [*(old.claims if old else ()), *words.claims]
    seeds = {*(row.seed for row in rows), *(trial.seed for trial in new)}
    content: dict[str, object] = {
        "name": run.name,
        "title": words.title or (old.title if old else run.name),
        "imported": [each.model_dump() for each in _files(new, old.imported or () if old else ())],
        "seeds": sorted(seeds),
        "data": {"name": old.data.name if old else words.data_name or run.name},
        "arms": {name: {} for name in arms},
        "claims": [claim.model_dump(mode="json") for claim in dict.fromkeys(claims)],
    }
    check_claims(claims, {**all_arms(), **arms})
    try:
        Study.model_validate(content, strict=False, context=FROZEN)
    except ValidationError as error:
        raise InputError(f"run {run.name!r}: {first_problem(error)}") from error
    start = Start(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        command=tuple(sys.argv),
        study=content,
        results=len(rows) + len(new),  # they were there, so that no claim comes before them
    )
    return FrozenStudy(
        study=content,
        options={},
        fingerprint=before.fingerprint if before else fingerprint(new[0]),
        provenance=_provenance(),
        history=(*(before.history if before else ()), start),
        arms=arms,
    )


def _files(new: Sequence[ForeignTrial], before: Iterable[Imported]) -> list[Imported]:
    """Each file with the number of trials that are from it."""
    files = {each.sha256: each for each in before}
    digests = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in {trial.file for trial in new}}
    for trial in new:
        digest = digests[trial.file]
        known = files.get(digest) or Imported(file=trial.file.name, sha256=digest, trials=0)
        files[digest] = known.model_copy(update={"trials": known.trials + 1})
    return list(files.values())


def _declared(
    new: Sequence[ForeignTrial], before: Mapping[str, Declared], roles: Mapping[str, Role]
) -> dict[str, Declared]:
    """An arm that has the name of one of ours has its label, role and group; `roles` say what others are."""
    known, arms = all_arms(), dict(before)
    for trial in new:
        ours = known[trial.arm].declared() if trial.arm in known else Declared(name=trial.arm)
        had = arms.get(trial.arm) or replace(ours, modes=())
        modes: tuple[Mode, ...] = ("point", "mc")
        arms[trial.arm] = replace(had, modes=tuple(m for m in modes if m in (*had.modes, *trial.modes)))
    for name, role in roles.items():
        if name not in arms:
            raise InputError(f"--{role} {name}: {nearest(name, list(arms))}")
        arms[name] = replace(arms[name], role=role)
    return dict(sorted(arms.items(), key=lambda entry: entry[1].role != "reference"))  # which comes first


def _provenance() -> Provenance:
    made = provenance()
    return replace(made, packages={name: made.packages.get(name) for name in COMPUTED_WITH})


def _write(run: Run, new: Sequence[ForeignTrial], rows: Sequence[TrialRow], frozen: FrozenStudy) -> None:
    """The table comes last: what is not in it is imported again."""
    study = frozen.parsed()
    numbers = {arm: sum(row.arm == arm for row in rows) for arm in study.arms}
    lines = []
    with Progress("evaluating", len(new)) as progress:
        for trial in new:
            result = _result(trial, study, frozen.fingerprint)
            files = run.files.trial(trial.key)
            schemas.save(files.predictions, schemas.predictions_table(trial.predictions))
            write(files.result, result.to_json() + "\n")
            lines.append(_line(trial, result, numbers[trial.arm]))
            numbers[trial.arm] += 1
            progress.advance()
    schema = trials_schema()
    there = schemas.read(run.files.trials, schema) if run.files.trials.exists() else schema.empty_table()
    write(run.files.study, frozen.to_json() + "\n")
    schemas.save(run.files.trials, pa.concat_tables([there, pa.Table.from_pylist(lines, schema=schema)]))


def _result(trial: ForeignTrial, study: Study, data: str) -> TrialResult:
    point = trial.predictions.get(("last", "point"))
    has_validation = point is not None and len(point.validation.labels) > 0
    return TrialResult(
        version=__version__,
        trial=Trial.model_construct(
            arm=trial.arm,
            settings={},
            seed=trial.seed,
            data=study.data,
            network=study.network,
            training=study.training,
        ),
        fingerprint=data,
        classes=trial.classes,
        notes=(f"imported from {trial.file.name}",),
        status=Status.FINISHED,
        evaluations=evaluate(trial.predictions),
        validation_reliability=reliability(point.validation) if point and has_validation else (),
        reliability=tuple(Diagram(at, mode, reliability(pair.test)) for (at, mode), pair in trial.predictions.items()),
    )


def _line(trial: ForeignTrial, result: TrialResult, number: int) -> dict[str, object]:
    """Of the table of trials."""
    place = {"phase": "arms", "arm": trial.arm, "number": number, "seed": trial.seed, "key": trial.key}
    return {**place, "status": str(result.status), "reused": False, "retries": 0, "settings": "{}", **result.columns()}
