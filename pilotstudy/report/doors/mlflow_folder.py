"""A run as a store of MLflow: an experiment with one run for the study, and its trials as runs nested in that.

It is `mlflow.db` in the folder, since MLflow no longer writes plain files: `mlflow ui --backend-store-uri
sqlite:///FOLDER/mlflow.db` shows it. Rows go into its tables at once, in its own models' form: by its client each trial
takes some 50 ms, minutes for thousands of them.
"""

import logging
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from mlflow.store.tracking.dbmodels.models import SqlLatestMetric, SqlMetric, SqlParam, SqlRun, SqlTag
from mlflow.tracking import MlflowClient
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NAME, MLFLOW_RUN_NOTE, MLFLOW_USER
from sqlalchemy import create_engine, insert

from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.report.doors.told import Told, told_trials
from pilotstudy.runs.records import Status
from pilotstudy.storage import new_folder, storing

ENDINGS = {Status.FINISHED: "FINISHED", Status.STOPPED: "KILLED", Status.RUNNING: "RUNNING"}
LONGEST = 5000  # letters of a text; MLflow takes 6,000
AT_ONCE = 200  # trials whose rows are inserted together
TABLES = SqlRun, SqlTag, SqlParam, SqlMetric, SqlLatestMetric

KIND = "mlflow.experimentKind"  # by which its pages show runs first, and nothing of language models

Rows = Mapping[type, Sequence[Mapping[str, object]]]  # by model


@dataclass(frozen=True)
class MlflowRun:
    """What one of its runs holds. Times are seconds since 1970; `scalars`: step, time and metrics."""

    name: str
    status: str
    started: float
    ended: float
    params: Mapping[str, object]
    tags: Mapping[str, str]
    scalars: Sequence[tuple[int, float, Mapping[str, float]]] = ()

    def rows(self, id: str, experiment: str, artifacts: str) -> Rows:
        """What its tables hold of it."""
        ended = None if self.status == "RUNNING" else milliseconds(self.ended)
        times = {"start_time": milliseconds(self.started), "end_time": ended}
        own = {"run_uuid": id, "name": self.name[:250], "status": self.status, "experiment_id": int(experiment)}
        kind = {"source_type": "LOCAL", "source_name": "pilotstudy", "entry_point_name": "", "source_version": ""}
        place = {"artifact_uri": f"{artifacts}/{id}/artifacts", "lifecycle_stage": "active", "user_id": ""}
        metrics = [
            {"run_uuid": id, "key": name, "value": value, "timestamp": milliseconds(time), "step": step}
            for step, time, scalars in self.scalars
            for name, value in scalars.items()
        ]
        tags = {MLFLOW_RUN_NAME: self.name, MLFLOW_USER: "pilotstudy", **self.tags}
        return {
            SqlRun: [own | times | kind | place],
            SqlTag: [{"run_uuid": id, "key": key, "value": text_of(value)} for key, value in tags.items()],
            SqlParam: [{"run_uuid": id, "key": key, "value": text_of(value)} for key, value in self.params.items()],
            SqlMetric: metrics,
            SqlLatestMetric: list({metric["key"]: metric for metric in metrics}.values()),
        }


def milliseconds(seconds: float) -> int:
    return round(1000 * seconds)


def text_of(value: object) -> str:
    return str(value)[:LONGEST]


def study_run(evidence: RunEvidence, trials: Sequence[Told]) -> MlflowRun:
    """What is true of all trials."""
    study, frozen = evidence.study, evidence.run.frozen()
    began = datetime.fromisoformat(frozen.history[0].at).timestamp()
    under_way = any(told.row.status == Status.RUNNING for told in trials)
    params = {"data": study.data.name, "arms": ", ".join(study.arms), "seeds": ", ".join(map(str, study.seeds))}
    if not study.imported:
        params |= {"network": study.network.name} | study.training.model_dump()
    made = frozen.provenance
    return MlflowRun(
        name=evidence.run.name,
        status="RUNNING" if under_way else "FINISHED",
        started=began,
        ended=max((told.ended for told in trials), default=began),
        params=params,
        tags={MLFLOW_RUN_NOTE: study.title, "code_version": made.code_version, "fingerprint": frozen.fingerprint},
    )


def trial_run(told: Told, parent: str) -> MlflowRun:
    status = ENDINGS.get(told.row.status, "FAILED")
    tags = {MLFLOW_PARENT_RUN_ID: parent, **told.marks()}
    name = f"{told.row.arm} {told.name}"
    return MlflowRun(name, status, told.started, told.ended, told.settings, tags, list(told.scalars(told.figures)))


def write_mlflow(evidence: RunEvidence, folder: Path) -> int:
    """How many trials were written."""
    trials = told_trials(evidence)
    artifacts = (folder.absolute() / "artifacts").as_uri()
    # MLflow takes an address, not a path, and gets those wrong that have letters to be quoted.
    with new_folder(folder) as beside, tempfile.TemporaryDirectory() as plain, storing(folder):
        with quiet():
            client = MlflowClient(f"sqlite:///{plain}/mlflow.db")
            experiment = client.create_experiment(evidence.run.name, artifacts, {KIND: "custom_model_development"})
        engine = create_engine(f"sqlite:///{plain}/mlflow.db")
        with engine.begin() as connection:
            for batch in batches(evidence, trials):
                all_rows = [run.rows(id, experiment, artifacts) for id, run in batch]
                for table in TABLES:
                    if rows := [row for of_run in all_rows for row in of_run[table]]:
                        connection.execute(insert(table), rows)
        engine.dispose()
        shutil.move(f"{plain}/mlflow.db", beside / "mlflow.db")
    return len(trials)


def batches(evidence: RunEvidence, trials: Sequence[Told]) -> Iterator[list[tuple[str, MlflowRun]]]:
    """The study's own run, then the trials' some at a time, each with its id."""
    parent = uuid.uuid4().hex
    yield [(parent, study_run(evidence, trials))]
    for first in range(0, len(trials), AT_ONCE):
        yield [(uuid.uuid4().hex, trial_run(told, parent)) for told in trials[first : first + AT_ONCE]]


@contextmanager
def quiet() -> Iterator[None]:
    """It tells every change of its tables' form on the way to the newest."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)
