"""Error rate, coverage and power of intervals, marks and looks, by simulation: the rules of 0.1.0 and the present ones.

    python tests/bench/error_rates.py [--rounds 2000]

Seeds are normal, skewed (exponential) or heavy-tailed (Student's t with 3 degrees of freedom), all of variance 1; test
images add 0.1 to the variance of a figure, and 0.2 that differs by network. Errors are two-sided at a nominal 5 %.
"""

import argparse
from collections.abc import Callable, Iterator

import numpy as np
from scipy import special

from pilotstudy.evidence.figures import Figures
from pilotstudy.metrics import resampling
from pilotstudy.metrics.computation import Points
from pilotstudy.metrics.intervals import Estimate, contrast
from pilotstudy.metrics.registry import METRICS
from pilotstudy.metrics.resampling import Sample
from pilotstudy.study.statements import Row

SEEDS = (3, 5, 10)
OF_IMAGES, OF_BOTH = 0.1, 0.2
RESAMPLES = 300
KINDS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda random, n: random.normal(size=n),
    "skewed": lambda random, n: random.exponential(size=n) - 1,
    "heavy": lambda random, n: random.standard_t(3, size=n) / np.sqrt(3),
}


def sample(random: np.random.Generator, kind: str, seeds: int, mean: float = 0.0, deviation: float = 1.0) -> Sample:
    """A row: its seeds, the test images that it met, and resamples that spread as those images would."""
    values = mean + deviation * KINDS[kind](random, seeds)
    values += np.sqrt(OF_IMAGES) * random.normal() + np.sqrt(OF_BOTH) * random.normal(size=seeds)
    shared = np.sqrt(OF_IMAGES) * random.normal(size=(RESAMPLES, 1))
    own = np.sqrt(OF_BOTH) * random.normal(size=(RESAMPLES, seeds))
    return Sample(tuple(range(seeds)), values, values + shared + own)


def standard_error(seeds: int, *deviations: float) -> float:
    """Of the difference of two rows."""
    return float(np.sqrt(sum((d**2 + OF_BOTH) / seeds + OF_IMAGES for d in deviations)))


def difference(ours: Sample, theirs: Sample, *, paired: bool = True) -> Estimate:
    found = contrast([(1, ours), (-1, theirs)], ["s", "s" if paired else "others"])
    assert found
    return found


def old_half_width(found: Estimate, level: float = 0.05) -> float:
    """Of 0.1.0: a t of its own for each group, and no floor."""
    square = special.ndtri(level / 2) ** 2 * found.points_variance
    square += sum(special.stdtrit(df, level / 2) ** 2 * variance for variance, df in found.of_seeds)
    return float(np.sqrt(square))


def old_sign(found: Estimate, level: float = 0.05) -> int:
    return found.direction * (abs(found.value) > old_half_width(found, level))


def new_half_width(found: Estimate) -> float:
    return found.high - found.value


def share(hits: list[bool]) -> str:
    return f"{100 * np.mean(hits):5.1f}" if hits else "    –"


def line(what: str, kind: str, seeds: int, old: list[bool], new: list[bool]) -> tuple[str, ...]:
    return what, kind, str(seeds), share(old), share(new)


Lines = Iterator[tuple[str, ...]]


def paired(random: np.random.Generator, rounds: int, kind: str, seeds: int) -> Lines:
    apart = 4 * standard_error(seeds, 1, 1)
    null = [difference(*(sample(random, kind, seeds) for _ in range(2))) for _ in range(rounds)]
    yield line("difference: error", kind, seeds, [old_sign(d) != 0 for d in null], [d.sign != 0 for d in null])
    narrow = [d for d in null if old_half_width(d) < 1.96 * np.sqrt(d.networks_variance)]
    narrow_old, narrow_new = [old_sign(d) != 0 for d in narrow], [d.sign != 0 for d in narrow]
    yield line(f"  narrower than the images' ({len(narrow)}): error", kind, seeds, narrow_old, narrow_new)
    far = [difference(sample(random, kind, seeds, apart), sample(random, kind, seeds)) for _ in range(rounds)]
    yield line("difference of 4 SE: power", kind, seeds, [old_sign(d) > 0 for d in far], [d.sign > 0 for d in far])
    own = [contrast([(1, sample(random, kind, seeds))], ["s"]) for _ in range(rounds)]
    covered = ([abs(f.value) <= half(f) for f in own if f] for half in (old_half_width, new_half_width))
    yield line("figure: coverage", kind, seeds, *covered)


