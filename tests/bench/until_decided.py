"""Adding seeds until it is decided: error rate, power and saving, by simulation with invented seeds and images.

    python tests/bench/until_decided.py [--rounds 1000]

A reference and some arms are trained with up to 20 seeds; each claim says that an arm differs from the reference by
more than nothing. A seed's figure is the arm's, plus what the seed does, plus what the images do. About 8 minutes on
one core.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from pilotstudy.evidence.looking import may_be_decided
from pilotstudy.metrics import intervals
from pilotstudy.metrics.intervals import Estimate
from pilotstudy.metrics.scores import Array
from pilotstudy.metrics.spending import shares
from pilotstudy.report.plain import table
from pilotstudy.study.looks import SEEDS

IMAGES, RESAMPLES = 100, 200
DRAWS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "normal": lambda random, size: random.standard_normal(size),
    "exponential": lambda random, size: random.exponential(size=size) - 1,
    "t3": lambda random, size: random.standard_t(3, size) / np.sqrt(3),
}


def gaussian_levels(seeds: Sequence[int], rate: float, points: int = 801) -> Array:
    """Two-sided levels of looks that spend the same and would be exact for Gaussian statistics: the usual recursion."""
    fractions = np.array(seeds) / seeds[-1]
    levels, before = [], 0.0
    at, weight = np.zeros(1), np.ones(1)  # where the sum may stand after the looks so far, and how likely
    for fraction, share in zip(fractions, shares(seeds), strict=True):
        step = np.sqrt(fraction - before)

        def crossing(bound: float, at: Array = at, weight: Array = weight, step: float = step) -> float:
            return float(weight @ (ndtr((-bound - at) / step) + ndtr((at - bound) / step)))

        bound = brentq(lambda bound, share=share, crossing=crossing: crossing(bound) - rate * share, 0, 9)
        levels.append(2 * ndtr(-bound / np.sqrt(fraction)))
        within = np.linspace(-bound, bound, points)
        density = np.exp(-(((within[:, None] - at) / step) ** 2) / 2) @ weight / (step * np.sqrt(2 * np.pi))
        spacing = np.full(points, within[1] - within[0])
        spacing[[0, -1]] /= 2
        at, weight, before = within, density * spacing, fraction
    return np.array(levels)


@dataclass(frozen=True)
class World:
    """What is simulated. `effects`: of the arms, in deviations of a seed's difference. `images`: their variance in a
    figure, in parts of a seed's; the same amount again differs from network to network.
    """

    seeds: str
    images: float
    effects: tuple[float, ...]

    def draw(self, random: np.random.Generator) -> Array:
        """Differences from the reference on each image [claim, seed, image]."""
        most, arms = SEEDS[-1], len(self.effects) + 1
        of_seeds = DRAWS[self.seeds](random, (arms, most, 1))
        scale = np.sqrt(self.images * IMAGES)
        of_images = scale * random.standard_normal((arms, 1, IMAGES))
        of_both = scale * random.standard_normal((arms, most, IMAGES))
        figures = of_seeds + of_images + of_both
        return figures[1:] - figures[0] + np.sqrt(2) * np.array(self.effects)[:, None, None]


Rule = Callable[[Array, Array], tuple[list[int], list[int]]]  # differences, weights → sign and seeds of each claim


def estimated(differences: Array, weights: Array, seeds: int, looks: float) -> Estimate:
    by_image = differences[:seeds].T
    estimate = intervals.estimate([(by_image.mean(0), weights @ by_image)])
    return replace(estimate, looks=looks)


def fixed(differences: Array, weights: Array) -> tuple[list[int], list[int]]:
    """All seeds of the last look, for every arm."""
    estimates = [estimated(of_claim, weights, SEEDS[-1], 1) for of_claim in differences]
    adjusted = intervals.holm([estimate.p for estimate in estimates])
    return [e.direction * (p < 0.05) for e, p in zip(estimates, adjusted, strict=True)], [SEEDS[-1]] * len(estimates)


def looking(times: Sequence[float], *, gives_up: bool) -> Rule:
    """Look after look until all is decided, p-values multiplied by what is given for each.

    `gives_up`: a claim that is not expected to be decided with the last look's seeds gets no more.
    """

    def rule(differences: Array, weights: Array) -> tuple[list[int], list[int]]:
        signs, seeds = [0] * len(differences), [SEEDS[0]] * len(differences)
        trained = set(range(len(differences)))
        for number, looks in zip(SEEDS, times, strict=True):
            undecided = [place for place, sign in enumerate(signs) if not sign]
            estimates = {place: estimated(differences[place], weights, number, looks) for place in trained}
            p_values = [estimates[place].p if place in estimates else 1.0 for place in undecided]
            for place, p in zip(undecided, intervals.holm(p_values), strict=True):
                if place in trained:
                    seeds[place] = number
                    signs[place] = estimates[place].direction * (p < 0.05)
            trained = {place for place in trained if not signs[place]}
            if gives_up:
                trained = {place for place in trained if may_be_decided(estimates[place], SEEDS[-1])}
        return signs, seeds

    return rule


SPENT = [1 / share for share in shares(SEEDS)]
RULES: dict[str, Rule] = {
    "fixed": fixed,
    "peeking": looking([1] * len(SEEDS), gives_up=False),
    "gaussian": looking([float(time) for time in 0.05 / gaussian_levels(SEEDS, 0.05)], gives_up=False),
    "all looks": looking(SPENT, gives_up=False),
    "until decided": looking(SPENT, gives_up=True),
}


def simulate(world: World, rounds: int) -> dict[str, object]:
    """False findings (any, in a round), power (of claims with an effect) and trials in parts of the fixed number."""
    random = np.random.default_rng(0)
    true = np.array(world.effects) > 0
    wrong, right, trials = ({name: 0.0 for name in RULES} for _ in range(3))
    for _ in range(rounds):
        differences = world.draw(random)
        weights = random.multinomial(IMAGES, np.full(IMAGES, 1 / IMAGES), RESAMPLES) / IMAGES
        for name, rule in RULES.items():
            signs, seeds = map(np.array, rule(differences, weights))
            wrong[name] += bool((signs[~true] != 0).any() or (signs[true] < 0).any()) / rounds
            right[name] += (signs[true] > 0).mean() / rounds if true.any() else 0.0
            trials[name] += (seeds.sum() + seeds.max()) / ((len(seeds) + 1) * SEEDS[-1]) / rounds
    row: dict[str, object] = {
        "seeds": world.seeds,
        "images": f"{world.images:g}",
        "effects": ", ".join(f"{effect:g}" for effect in world.effects),
    }
    row |= {f"wrong {name}": f"{100 * wrong[name]:.1f}" for name in RULES}
    if true.any():
        row |= {f"power {name}": f"{100 * right[name]:.0f}" for name in ("fixed", "all looks", "until decided")}
    else:
        row |= dict.fromkeys((f"power {name}" for name in ("fixed", "all looks", "until decided")), "")
    return row | {f"trials {name}": f"{100 * trials[name]:.0f}" for name in ("all looks", "until decided")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1000)
    options = parser.parse_args()
    worlds = [
        World(seeds, images, effects)
        for effects in ((0.0,), (0.0,) * 4, (1.0,), (2.0,), (4.0,), (2.0, 2.0, 0.0, 0.0))
        for seeds in DRAWS
        for images in (0.0, 0.05)
    ]
    print(table([simulate(world, options.rounds) for world in worlds]))
    print(
        "all in %; trials in parts of 20 seeds for every arm; images 0.05: variance of the images, in seeds' variances"
    )


if __name__ == "__main__":
    main()
