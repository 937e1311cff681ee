"""How long Optuna takes to propose Pilot's next settings, by how many trials the arm has had.

python tests/bench/suggestions.py
"""

import time

from pilotstudy.arms import catalogue
from pilotstudy.schedule.search import ArmSearch
from pilotstudy.study.spec import Search


def main() -> None:
    arm = catalogue.arm_named("pilot-a-aug")
    options = Search(arms=("pilot-a-aug",), trials=1000)
    search = ArmSearch(arm.name, arm.space, arm.settings().model_dump(), options)
    spent = []
    for number in range(1000):
        started = time.perf_counter()
        settings = search.propose()
        spent.append(time.perf_counter() - started)
        search.learn(
            number, {"nll": (settings["mask_rate"] - 0.7) ** 2 + settings["decoder_variance"], "accuracy": 0.5}
        )
    for start in 0, 50, 100, 200, 400, 500, 900:
        mean = sum(spent[start : start + 50]) / 50
        print(f"proposals {start} to {start + 49}: {1000 * mean:.1f} ms each, {mean / 10:.2%} of a 10-second trial")


if __name__ == "__main__":
    main()
