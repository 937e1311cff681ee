"""A run as a log folder of TensorBoard: a folder for each trial, with its epochs and final figures as scalars, and its
settings for the HPARAMS tab. TensorBoard's own writer of records makes it; neither torch nor TensorFlow is needed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.api_pb2 import DataType, Experiment, HParamInfo, MetricInfo, MetricName
from tensorboard.plugins.hparams.api_pb2 import Status as Ending
from tensorboard.plugins.hparams.metadata import (
    EXPERIMENT_TAG,
    NULL_TENSOR,
    SESSION_END_INFO_TAG,
    SESSION_START_INFO_TAG,
    create_summary_metadata,
)
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo
from tensorboard.summary.writer.record_writer import RecordWriter

from pilotstudy.arms.arm import Setting
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.report.doors.told import Told, told_trials
from pilotstudy.runs.records import Status
from pilotstudy.storage import new_folder

KINDS = {bool: "DATA_TYPE_BOOL", int: "DATA_TYPE_FLOAT64", float: "DATA_TYPE_FLOAT64", str: "DATA_TYPE_STRING"}
VALUES = {bool: "bool_value", int: "number_value", float: "number_value", str: "string_value"}
ENDINGS = {Status.FINISHED: "STATUS_SUCCESS", Status.STOPPED: "STATUS_SUCCESS", Status.RUNNING: "STATUS_RUNNING"}


class Events:
    """One file of events; it begins with the version of its form."""

    def __init__(self, records: RecordWriter, time: float):
        self.records = records
        self.records.write(Event(wall_time=time, file_version="brain.Event:2").SerializeToString())

    def add(self, values: Iterable[Summary.Value], time: float, step: int = 0) -> None:
        event = Event(wall_time=time, step=step, summary=Summary(value=values))
        self.records.write(event.SerializeToString())


@contextmanager
def events(folder: Path, time: float) -> Iterator[Events]:
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"events.out.tfevents.{int(time):010}.pilotstudy", "wb") as file:
        yield Events(RecordWriter(file), time)


def write_tensorboard(evidence: RunEvidence, folder: Path) -> int:
    """How many trials were written."""
    trials = told_trials(evidence)
    kinds = setting_kinds(trials)
    began = min((told.started for told in trials), default=0.0)
    with new_folder(folder) as beside:
        with events(beside, began) as file:
            file.add([experiment(evidence, trials, kinds, began)], began)
        for told in trials:
            with events(beside / told.row.arm / told.name, told.started) as file:
                write_trial(file, told, kinds)
    return len(trials)


def setting_kinds(trials: Sequence[Told]) -> dict[str, type]:
    """The kind of value of each setting; a text, where arms have several kinds of it."""
    found: dict[str, set[type]] = {}
    for told in trials:
        for name, value in told.settings.items():
            found.setdefault(name, set()).add(float if type(value) is int else type(value))
    return {name: kinds.pop() if len(kinds) == 1 else str for name, kinds in found.items()}


def experiment(evidence: RunEvidence, trials: Sequence[Told], kinds: Mapping[str, type], time: float) -> Summary.Value:
    """What the HPARAMS tab has columns for."""
    metrics = dict.fromkeys(name for told in trials for name in told.headline)
    about = Experiment(
        name=evidence.run.name,
        description=evidence.study.title,
        time_created_secs=time,
        hparam_infos=[HParamInfo(name=name, type=DataType.Value(KINDS[kind])) for name, kind in kinds.items()],
        metric_infos=[MetricInfo(name=MetricName(tag=name)) for name in metrics],
    )
    return hparams_value(EXPERIMENT_TAG, HParamsPluginData(experiment=about))


def write_trial(file: Events, told: Told, kinds: Mapping[str, type]) -> None:
    start = SessionStartInfo(start_time_secs=told.started)
    for name, value in told.settings.items():
        set_value(start, name, kinds[name](value))
    file.add([hparams_value(SESSION_START_INFO_TAG, HParamsPluginData(session_start_info=start))], told.started)
    for epoch, time, scalars in told.scalars(told.headline):
        if scalars:
            file.add([Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()], time, epoch)
    ending = Ending.Value(ENDINGS.get(told.row.status, "STATUS_FAILURE"))
    end = SessionEndInfo(status=ending, end_time_secs=told.ended)
    file.add([hparams_value(SESSION_END_INFO_TAG, HParamsPluginData(session_end_info=end))], told.ended)


def set_value(start: SessionStartInfo, name: str, value: Setting) -> None:
    setattr(start.hparams[name], VALUES[type(value)], value)


def hparams_value(tag: str, content: HParamsPluginData) -> Summary.Value:
    return Summary.Value(tag=tag, metadata=create_summary_metadata(content), tensor=NULL_TENSOR)
