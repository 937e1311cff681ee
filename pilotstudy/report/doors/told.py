"""What is told of a run's trials to tools from elsewhere: names, settings, epochs, figures and times."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import cast

from pilotstudy.arms.arm import Setting
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics.registry import headline_metrics
from pilotstudy.runs.folder import Run
from pilotstudy.runs.records import OWN_SPLITS, Status, TrialRow
from pilotstudy.runs.results import Results
from pilotstudy.storage import is_remote


@dataclass(frozen=True)
class Told:
    """A trial that was started. Times are seconds since 1970; `epochs`: of each, its scalars by name."""

    row: TrialRow
    epochs: Mapping[int, Mapping[str, float]]
    started: float

    @property
    def name(self) -> str:
        """Within its arm."""
        return f"{self.row.phase}-{self.row.number}-seed{self.row.seed}"

    @property
    def ended(self) -> float:
        return self.started + (self.row.training_seconds or 0.0)

    @property
    def settings(self) -> dict[str, Setting]:
        """Where it stands in the plan, and its settings."""
        row = self.row
        return {"arm": row.arm, "phase": row.phase, "number": row.number, "seed": row.seed, **row.settings}

    @property
    def last_epoch(self) -> int:
        return max(self.epochs, default=self.row.epochs or 0)

    @cached_property
    def figures(self) -> dict[str, float]:
        """At the last epoch, as `test_nll`, sampled `test_nll_mc`: every metric of the study's own images, the headline
        of further test sets; and the training's seconds.
        """
        return self._figures_of(OWN_SPLITS)

    @cached_property
    def headline(self) -> dict[str, float]:
        """Of these the headline of all."""
        return self._figures_of(())

    def _figures_of(self, in_full: Sequence[str]) -> dict[str, float]:
        found: dict[str, float] = {}
        for each in self.row.evaluations:
            if each.at == "last" and not each.scaled:
                shown = each.figures if each.split in in_full else headline_metrics()
                sampled = "_mc" if each.mode == "mc" else ""
                found |= {f"{each.split}_{k}{sampled}": each.figures[k] for k in shown if k in each.figures}
        if self.row.training_seconds is not None:
            found["training_seconds"] = self.row.training_seconds
        return {name: value for name, value in found.items() if math.isfinite(value)}

    def scalars(self, figures: Mapping[str, float]) -> Iterator[tuple[int, float, dict[str, float]]]:
        """Epoch, time and scalars of each epoch; with the last, those of the figures that epochs do not have."""
        time = self.started
        for epoch, scalars in self.epochs.items():
            time += scalars.get("seconds", 0.0)
            yield epoch, time, dict(scalars)
        of_epochs = self.epochs[self.last_epoch] if self.epochs else {}
        yield self.last_epoch, self.ended, {k: v for k, v in figures.items() if k not in of_epochs}

    def marks(self) -> dict[str, str]:
        """What else there is to know of it."""
        row = self.row
        known = {"key": row.key, "status": str(row.status), "error": row.error, "torch": row.torch}
        return {name: value for name, value in (known | {"device": row.device}).items() if value}


def told_trials(evidence: RunEvidence) -> list[Told]:
    """In the order of the plan. What has not been started has nothing to tell."""
    epochs = epochs_by_key(evidence.run)
    began = datetime.fromisoformat(evidence.run.frozen().history[0].at).timestamp()
    rows = [row for row in evidence.trial_rows if row.status != Status.WAITING]
    return [Told(row, epochs.get(row.key, {}), started(evidence.run, row, began)) for row in rows]


def started(run: Run, row: TrialRow, began: float) -> float:
    """A trial's file was written when it ended; where that is not to be had, all of them start with the run."""
    result = run.files.trial(row.key).result
    if is_remote(result) or not result.exists():
        return began
    return max(began, result.stat().st_mtime - (row.training_seconds or 0.0))


def epochs_by_key(run: Run) -> dict[str, dict[int, dict[str, float]]]:
    """By trial and epoch: what is a number, and finite; imputation errors are one for each layer."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    for record in Results(run.files).epochs.to_pylist():
        key, epoch, errors = record.pop("key"), record.pop("epoch"), record.pop("imputation_error")
        record |= {f"imputation_error_{layer}": error for layer, error in enumerate(errors or ())}
        scalars = {name: value for name, value in record.items() if value is not None and math.isfinite(value)}
        found.setdefault(cast(str, key), {})[cast(int, epoch)] = scalars
    return found
