"""The one place that knows the names of the files in a run's folder."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from pilotstudy.storage import is_remote


@dataclass(frozen=True)
class TrialFiles:
    """The files of one trial. The result is written last, so where there is one, all is there."""

    result: Path
    epochs: Path
    predictions: Path
    checkpoint: Path
    starts: Path  # how often it was started, while it is under way on Ray

    @classmethod
    def in_folder(cls, folder: Path) -> "TrialFiles":
        """A folder of its own, as `pilotstudy train -o` makes it."""
        names = "result.json", "epochs.parquet", "predictions.parquet", "checkpoint.pt", "starts.json"
        return cls(*(folder / name for name in names))


class RunFiles:
    """The files of a run's folder: one table of all trials, and for each trial (by its key) its parts."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.study = folder / "study.json"  # the frozen study, the run's options and where it came from
        self.trials = folder / "trials.parquet"
        self.results = folder / "results"
        self.epochs = folder / "epochs"
        self.all_epochs = folder / "epochs.parquet"  # the same rows, of all trials, once a run has ended
        self.predictions = folder / "predictions"
        self.proposals = folder / "search"
        self.checkpoints = folder / "checkpoints"  # of trials that are under way
        self.dashboard = folder / "dashboard.html"
        self.lock = folder / "lock"
        self.stop = folder / "stop"
        # What Ray and Optuna print; beside a run on an object store it stays on the driver's machine.
        local = Path(tempfile.gettempdir()) / f"pilotstudy-{folder.name}.log"
        self.log = local if is_remote(folder) else folder / "log.txt"

    def trial(self, key: str) -> TrialFiles:
        """The files of one trial."""
        return TrialFiles(
            self.results / f"{key}.json",
            self.epochs / f"{key}.parquet",
            self.predictions / f"{key}.parquet",
            self.checkpoints / f"{key}.pt",
            self.checkpoints / f"{key}.json",
        )

    def proposal(self, arm: str, number: int) -> Path:
        """Where the settings are that an arm's search proposed."""
        return self.proposals / self.proposal_name(arm, number)

    @staticmethod
    def proposal_name(arm: str, number: int) -> str:
        return f"{arm}-{number:04}.json"
