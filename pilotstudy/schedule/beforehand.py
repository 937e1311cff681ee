"""What is looked at before a study's first trial: whether the run is the same study's, and whether its models work."""

import math
from collections.abc import Iterator, Mapping

import numpy as np
import torch

from pilotstudy.arms.arm import Inputs
from pilotstudy.arms.catalogue import arm_named
from pilotstudy.console import message
from pilotstudy.data.dataset import DataSet
from pilotstudy.data.splits import split
from pilotstudy.errors import InputError, PilotstudyError
from pilotstudy.method.regulariser import Regulariser
from pilotstudy.metrics import scores
from pilotstudy.metrics.computation import Points
from pilotstudy.metrics.registry import METRICS
from pilotstudy.networks.layers import check_logits
from pilotstudy.runs.folder import Run
from pilotstudy.storage import names
from pilotstudy.study.budget import fixed_trial
from pilotstudy.study.looks import Looks, exceed
from pilotstudy.study.spec import Study, Trial
from pilotstudy.trial.images import TrialImages
from pilotstudy.trial.model import build_model
from pilotstudy.trial.optimising import Optimising

PAPERS = ("mlp-1024", "mlp-512", "cnn")  # networks of which is known that all of our arms work with them


def check_trained_here(run: Run, study: Study) -> None:
    """Refuses a run whose predictions were made elsewhere."""
    if study.imported:
        raise InputError(
            f"run {run.name!r} was imported: there is nothing to train; `pilotstudy import` with its name adds to it"
        )
    if run.files.study.exists() and run.study().imported:
        raise InputError(f"run {run.name!r} was imported, and nothing is trained in it: give another name with --name")


def check_same_recipe(run: Run, study: Study) -> None:
    """Refuses to continue a run with what would make its trials others: it would lose what it has, without a word.

    More seeds, arms, trials and claims go into the same run.
    """
    if not run.files.study.exists():
        return
    try:
        before = run.study()
    except PilotstudyError:
        return
    texts = {used.name: used.text for used in before.uses}
    if edited := [used.name for used in study.uses if texts.get(used.name, used.text) != used.text]:
        message(f"{', '.join(edited)} is another than before: trials that need what changed are trained again")
    if dropped := [arm for arm in before.arms if arm not in study.arms]:
        message(
            f"run {run.name!r} has earlier rows that are not part of the study as it is now: {', '.join(dropped)}; "
            "nothing is deleted"
        )
    changes = list(_changes(before, study))
    if changes:
        key, old, new = changes[0]
        more = f", and {len(changes) - 1} more" if len(changes) > 1 else ""
        raise InputError(
            f"run {run.name!r} has {key} = {old!r}, and the study has {new!r}{more}: give it another name with --name, "
            f"or remove {run.files.folder}"
        )


def _changes(before: Study, now: Study) -> Iterator[tuple[str, object, object]]:
    for section in "data", "network", "training":
        yield from _differences(getattr(before, section).model_dump(), getattr(now, section).model_dump(), section)
    for arm in before.arms:
        if arm in now.arms:
            yield from _differences(before.arms[arm], now.arms[arm], f"arms.{arm}")
    if before.search and now.search and before.search.trials and now.search.trials:
        for key in "objectives", "space", "seed", "early_stopping", "budget":
            old, new = getattr(before.search, key), getattr(now.search, key)
            if old != new:
                yield f"search.{key}", old, new


def _differences(
    before: Mapping[str, object], now: Mapping[str, object], where: str
) -> Iterator[tuple[str, object, object]]:
    for key in {**before, **now}:
        old, new = before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _differences(old, new, f"{where}.{key}")
        elif old != new:
            yield f"{where}.{key}", old, new


def looks_of(run: Run, study: Study, looks: Looks | None) -> tuple[Study, Looks | None]:
    """The looks that a start goes on with, and the study with their seeds. Looks are planned before the first result.

    `looks`: those that are asked for; none where seeds are not added until the claims are decided.
    """
    before = run.frozen().looks if run.files.study.exists() else None
    if before is None:
        if looks and names(run.files.results):
            raise InputError(
                f"run {run.name!r} has results, and looks are planned before the first: give another name with --name"
            )
        return study, looks
    if looks is None:
        if len(study.seeds) <= before.most:
            raise InputError(
                f"run {run.name!r} has planned looks: go on with --until-decided, or, beyond the plan, with --seeds "
                f"above {before.most}"
            )
        return exceed(study, before)
    if looks == before:
        return study, before
    if looks.plan != before.plan or before.exceeded:
        planned = "has more seeds than" if before.exceeded else "has"
        raise InputError(
            f"run {run.name!r} {planned} its planned looks ({before.numbers} seeds): give another name with --name"
        )
    return study, looks.taken_up(before)


