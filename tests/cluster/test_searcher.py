"""What a fault is put down to: trial, GPU, node or memory. No Ray is started."""

import json

from pilotstudy.cluster.faults import kind_of
from pilotstudy.cluster.messages import FaultKind, Report, WorkOrder
from pilotstudy.runs.records import Place, Status, TrialResult
from tests.support.searchers import fault, make_searcher


def test_a_sick_gpu_does_not_eat_the_study(tmp_path):
    searcher, said = make_searcher(tmp_path, concurrency=1)
    first = json.loads(searcher.suggest("0")["work"])["key"]
    for number in range(3):
        searcher.cause = fault("sick")
        searcher.on_trial_complete(str(number), error=True)
        again = searcher.suggest(str(number + 1))
        assert json.loads(again["work"])["key"] == first  # it goes elsewhere, and is not failed
        assert again["avoid"] == ("sick" if number == 2 else "")
    assert "host-sick, GPU 0 failed 3 trials in a row and gets no more: RuntimeError: CUDA error: ECC" in said()
    for number in range(3, 6):
        searcher.cause = fault(f"other{number}", f"RuntimeError: CUDA error: {'abcdef'[number]}")  # not all alike
        searcher.on_trial_complete(str(number), error=True)
        searcher.suggest(str(number + 1))
    item = searcher.director.items[0]
    assert item.status == "failed"  # six nodes cannot all be sick
    result = searcher.director.run.result(item.key)
    assert (result.traceback, result.place) == ("Traceback ..", ("other5", "host-other5", "0"))
    assert item.retries == 6
    assert not searcher.stopping


def test_the_same_fault_on_several_nodes_and_no_success_stops_the_study(tmp_path):
    """A broken image, on a cluster whose autoscaler would bring one such node after the other."""
    searcher, _ = make_searcher(tmp_path, concurrency=20, autoscaled=True)
    for number in range(6):
        searcher.suggest(str(number))
    for number in range(6):
        assert not searcher.stopping
        searcher.cause = fault(f"node{number % 2}", f"DeviceError: driver 55{number}")
        searcher.on_trial_complete(str(number), error=True)
    assert searcher.stopping == "sick"
    assert "no trial has ended well, and 6 failed alike: DeviceError: driver 555" in str(searcher.error)


def test_a_larger_share_is_kept_and_other_faults_do_not_use_it_up(tmp_path):
    searcher, _ = make_searcher(tmp_path, concurrency=1, gpus=0.25)
    out_of_memory = {"status": "out of memory", "error": "CUDA out of memory"}
    shares = [searcher.suggest("0")["gpus"]]
    for number, told in enumerate([None, out_of_memory, None, out_of_memory]):
        searcher.cause = None if told else fault("a")
        searcher.on_trial_complete(str(number), told, error=told is None)
        shares.append(searcher.suggest(str(number + 1))["gpus"])
    assert shares == [0.25, 0.25, 0.5, 0.5, 1.0]


def test_steps_that_cannot_be_captured_are_ordinary_in_another_process(tmp_path):
    searcher, _ = make_searcher(tmp_path, concurrency=1)
    assert json.loads(searcher.suggest("0")["work"])["graph"]
    searcher.cause = fault("n", "CaptureError: not permitted", "capture")
    searcher.on_trial_complete("0", error=True)
    assert not json.loads(searcher.suggest("1")["work"])["graph"]
    assert searcher.director.items[0].retries == 0


def test_proposals_do_not_run_ahead_of_what_is_learnt(tmp_path):
    """However many trials an autoscaler is asked for."""
    searcher, _ = make_searcher(tmp_path, concurrency=64, autoscaled=True)
    suggested = [searcher.suggest(str(number)) for number in range(12)]
    assert [bool(one) for one in suggested] == [True] * 7 + [False] * 5  # the fixed arms, and one more
    searcher.running |= {str(number) for number in range(7)}
    assert [bool(searcher.suggest(f"b{number}")) for number in range(6)] == [True] * 4 + [False] * 2


def test_a_note_that_cannot_be_written_ends_the_run_and_no_trial_is_forgotten(tmp_path):
    searcher, _ = make_searcher(tmp_path, concurrency=1)
    searcher.suggest("0")
    (tmp_path / "run").mkdir(exist_ok=True)
    (tmp_path / "run" / "results").write_text("in the way")
    searcher.on_trial_complete("0", {"status": "failed", "error": "x"})
    assert searcher.stopping == "storage"
    assert "cannot write" in str(searcher.error)


def test_failures_of_one_arm_do_not_stop_the_others(tmp_path):
    searcher, _ = make_searcher(tmp_path, concurrency=1)
    for number in range(2):
        searcher.suggest(str(number))
        searcher.on_trial_complete(str(number), {"status": "failed", "error": "ValueError: no"})
    assert not searcher.stopping
    searcher.suggest("2")  # of another arm
    searcher.on_trial_complete("2", {"status": "failed", "error": "ValueError: no"})
    assert searcher.stopping == "alike"


