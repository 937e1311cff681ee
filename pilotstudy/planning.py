"""What a study would cost, from a few timed steps of each of its arms."""

import os
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pilotstudy import metrics
from pilotstudy.data.prepared import load
from pilotstudy.director import counts
from pilotstudy.progress import Progress
from pilotstudy.spec import Study, trial
from pilotstudy.training import Trainer

STEPS = 12
START_SECONDS = 15.0  # Ray's own start, and that of its first actors


def plan(study: Study, data_dir: Path | None, concurrency: int | None, cpus: int) -> dict[str, Any]:
    data = load(study.data.name, data_dir, study.data.image_size)
    at_once = concurrency or max(1, (os.cpu_count() or 1) // cpus)
    number = counts(study)
    searched = study.search.arms if study.search and number["search"] else ()
    rows: list[dict[str, Any]] = []
    with Progress("timing", len(study.arms)) as progress:
        for arm in study.arms:
            seconds = time_trial(Trainer(trial(study, arm, study.seeds[0]), data, threads=cpus))
            phases = {
                "arms": len(study.seeds),
                "search": number["search"] // len(searched) if arm in searched else 0,
                "confirm": number["confirm"] // len(searched) if arm in searched else 0,
            }
            rows.append({"arm": arm, "seconds_a_trial": seconds, **phases, "seconds": seconds * sum(phases.values())})
            progress.advance()
    total = START_SECONDS + sum(row["seconds"] for row in rows) / at_once
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "arms": rows,
        "trials": sum(number.values()),
        "concurrency": at_once,
        "seconds": total,
        "ends": time.strftime("%Y-%m-%d %H:%M", time.localtime(time.time() + total)),
        "memory_gib": peak * at_once,
    }


def time_trial(trainer: Trainer) -> float:
    """Seconds that a whole trial would take: training, the validation of every epoch, the final evaluation."""
    trainer.regulariser.train()
    steps = []
    for number, (x, y) in enumerate(trainer.batches()):
        steps.append(timed(partial(trainer.step, x, y)))
        if number == STEPS:
            break
    steps = steps[1:] or steps  # the first is slower
    validation = timed(lambda: trainer.validation_logits("point"))
    epochs, size = trainer.trial.training.epochs, trainer.trial.training.batch_size
    training = epochs * (sum(steps) / len(steps) * len(trainer.train_rows) / size + validation)
    return training + time_evaluation(trainer)


def time_evaluation(trainer: Trainer) -> float:
    """The last and the best epoch, each mode and both splits, with and without temperature scaling."""
    logits = trainer.test_logits("point")
    metrics_seconds = timed(lambda: metrics.evaluate(logits, trainer.data.test_labels))
    share = 1 + len(trainer.validation_rows) / len(logits)
    predicting = sum(timed(partial(trainer.test_logits, mode)) for mode in trainer.modes)
    return 2 * share * (predicting + 2 * metrics_seconds * len(trainer.modes))


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
