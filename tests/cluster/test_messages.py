"""What driver and actors tell each other arrives as it was sent."""

import json
import pickle

import pytest

from pilotstudy.cluster.faults import NodeFault, recognise
from pilotstudy.cluster.messages import Fault, FaultKind, Interruption, Report, WorkOrder
from pilotstudy.errors import CaptureError, StorageError
from pilotstudy.runs.records import Place, Status, TrialResult
from tests.support.squares import make_trial

HERE = Place("n1", "host", "0,1")


def test_a_work_order():
    order = WorkOrder(
        trial=make_trial("pilot-a-aug", seed=3, decoder_variance=0.1 + 0.2, dgm_width=16),
        uses=[{"name": "my_lab.py", "text": "x = 'é'"}],
        key="abc",
        folder="s3://bucket/runs/one",
        session="s",
        threads=2,
        gpus=1 / 3,
        mps=True,
        graph=False,
        test=False,
        forgiven=4,
        slice_seconds=1.0,
        checkpoint_seconds=0.0,
        each_epoch=True,
    )
    text = order.to_json()
    assert isinstance(text, str)  # Tune keeps statistics of numbers
    again = WorkOrder.from_json(text)
    assert again == order
    assert again.trial.settings["decoder_variance"] == 0.1 + 0.2


def through_tune(report: Report) -> Report:
    """Tune adds keys of its own, and what travels must be plain."""
    values = json.loads(json.dumps(report.to_tune()))
    return Report.from_tune(values | {"training_iteration": 3, "time_total_s": 1.5, "config": {"work": "{}"}})


def test_a_trial_that_goes_on():
    record = {"epoch": 4, "validation_nll": 0.5, "images_per_second": 900.0}
    report = Report(HERE, "CPU (x)", record)
    values = report.to_tune()
    assert values["validation_nll"] == 0.5  # for early stopping
    assert "done" not in values
    again = through_tune(report)
    assert (again.place, again.device, again.epoch, again.ending) == (HERE, "CPU (x)", 4, None)
    assert again.record["images_per_second"] == 900.0


def test_a_trial_that_has_ended():
    result = TrialResult(trial=make_trial(), fingerprint="ff", status=Status.DIVERGED, epochs=1)
    report = Report(HERE, "CPU (x)", {"epoch": 1}, result.status, result=result.to_json())
    again = through_tune(report)
    assert report.to_tune()["done"] is True
    assert again.ending is Status.DIVERGED
    assert again.trial_result() == result
    saved = through_tune(Report(HERE, ending=Interruption.SAVED))
    assert (saved.ending, saved.fault) == (Interruption.SAVED, None)
    assert Report.from_tune({}) == Report()


@pytest.mark.parametrize(
    ("kind", "ending"),
    [
        (FaultKind.TRIAL, Status.FAILED),
        (FaultKind.STORAGE, Interruption.STORAGE),
        (FaultKind.OUT_OF_MEMORY, Interruption.OUT_OF_MEMORY),
    ],
)
def test_a_trial_that_met_a_fault(kind, ending):
    fault = Fault(kind, "E: x", "Traceback ..", HERE)
    again = through_tune(Report.of_fault(fault))
    assert again.ending is ending
    assert again.fault == fault


def test_an_actor_that_ends_takes_its_fault_along():
    fault = Fault(FaultKind.NODE, "E: x", "Traceback ..", HERE, ends_process=True)
    assert pickle.loads(pickle.dumps(NodeFault(fault))).fault == fault


def test_an_exception_is_recognised_where_it_was_caught():
    faults = []
    for error in StorageError("cannot write x"), CaptureError("not\npermitted"), ValueError("a" * 1000):
        try:
            raise error
        except Exception as caught:
            faults.append(recognise(caught, HERE))
    storage, capture, own = faults
    assert (storage.kind, storage.error, storage.traceback) == (FaultKind.STORAGE, "cannot write x", None)
    assert (capture.kind, capture.error, capture.ends_process) == (
        FaultKind.CAPTURE,
        "CaptureError: not permitted",
        True,
    )
    assert (own.kind, own.place, own.ends_process) == (FaultKind.TRIAL, HERE, False)
    assert len(own.error) == len("ValueError: ") + 500
    assert own.traceback.startswith("Traceback")
    assert "raise error" in own.traceback