def test_memory_halves_and_doubles(monkeypatch):
    from pilotstudy.cluster import memory

    now = [1000.0]
    monkeypatch.setattr(memory.time, "monotonic", lambda: now[0])
    memory = memory.Memory()
    assert memory.limit(64) == 64
    assert "32 trials at a time" in memory.killed(64)
    assert memory.killed(64) == ""  # ended at the same moment
    assert memory.limit(64) == 0  # a pause first
    now[0] += 10
    assert memory.limit(64) == 32
    now[0] += 10
    assert "16 trials" in memory.killed(64)
    now[0] += 130
    assert memory.limit(64) == 32
    now[0] += 130
    assert memory.limit(64) == 64
    for _ in range(8):
        now[0] += 10
        memory.killed(64)
    assert memory.most == 1
    assert not memory.hopeless()
    for _ in range(40):
        now[0] += 61
        memory.killed(64)
    assert memory.hopeless()


def test_a_success_makes_a_gpu_well_again(tmp_path):
    searcher, _ = make_searcher(tmp_path, concurrency=1)
    for number in range(6):
        work = searcher.suggest(str(number))["work"]
        if number % 3 == 2:
            order = WorkOrder.from_json(work)
            result = TrialResult(trial=order.trial, fingerprint="x", status=Status.FINISHED).to_json()
            path = searcher.director.run.files.trial(order.key).result
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(result)
            report = Report(Place("n", "h", "0"), ending=Status.FINISHED, result=result)
            searcher.on_trial_complete(str(number), report.to_tune())
        else:
            searcher.cause = fault("n")
            searcher.on_trial_complete(str(number), error=True)
    assert not searcher.avoided


def test_when_no_node_is_left_the_study_stops_with_the_reason(tmp_path):
    searcher, _ = make_searcher(tmp_path, concurrency=1)
    searcher.nobody_left = lambda: True
    for number in range(3):
        searcher.suggest(str(number))
        searcher.cause = fault("n")
        searcher.on_trial_complete(str(number), error=True)
    assert searcher.stopping == "sick"
    assert "host-n, GPU 0: RuntimeError: CUDA error: ECC" in str(searcher.error)


def test_a_context_that_does_not_fit_gets_a_larger_share(tmp_path):
    searcher, said = make_searcher(tmp_path, concurrency=1, gpus=0.25)
    searcher.suggest("0")
    searcher.cause = fault("n", "AcceleratorError: CUDA error: out of memory", "out of memory")
    searcher.on_trial_complete("0", error=True)
    assert searcher.suggest("1")["gpus"] == 0.5
    assert "again with 0.5 of a GPU" in said()


def test_which_errors_are_not_the_trials_own():
    import errno

    import torch

    from pilotstudy.errors import CaptureError, DeviceError, InputError, StorageError

    of_the_node = [
        DeviceError("cuda was asked for"),
        torch.AcceleratorError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
        OSError(errno.EIO, "Input/output error"),
        MemoryError(),
    ]
    own = [
        ValueError("x"),
        RuntimeError("shape mismatch"),
        InputError("x"),
        FileNotFoundError(2, "no file"),
        KeyError("a"),
        RuntimeError("the host ran out of memory"),
    ]
    assert [kind_of(error) for error in of_the_node] == [(FaultKind.NODE, True)] * 5
    assert [kind_of(error) for error in own] == [(FaultKind.TRIAL, False)] * 6
    # While training the process goes on; while CUDA makes its context, it is of no more use.
    assert kind_of(torch.OutOfMemoryError("CUDA out of memory")) == (FaultKind.OUT_OF_MEMORY, False)
    assert kind_of(torch.AcceleratorError("CUDA error: out of memory")) == (FaultKind.OUT_OF_MEMORY, True)
    assert kind_of(RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED")) == (FaultKind.OUT_OF_MEMORY, True)
    assert kind_of(StorageError("the disk is full")) == (FaultKind.STORAGE, False)
    assert kind_of(CaptureError("not permitted")) == (FaultKind.CAPTURE, True)


def test_a_trial_that_runs_out_of_gpu_memory_gets_a_larger_share(tmp_path):
    searcher, said = make_searcher(tmp_path, gpus=0.25)
    first = searcher.suggest("a")
    for trial_id, share in ("b", 0.5), ("c", 1.0):
        searcher.on_trial_complete(chr(ord(trial_id) - 1), {"status": "out of memory", "error": "CUDA out of memory"})
        again = searcher.suggest(trial_id)
        assert json.loads(again["work"])["key"] == json.loads(first["work"])["key"]
        assert again["gpus"] == json.loads(again["work"])["gpus"] == share
    searcher.on_trial_complete("c", {"status": "out of memory", "error": "CUDA out of memory"})
    assert searcher.director.items[0].status == "failed"
    assert "out of GPU memory, again with 0.5 of a GPU" in said()