def check_sizes(study: Study, data: DataSet) -> None:
    """Refuses what the data cannot be split into, as each trial would."""
    images, validation = len(data.train_labels), study.data.validation
    if validation >= images:
        raise InputError(
            f"data.validation = {validation}: there are {images} training images, and some are to train: choose "
            f"1 to {images - 1}, such as {max(1, images // 10)}"
        )
    split(data.train_labels, validation, study.data.train_size)


def check_models(study: Study, data: DataSet) -> None:
    """Builds each arm once, where network, arm or average are not the paper's.

    What does not fit is told before hours are spent. What an arm has to say of itself, such as the size of its DGM, is
    said here, once.
    """
    check_metrics(len(data.classes))
    check_sizes(study, data)
    own = {name for name in study.arms if not _is_ours(study.method(name))}
    recipe = study.training
    usual = not (study.network.options or study.network.layers or recipe.patience) and recipe.average.name == "none"
    arms = own if study.network.name in PAPERS and usual else set(study.arms)
    if not arms:
        return
    here = torch.device("cpu")
    described = TrialImages(study.data, data, here).described
    said: set[str] = set()
    with torch.random.fork_rng(devices=[]):
        for name in (name for name in study.arms if name in arms):
            trial = fixed_trial(study, name, study.seeds[0])
            built = _built(trial, data, described, here)
            try:
                logits = built.predict(described.example)
            except Exception as error:
                reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
                raise InputError(f"network {study.network.name!r} with {name} cannot predict: {reason}") from error
            if logits.shape != (1, len(data.classes)):
                raise InputError(
                    f"network {study.network.name!r} gives {list(logits.shape)} for one image, not "
                    f"[1, {len(data.classes)}]: it must have as many outputs as there are classes"
                )
            _check_step(built, trial, described.example, f"network {study.network.name!r} with {name}")
            for note in [*built.notes, *_ends_early(built, trial)]:
                if note not in said:
                    said.add(note)
                    message(f"{name}: {note}")


def _ends_early(built: Regulariser, trial: Trial) -> list[str]:
    """What is to be said of weights that are kept from the last part of a training, which may never come."""
    keeps = any(part.keeps_weights for part in built.modules() if isinstance(part, Regulariser))
    if not keeps or trial.training.patience is None:
        return []
    return [
        "its sampled predictions are of weights from the last part of the training; where training.patience ends it "
        "before, they are those of the last weights alone: leave patience out, or give it a lower 'start'"
    ]


def _built(trial: Trial, data: DataSet, described: Inputs, where: torch.device) -> Regulariser:
    """Settings may be allowed, and yet ask for more than a machine has."""
    try:
        return build_model(trial, data.shape, len(data.classes), described, where)
    except (RuntimeError, MemoryError, OverflowError) as error:
        reason = " ".join(str(error).split()).partition(". Buy ")[0][:300] or type(error).__name__
        raise InputError(f"network {trial.network.name!r} with {trial.arm} cannot be built: {reason}") from error


def _check_step(built: Regulariser, trial: Trial, example: torch.Tensor, what: str) -> None:
    """One step without its end: a network may give something else while it trains, or have nothing to train."""

    def check(module: torch.nn.Module, args: object, output: object) -> None:
        check_logits(output, len(output) if isinstance(output, torch.Tensor) else 0)

    hook = built.innermost.register_forward_hook(check)
    try:
        Optimising(built, trial.training, captured=False)
        if built.held_out:
            built.see_held_out(example.repeat(2, 1, 1, 1))
        loss = built.train().loss(example.repeat(2, 1, 1, 1), torch.zeros(2, dtype=torch.long)).total
        if not loss.requires_grad:
            raise ValueError("its loss depends on nothing that can be trained")
    except Exception as error:
        plain = type(error) in (ValueError, InputError)
        reason = " ".join((str(error) if plain else f"{type(error).__name__}: {error}").split())
        raise InputError(f"{what} cannot be trained: {reason[:300]}") from error
    finally:
        hook.remove()


def check_metrics(classes: int) -> None:
    """Tries metrics of a user's own: one that is broken would cost every trial its end, hours later."""
    random = np.random.default_rng(0)
    points = Points(
        scores.log_probabilities(random.normal(size=(2 * classes, classes))), np.arange(2 * classes) % classes
    )
    for name, metric in METRICS.items():
        if metric.source:
            value = metric.value(points)
            if not math.isfinite(value):
                raise InputError(f"metric {name!r} gives {value} where it should give a number")


def _is_ours(method: str) -> bool:
    return all(arm_named(part).source.startswith("pilotstudy.") for part in method.split("+"))
