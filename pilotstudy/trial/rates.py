"""The learning rate over training: what it is multiplied by, in closed form, so that nothing has to be remembered."""

import math

from pilotstudy.study.recipe import Schedule

LOW, END = 1 / 25, 1 / 25 / 1e4  # of one cycle: where it starts and ends


def factor_at(schedule: Schedule, done: float, epochs: int) -> float:
    """What the learning rate is multiplied by when `done` epochs, and parts of one, of so many are over."""
    if done < schedule.warmup:
        return done / schedule.warmup
    share = min(1.0, (done - schedule.warmup) / (epochs - schedule.warmup))
    match schedule.name:
        case "cosine":
            return schedule.final + (1 - schedule.final) * cosine(share)
        case "linear":
            return schedule.final + (1 - schedule.final) * (1 - share)
        case "step":
            return float(schedule.factor ** sum(done / epochs >= milestone for milestone in schedule.milestones))
        case "one-cycle" if share < schedule.peak:
            return 1 + (LOW - 1) * cosine(share / schedule.peak)
        case "one-cycle":
            return END + (1 - END) * cosine((share - schedule.peak) / (1 - schedule.peak))
    return 1.0


def cosine(share: float) -> float:
    """From 1 down to 0."""
    return (1 + math.cos(math.pi * share)) / 2
