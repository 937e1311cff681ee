"""What the options of several commands mean: the study as they change it, the engine, the limits."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pilotstudy.schedule.conduct import Engine
    from pilotstudy.study.resources import Limits, Share
    from pilotstudy.study.spec import Study


def study_with(
    study: str,
    *,
    trials: int | None = None,
    seeds: int | None = None,
    epochs: int | None = None,
    train_size: int | None = None,
    set_: list[str] | None = None,
    cpus_per_trial: int | None = None,
    gpus_per_trial: str | None = None,
    concurrency: int | None = None,
    mps: bool = False,
) -> "Study":
    """The study with what the command line changes in it."""
    from pilotstudy.study import reading
    from pilotstudy.study.budget import with_budget

    keys = {"training.epochs": epochs, "data.train_size": train_size}
    overrides = {key: value for key, value in keys.items() if value is not None}
    sets = dict(map(reading.parse_override, set_ or []))
    options = {"training.epochs": "--epochs", "data.train_size": "--train-size"}
    changed = reading.read_study(study, overrides | sets, {k: v for k, v in options.items() if k not in sets})
    changed = with_budget(changed, seeds, trials)
    resources = changed.resources.changed(
        {
            "cpus_per_trial": cpus_per_trial,
            "gpus_per_trial": gpu_share(gpus_per_trial),
            "concurrency": concurrency,
            "mps": mps or None,
        }
    )
    return changed.model_copy(update={"resources": resources})


def gpu_share(text: str | None) -> "Share | None":
    """What --gpus-per-trial says, if it says anything."""
    from pilotstudy.errors import InputError
    from pilotstudy.study.resources import share_of_gpu

    try:
        return None if text is None else share_of_gpu(text)
    except ValueError as error:
        raise InputError(f"--gpus-per-trial {text}: {error}") from error


def engine_at(address: str | None, inline: bool) -> "Engine":
    """What trains the trials: Ray, here or on a cluster, or this process itself."""
    from pilotstudy.errors import InputError

    if inline:
        from pilotstudy.schedule.inline import inline_engine

        if address:
            raise InputError("--inline trains in this process, and --address on a cluster: give one of them")
        return inline_engine
    from pilotstudy.cluster.engine import RayEngine

    return RayEngine(address)


def run_limits(time_budget: float | None, max_cost: float | None, price: str | None, wait: float) -> "Limits":
    """When a run ends before it is done."""
    from pilotstudy.errors import InputError
    from pilotstudy.schedule.prices import price_of
    from pilotstudy.study.resources import Limits

    if max_cost is not None and price is None:
        raise InputError(
            f"--max-cost {max_cost:g} needs --price: what a machine costs an hour (--price 0.7) or its GPU (--price L4)"
        )
    return Limits(time_budget, max_cost, None if price is None else price_of(price), wait)
