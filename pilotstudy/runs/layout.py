"""The one place that knows the names of the files in a run's folder."""

import os
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pilotstudy.storage import is_remote, place

JOB_SERVER = "PILOTSTUDY_JOB_SERVER"  # in a submitted job's environment: the --address that it was sent to


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
        self.soft_labels = folder / "soft-labels"
        self.proposals = folder / "search"
        self.checkpoints = folder / "checkpoints"  # of trials that are under way
        self.dashboard = folder / "dashboard.html"
        self.lock = folder / "lock"
        self.stop = folder / "stop"
        self.running = folder / "running.json"  # what is trained now, while a driver is at work
        # What Ray and Optuna print; beside a run on an object store it stays on the driver's machine.
        local = Path(tempfile.gettempdir()) / f"pilotstudy-{folder.name}.log"
        self.log = local if is_remote(folder) else folder / "log.txt"

    def hint(self, command: str, *options: str) -> str:
        """A command about this run, for a message: as it can be typed, wherever the run lies."""
        server = os.environ.get(JOB_SERVER)
        where = ["--address", server] if server and "--errors" not in options else self.runs_dir_option()
        return f"`{shlex.join(['pilotstudy', command, self.folder.name, *options, *where])}`"

    def runs_dir_option(self) -> list[str]:
        """What finds this run by its name, in this shell."""
        runs_dir = self.folder.parent
        return [] if runs_dir == place(os.environ.get("PILOTSTUDY_RUNS") or "runs") else ["--runs-dir", str(runs_dir)]

    def trial(self, key: str) -> TrialFiles:
        """The files of one trial."""
        return TrialFiles(
            self.results / f"{key}.json",
            self.epochs / f"{key}.parquet",
            self.predictions / f"{key}.parquet",
            self.checkpoints / f"{key}.pt",
            self.checkpoints / f"{key}.json",
        )

    def soft_labels_of(self, fingerprint: str) -> Path:
        """Where the soft labels of a further test set are."""
        return self.soft_labels / f"{fingerprint[:20]}.npy"

    def proposal(self, arm: str, number: int) -> Path:
        """Where the settings are that an arm's search proposed."""
        return self.proposals / self.proposal_name(arm, number)

    @staticmethod
    def proposal_name(arm: str, number: int) -> str:
        return f"{arm}-{number:04}.json"
