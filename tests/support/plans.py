"""A small study, and its plan run in this process: no Ray."""

from pilotstudy.schedule.director import Director
from pilotstudy.study import reading, spec
from pilotstudy.trial.lifecycle import LiveTrial

CONTENT = {
    "title": "squares",
    "seeds": [0, 1],
    "data": {"name": "squares", "validation": 60},
    "network": {"name": "mlp-512"},
    "training": {"epochs": 2, "batch_size": 32},
    "arms": {"vanilla": {}, "pilot-a-aug": {"dgm_width": 16, "z": 4}},
    "search": {"arms": ["pilot-a-aug", "dropout"], "trials": 9, "confirm_seeds": 2},
}


def make_study(**search) -> spec.Study:
    return reading.validate_study(CONTENT | {"search": CONTENT["search"] | search}, "test")


def conduct(plan: Director, data, most: int = 10_000) -> int:
    """Runs at most `most` trials one at a time; how many ran."""
    ran = 0
    while ran < most and not isinstance(item := plan.next(), str):
        under_way = LiveTrial(item.trial, data, plan.run.files.trial(item.key), threads=1, test=item.predicts_test)
        while not under_way.ended:
            under_way.advance()
        plan.conclude(item.key, under_way.finish())
        ran += 1
    return ran


def outcome(plan: Director) -> list:
    return [
        (i.phase, i.arm, i.number, i.trial.seed, i.trial.settings, i.status, plan.run.result(i.key).evaluations)
        for i in plan.items
    ]
