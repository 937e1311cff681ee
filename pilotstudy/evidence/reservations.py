"""What goes for all intervals and verdicts of a run: the images they hold for, and what looking before costs."""

from collections.abc import Mapping, Sequence

from pilotstudy.runs.folder import Run
from pilotstudy.study.spec import Study


def looks(run: Run) -> float:
    """How often results were looked at: once, and once before each start that added seeds to results.

    Whoever adds seeds until a difference shows finds one sooner or later, so p-values are multiplied by this. A planned
    look counts as 1 over its share of the error rate; beyond the plan, those that were taken count once each.
    """
    planned: set[int] = set()
    in_plan = run.frozen().looks
    if in_plan and not in_plan.exceeded:
        return 1 / in_plan.current.share
    confirm_seeds, times = 0, in_plan.taken if in_plan else 1
    for number, start in enumerate(run.frozen().history):
        seeds, search = start.study.get("seeds"), start.study.get("search")
        of_start = set(seeds) if isinstance(seeds, Sequence) else set()
        of_search = int(search.get("confirm_seeds", 0)) if isinstance(search, Mapping) else 0
        more_confirmed = confirm_seeds > 0 and of_search > confirm_seeds
        times += number > 0 and start.results > 0 and (not of_start <= planned or more_confirmed)
        planned |= of_start
        confirm_seeds = max(confirm_seeds, of_search)
    return times


def reservations(run: Run) -> list[str]:
    """The same in sentences, for tables, claims, methods and the page."""
    sentences = []
    if has_same_images(run.study()):
        sentences.append("Intervals hold for these training images, which all seeds share.")
    in_plan, times = run.frozen().looks, looks(run)
    if in_plan and not in_plan.exceeded:
        were = "was" if in_plan.taken == 1 else "were"
        sentences.append(
            f"Seeds were added in planned looks ({in_plan.numbers} seeds), of which {in_plan.taken} {were} taken; "
            "p-values are divided by the share of the error rate that their look spends, and claims keep the verdict "
            "of the look that decided them. Intervals are for one look, not over all of them."
        )
        if len(in_plan.numbers_given) > 1:
            sentences.append(
                f"Rows have {min(in_plan.numbers_given)} to {max(in_plan.numbers_given)} seeds; rows that are paired "
                "are compared over the seeds that both have."
            )
    elif times > 1:
        sentences.append(
            f"Seeds were added after results were seen ({times} looks); p-values are multiplied by {times}."
        )
    return sentences


def has_same_images(study: Study) -> bool:
    """Whether all seeds are known to have been trained on the same images."""
    return not study.imported and study.data.train_subset != "by-seed"
