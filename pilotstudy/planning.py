"""What a study would cost, from a few timed steps of each of its arms."""

import os
import resource
import time
from pathlib import Path
from typing import Any

from pilotstudy.data.prepared import load
from pilotstudy.director import counts
from pilotstudy.progress import Progress
from pilotstudy.spec import Study, trial
from pilotstudy.training import Trainer

STEPS = 12


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
    total = sum(row["seconds"] for row in rows) / at_once
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
    """Seconds that a whole trial would take: training steps, and the validation of every epoch."""
    trainer.regulariser.train()
    times = []
    for step, (x, y) in enumerate(trainer.batches()):
        started = time.perf_counter()
        trainer.step(x, y)
        times.append(time.perf_counter() - started)
        if step == STEPS:
            break
    times = times[1:] or times  # the first is slower
    started = time.perf_counter()
    trainer.validation_logits("point")
    validation = time.perf_counter() - started
    epochs, size = trainer.trial.training.epochs, trainer.trial.training.batch_size
    return epochs * (sum(times) / len(times) * len(trainer.train_rows) / size + validation)