def unpaired(random: np.random.Generator, rounds: int, kind: str, seeds: int) -> Lines:
    for ratio in 1.0, 4.0:
        apart = 4 * standard_error(seeds, 1, ratio)
        for what, mean in ("error", 0.0), ("power at 4 SE", apart):
            found = [
                difference(
                    sample(random, kind, seeds, mean), sample(random, kind, seeds, deviation=ratio), paired=False
                )
                for _ in range(rounds)
            ]
            old, new = [old_sign(d) != 0 for d in found], [d.sign != 0 for d in found]
            yield line(f"tuned − fixed, sd × {ratio:g}: {what}", kind, seeds, old, new)


def best(random: np.random.Generator, rounds: int, kind: str, seeds: int, rows: int = 8) -> Lines:
    """How often a row is marked as really the best: wrongly where several are alike, rightly where one is ahead."""
    names, far = [Row(f"row {number}") for number in range(rows)], 10 * standard_error(seeds, 1, 1)
    for what, ahead in (
        ("all alike: wrongly", 0),
        ("two alike, 10 SE ahead: wrongly", 2),
        ("one 10 SE ahead: rightly", 1),
    ):
        old, new = [], []
        for _ in range(rounds):
            figures = Figures.__new__(Figures)
            samples = {row: sample(random, kind, seeds, far * (row in names[:ahead])) for row in names}
            figures.samples, figures.metrics = {"accuracy": samples}, ("accuracy",)
            figures.diverged, figures.looks = {}, 1
            leader = max(names, key=lambda row: samples[row].values.mean())
            others = [difference(samples[leader], samples[row]) for row in names if row != leader]
            counts = leader == names[0] or ahead != 1
            old.append(counts and all(old_sign(d, 0.05 / len(others)) > 0 for d in others))
            new.append(counts and figures.best("accuracy", names).is_real)
        yield line(f"best of {rows}: {what}", kind, seeds, old, new)


def looks(random: np.random.Generator, rounds: int, kind: str, at: tuple[int, ...] = SEEDS) -> Lines:
    """Seeds are added until a difference shows, where there is none."""
    for most in range(2, len(at) + 1):
        old, new = [], []
        for _ in range(rounds):
            rows = [sample(random, kind, at[-1]) for _ in range(2)]
            parts = [[Sample(r.seeds[:n], r.values[:n], r.resampled[:, :n]) for r in rows] for n in at[:most]]
            found = [difference(*part) for part in parts]
            old.append(any(old_sign(d) != 0 for d in found))
            new.append(any(d.p * times < 0.05 for times, d in enumerate(found, 1)))
        yield "looks at " + ", ".join(map(str, at[:most])) + ": error", kind, str(at[most - 1]), share(old), share(new)


def calibrated(random: np.random.Generator, seeds: int, sure: float, points: int = 2000) -> Sample:
    """The ECE of networks that are calibrated perfectly, on test points of their own."""
    confidences = random.beta(sure, 1, size=(seeds, points)).clip(0.11, 0.9999)
    labels = np.zeros(points, int)
    networks, floors = [], []
    for confidence in confidences:
        p = np.repeat((1 - confidence[:, None]) / 9, 10, 1)
        right = random.random(points) < confidence
        p[np.arange(points), np.where(right, 0, 1)] = confidence
        networks.append(np.log(p))
        floors.append(METRICS["ece_noise_floor"].value(Points(np.log(p), labels, draws=100)))
    values, resampled = resampling.resample(networks, labels, ["ece"], RESAMPLES, int(random.integers(1 << 30)))
    return Sample(tuple(range(seeds)), values["ece"], resampled["ece"], np.array(floors))


def floors(random: np.random.Generator, rounds: int, seeds: int) -> Lines:
    for name, pair in ("like", (3.0, 3.0)), ("unlike", (3.0, 6.0)):
        found = [difference(*(calibrated(random, seeds, sure) for sure in pair)) for _ in range(rounds)]
        old, new = [old_sign(d) != 0 for d in found], [d.sign != 0 for d in found]
        yield line(f"ECE of calibrated networks, {name} floors: error", "", seeds, old, new)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2000)
    rounds = parser.parse_args().rounds
    random = np.random.default_rng(0)
    print(f"{'what, in %':58}  {'seeds are':9}  {'how many':>8}  {'0.1.0':>5}  {'now':>5}")
    for kind in KINDS:
        for seeds in SEEDS:
            for simulate in paired, unpaired, best:
                for texts in simulate(random, rounds, kind, seeds):
                    show(texts)
        for texts in looks(random, rounds, kind):
            show(texts)
    for seeds in SEEDS:
        for texts in floors(random, max(1, rounds // 10), seeds):
            show(texts)


def show(texts: tuple[str, ...]) -> None:
    what, kind, seeds, old, new = texts
    print(f"{what:58}  {kind:9}  {seeds:>8}  {old:>5}  {new:>5}", flush=True)


if __name__ == "__main__":
    main()
