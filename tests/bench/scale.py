"""The driver at scale, without Ray: made-up trials, and an object store that takes 50 ms for each request.

    python tests/bench/scale.py [--trials 20000] [--concurrent 2000] [--latency 0.05] [--search 0.2] [--json]

It does all that Tune asks of it when trials start, report and end. Half way its process is lost, and another takes the
run up. Wanted: under 5 ms of own work for a trial's start or end, under a minute to take up 10,000 finished trials, and
reports that grow rarer as more trials run at once.
"""

import argparse
import heapq
import io
import json
import random
import resource
import time
from typing import Any

from pilotstudy.cluster.capacity import Placement
from pilotstudy.cluster.messages import Report, slice_seconds
from pilotstudy.cluster.searcher import StudySearcher
from pilotstudy.runs.folder import Run
from pilotstudy.runs.records import Bin, Evaluation, Status, TrialResult
from pilotstudy.runs.schemas import METRICS
from pilotstudy.schedule.director import Director
from pilotstudy.schedule.screen import Screen
from pilotstudy.schedule.search import ArmSearch
from pilotstudy.storage import place
from pilotstudy.study import reading, spec
from pilotstudy.study.resources import Resources
from tests.support.slow_store import SlowStore

ARMS = ("vanilla", "dropout", "l2", "data-aug", "pilot-a-aug", "pilot-a-drop")
SEARCHED = ("pilot-a-aug", "dropout")
CONFIRM = 5
BEHIND = 50  # trials that ended between the last time that the table was written and the loss of the driver


def study_of(trials: int, share: float) -> spec.Study:
    """This share of the trials is a search, the rest are seeds of the arms."""
    search = int(trials * share)
    seeds = (trials - search - CONFIRM * len(SEARCHED)) // len(ARMS)
    content = {
        "title": "scale",
        "seeds": list(range(seeds)),
        "data": {"name": "cifar10", "validation": 5000},
        "network": {"name": "cnn"},
        "training": {"epochs": 30},
        "arms": {arm: {} for arm in ARMS},
        "search": {"arms": list(SEARCHED), "trials": search, "confirm_seeds": CONFIRM},
    }
    return reading.validate_study(content, "scale")


def result_of(trial: spec.Trial, nll: float) -> str:
    """A result as an actor writes it, of the usual size."""
    figures = {name: nll + k / 100 for k, name in enumerate(METRICS)} | {"nll": nll, "accuracy": 0.5}
    evaluations = tuple(
        Evaluation(at, "point", split, scaled, 1.0, 5000, figures)
        for at in ("last", "best")
        for split in ("validation", "test")
        for scaled in (False, True)
    )
    return TrialResult(
        trial=trial,
        fingerprint="f" * 64,
        status=Status.FINISHED,
        epochs=30,
        best_epoch=20,
        training_seconds=600.0,
        evaluations=evaluations,
        validation_reliability=tuple(Bin(300, (k + 0.5) / 15, k / 15) for k in range(15)),
    ).to_json(indent=None)


class Clock:
    """Time spent by kind of event: on the wall, and of that the processor's."""

    def __init__(self) -> None:
        self.wall: dict[str, list[float]] = {}
        self.processor: dict[str, float] = {}

    def __call__(self, kind: str, work: Any, *words: Any, **named: Any) -> Any:
        wall, processor = time.perf_counter(), time.thread_time()
        found = work(*words, **named)
        self.wall.setdefault(kind, []).append(time.perf_counter() - wall)
        self.processor[kind] = self.processor.get(kind, 0.0) + time.thread_time() - processor
        return found

    def summary(self, kind: str) -> dict[str, float]:
        times = sorted(self.wall.get(kind, [0.0]))
        return {
            "events": len(times),
            "mean_ms": 1000 * sum(times) / len(times),
            "p99_ms": 1000 * times[int(0.99 * (len(times) - 1))],
            "max_ms": 1000 * times[-1],
            "processor_ms": 1000 * self.processor.get(kind, 0.0) / len(times),
        }


class Driver:
    """What Tune does with the searcher, without Tune: `concurrent` trials at a time, each for a made-up while."""

    def __init__(self, study: spec.Study, run: Run, concurrent: int, clock: Clock):
        self.under_way: list[tuple[float, str]] = []  # when each will end
        self.now, self.asked = 0.0, 0
        self.clock, self.concurrent = clock, concurrent
        self.random = random.Random(0)
        self.director = Director(study, run, "f" * 64)
        self.all_done = self.director.all_done()  # settles what an earlier start has ended
        screen = Screen(self.director, io.StringIO())
        self.searcher = StudySearcher(self.director, Placement(Resources(), concurrency=concurrent), screen)

    def run(self, most: int) -> int:
        """Until `most` more trials have ended, or all; how many did."""
        for ended in range(most):
            while len(self.under_way) < self.concurrent:
                trial = f"{self.asked:06}"
                if not isinstance(self.clock("start", self.searcher.suggest, trial), dict):  # wait, or all are done
                    break
                self.asked += 1
                self.searcher.running.add(trial)  # it has an actor at once
                heapq.heappush(self.under_way, (self.now + self.random.uniform(0.5, 1.5), trial))
            if not self.under_way:
                return ended
            self.now, trial = heapq.heappop(self.under_way)
            self.clock("report", self.searcher.on_trial_result, trial, {"epoch": 20, "images_per_second": 900.0})
            item = self.searcher.items[trial]
            text = result_of(item.trial, self.random.random())
            # Its actor has written it, on another node.
            SlowStore.objects[f"{self.director.run.files.results.path}/{item.key}.json"] = text.encode()
            report = Report(record={"epoch": 30}, ending=Status.FINISHED, result=text).to_tune()
            self.clock("end", self.searcher.on_trial_complete, trial, report)
        return most


