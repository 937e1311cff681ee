"""What planned looks at a run say."""

from pilotstudy.runs.folder import Run
from pilotstudy.study.looks import Wanted


def still_wanted(run: Run) -> Wanted:
    return {}