def timed(work: Any, *words: Any) -> tuple[Any, float]:
    since = time.perf_counter()
    found = work(*words)
    return found, time.perf_counter() - since


def memory() -> float:
    """MiB, at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(trials: int, concurrent: int, latency: float, share: float) -> dict[str, Any]:
    study, run, clock = study_of(trials, share), Run(place("slow://runs/scale")), Clock()
    SlowStore.reset(latency)
    ask = ArmSearch.propose
    ArmSearch.propose = lambda self: clock("ask", ask, self)  # type: ignore[method-assign]
    before = memory()
    found: dict[str, Any] = {"trials": trials, "concurrent": concurrent, "latency_ms": 1000 * latency}
    first, found["fresh_start_seconds"] = timed(Driver, study, run, concurrent, clock)
    SlowStore.forget()
    half, seconds = timed(first.run, trials // 2 - BEHIND)
    found["waited_for"] = dict(SlowStore.waited)
    first.director.save()
    half += first.run(BEHIND)
    del first
    SlowStore.forget()
    second, found["resume_seconds"] = timed(Driver, study, run, concurrent, clock)
    found |= {"resumed": half, "resume_requests": dict(SlowStore.requests)}
    SlowStore.forget()
    rest, more = timed(second.run, trials)
    found["waited_for"] = dict(SlowStore.waited + type(SlowStore.waited)(found["waited_for"]))
    found |= {"ended": half + rest, "events_per_second": 2 * (half + rest) / (seconds + more)}
    _, found["save_seconds"] = timed(second.director.save)
    stored = sum(map(len, SlowStore.objects.values())) / 2**20
    found |= {"memory_mib": memory() - stored, "memory_before_mib": before}
    if second.director.done != second.director.total:
        raise SystemExit(f"{second.director.done} of {second.director.total} trials are done")
    del second
    SlowStore.objects.pop(f"{run.files.trials.path}")
    SlowStore.forget()
    third, found["resume_all_without_table_seconds"] = timed(Driver, study, run, concurrent, clock)
    found |= {"all_done": third.all_done, "requests_without_table": dict(SlowStore.requests)}
    for kind in "start", "ask", "report", "end":
        found[kind] = clock.summary(kind)
    starts, ends, asks = (sum(clock.wall.get(kind, [])) for kind in ("start", "end", "ask"))
    events = found["start"]["events"] + found["end"]["events"]
    found["ms_a_trial_event"] = 1000 * (starts + ends) / events
    found["ms_a_trial_event_without_optuna"] = 1000 * (starts + ends - asks) / events
    found["reports_a_second"] = {n: n / slice_seconds(n) for n in (1, 10, 100, 1000, 2000, 10000)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--concurrent", type=int, default=2_000)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds for each request")
    parser.add_argument("--search", type=float, default=0.2, help="the share of all trials that are a search")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.trials, options.concurrent, options.latency, options.search)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    print(f"{found['ended']} trials, {options.concurrent} at a time, {1000 * options.latency:g} ms a request")
    print(
        f"own work a trial event (start or end): {found['ms_a_trial_event']:.2f} ms, "
        f"{found['ms_a_trial_event_without_optuna']:.2f} ms without Optuna; {found['events_per_second']:.0f} events/s"
    )
    for kind, name in ("start", "start"), ("ask", "  of it Optuna's ask"), ("report", "report"), ("end", "end"):
        some = found[kind]
        print(
            f"  {name}: {some['events']} times, mean {some['mean_ms']:.2f} ms (processor {some['processor_ms']:.2f}), "
            f"99 % under {some['p99_ms']:.2f}, longest {some['max_ms']:.0f}"
        )
    print(f"requests that an event waited for: {found['waited_for'] or 'none'}")
    print(
        f"start with nothing {found['fresh_start_seconds']:.1f} s, with {found['resumed']} trials ended "
        f"{found['resume_seconds']:.1f} s ({found['resume_requests']}), with all but no table "
        f"{found['resume_all_without_table_seconds']:.1f} s ({found['requests_without_table']})"
    )
    print(f"last save {found['save_seconds']:.1f} s; memory {found['memory_before_mib']:.0f} MiB before, ", end="")
    print(f"{found['memory_mib']:.0f} at most, without what the store holds")
    for concurrent, rate in found["reports_a_second"].items():
        print(f"  {concurrent} at a time: {rate:.0f} reports a second")


if __name__ == "__main__":
    main()
