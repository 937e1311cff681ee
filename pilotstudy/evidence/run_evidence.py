"""The way in to what a run's stored predictions say."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from pilotstudy.arms.arm import Declared, Space
from pilotstudy.arms.catalogue import all_arms
from pilotstudy.errors import InputError, nearest
from pilotstudy.evidence.figures import Figures
from pilotstudy.evidence.ood import OodFigures, OodPredictions, gather_ood
from pilotstudy.evidence.predictions import StoredTrial, TestPredictions, gather
from pilotstudy.evidence.reservations import looks
from pilotstudy.metrics.ood import RESAMPLED_OOD_METRICS, metric_named
from pilotstudy.metrics.recalibration import IN_WORDS, Recalibration
from pilotstudy.metrics.registry import METRICS, evaluate, headline_metrics
from pilotstudy.metrics.resampling import RESAMPLES
from pilotstudy.runs.evaluating import fitted
from pilotstudy.runs.folder import Run
from pilotstudy.runs.frozen import FrozenTest
from pilotstudy.runs.records import At, Evaluation, Split, Status, TrialResult, TrialRow
from pilotstudy.runs.results import Results
from pilotstudy.runs.schemas import load_predictions
from pilotstudy.runs.trust import load_trusted
from pilotstudy.study.budget import PHASES, Budget, Spent
from pilotstudy.study.looks import Look, Looks
from pilotstudy.study.space import space_of
from pilotstudy.study.spec import Study
from pilotstudy.study.statements import Row

KEPT = 2  # sets of predictions, which may be large


class RunEvidence:
    """A run's predictions and figures. Files are read once, and figures computed once, when they are asked for.

    `at`: the last epoch, or that with the lowest validation NLL. `recalibration`: fitted on validation. `deep`: with
    the ensembles of every arm's seeds. `test`: the study's own test images, or a further test set by its name. `look`:
    what was there at that planned look.
    """

    def __init__(self, run: Run, look: Look | None = None):
        self.run, self.look = run, look
        load_trusted(run)
        self._predictions: dict[tuple[At, Recalibration, bool, Split], TestPredictions] = {}
        self._clean: dict[tuple[tuple[str, ...], bytes, int], Figures] = {}  # by metrics and points
        self._figures: dict[tuple[tuple[str, ...], At, Recalibration, bool, int, Split], Figures] = {}

    @cached_property
    def study(self) -> Study:
        return self.run.study()

    @cached_property
    def looks(self) -> Looks | None:
        """Where seeds are added until the claims are decided."""
        return self.run.frozen().looks

    @cached_property
    def budget(self) -> Budget:
        """What each arm was given, and what its search has taken so far."""
        budget = Budget.of(self.study, self.looks)
        ended = [row for row in self.trial_rows if row.phase == "search" and row.status.ended]
        by_arm = {arm: [row for row in ended if row.arm == arm] for arm in budget.search_trials}
        spent = {
            arm: Spent(len(rows), sum(row.training_seconds or 0.0 for row in rows)) for arm, rows in by_arm.items()
        }
        return replace(budget, spent=spent)

    @cached_property
    def arms(self) -> dict[str, Declared]:
        """What there is to know of each row."""
        return self.run.frozen().declared()

    @property
    def known(self) -> dict[str, Declared]:
        """What claims and comparisons may name: all arms, and the rows of the study under their own names."""
        return {**all_arms(), **self.arms}

    @cached_property
    def spaces(self) -> dict[str, Space]:
        """What the search may choose, by searched row."""
        searched = self.study.search.arms if self.study.search else ()
        frozen = self.run.frozen().spaces
        return {arm: frozen[arm] if arm in frozen else space_of(self.study, arm) for arm in searched}

    @cached_property
    def trial_rows(self) -> list[TrialRow]:
        """The table of all trials, as the study plans them, whatever order they were taken up in."""
        return planned_order(self.study, Results(self.run.files).rows())

    @property
    def finished(self) -> list[TrialRow]:
        """The finished trials outside the search."""
        return [row for row in self.trial_rows if row.phase != "search" and row.status == Status.FINISHED]

    @cached_property
    def trials(self) -> list[StoredTrial]:
        """The same with their predictions."""
        files = self.run.files
        return [
            StoredTrial(
                row,
                load_predictions(files.trial(row.key).predictions, has_validation=row.has_validation),
                self.arms.get(row.arm),
            )
            for row in self.finished
        ]

    def at_look(self, look: Look) -> "RunEvidence":
        """What was there at a planned look: the first seeds of every arm. Verdicts pay for the look's share."""
        earlier = RunEvidence(self.run, look)
        earlier.trial_rows = [row for row in self.trial_rows if look.includes(row.phase, row.number)]
        earlier.trials = [trial for trial in self.trials if look.includes(trial.row.phase, trial.row.number)]
        return earlier

    @cached_property
    def first_results(self) -> dict[tuple[str, str], TrialResult | None]:
        """Of each phase and arm what its first trial stored: the networks of all are as large."""
        first: dict[tuple[str, str], str] = {}
        for row in self.finished:
            first.setdefault((row.phase, row.arm), row.key)
        return {place: self.run.result(key) for place, key in first.items()}

    @property
    def diverged(self) -> dict[Row, set[int]]:
        """The seeds outside the search that diverged, by row."""
        by_row: dict[Row, set[int]] = {}
        for trial in self.trial_rows:
            if trial.phase != "search" and trial.status == Status.DIVERGED:
                declared = self.arms.get(trial.arm)
                for mode in declared.modes if declared else ("point",):
                    by_row.setdefault(Row(trial.arm, mode, trial.phase, declared), set()).add(trial.seed)
        return by_row

    @cached_property
    def tests(self) -> Mapping[str, FrozenTest]:
        """The study's further test sets, by name."""
        return self.run.frozen().tests

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each of them: shift, ood."""
        return {name: test.kind for name, test in self.tests.items()}

    def lacks(self, at: At = "last", recalibration: Recalibration = "none", test: Split = "test") -> str:
        """Why there are no such figures, though trials have finished: what was imported may have less; else empty."""
        if test != "test":
            if test not in self.tests:
                hint = nearest(test, list(self.tests)) if self.tests else "it has none."
                return f"run {self.run.name!r} has no test set {test!r}: {hint}"
            if at != "last":
                return f"run {self.run.name!r} has predictions of {test!r} at the last epoch only"
            if any(trial.row.tests.get(test) != self.tests[test].fingerprint for trial in self.trials):
                return f"run {self.run.name!r} has trials without predictions of {test!r}: resume it"
        if not all(any(epoch == at for epoch, _ in trial.predictions) for trial in self.trials):
            return f"run {self.run.name!r} has no predictions of the {at} epoch: those it has were imported as the last"
        if recalibration != "none" and not self.has_validation:
            return (
                f"run {self.run.name!r} has no validation predictions to fit {IN_WORDS[recalibration]} on: leave it "
                "out, or import them too"
            )
        return ""

    def lacks_metrics(self, names: Iterable[str]) -> str:
        """Why there is no figure of some of these metrics; else empty."""
        needing = [name for name in names if metric_named(name).needs_validation]
        if not needing or self.has_validation:
            return ""
        return f"run {self.run.name!r} has no validation predictions, which {', '.join(needing)} would be fitted on"

    @property
    def has_validation(self) -> bool:
        """Whether every finished trial kept predictions of validation images, which what is imported may lack."""
        return all(row.has_validation for row in self.finished)

    def at(
        self, at: At = "last", recalibration: Recalibration = "none", *, deep: bool = False, test: Split = "test"
    ) -> TestPredictions:
        """The predictions of all rows."""
        if not self.trials:
            raise InputError(f"run {self.run.name!r} has no finished trial to look at yet")
        if lacking := self.lacks(at, recalibration, test):
            raise InputError(lacking)
        key = at, recalibration, deep, test
        if key not in self._predictions:
            while len(self._predictions) >= KEPT:
                self._predictions.pop(next(iter(self._predictions)))
            # Versions of the study's own images are resampled together with them.
            own = test == "test" or self.tests[test].paired
            fingerprint = self.run.frozen().fingerprint if own else self.tests[test].fingerprint
            if self.is_ood(test):
                self._predictions[key] = gather_ood(
                    self.trials,
                    test,
                    recalibration=recalibration,
                    deep=deep,
                    fingerprint=fingerprint,
                    diverged=self.diverged,
                )
            else:
                self._predictions[key] = gather(
                    self.trials,
                    at,
                    recalibration=recalibration,
                    deep=deep,
                    fingerprint=fingerprint,
                    diverged=self.diverged,
                    split=test,
                )
        return self._predictions[key]

    def is_ood(self, test: Split) -> bool:
        """Whether its images are of none of the study's classes."""
        return test in self.tests and self.tests[test].kind == "ood"

    def headline(self, test: Split) -> tuple[str, ...]:
        """The metrics that are shown where no others are asked for; of scores, those that a row has."""
        if not self.is_ood(test):
            return headline_metrics()
        predictions = self.at(test=test)
        assert isinstance(predictions, OodPredictions)
        known = {
            score for by_seed in predictions.scores.values() for by_score in by_seed.values() for score in by_score
        }
        return tuple(name for name in RESAMPLED_OOD_METRICS if name.removeprefix("auroc_") in known)

    def figures(
        self,
        metrics: Sequence[str] | None = None,
        at: At = "last",
        recalibration: Recalibration = "none",
        *,
        deep: bool = False,
        resamples: int = RESAMPLES,
        test: Split = "test",
    ) -> Figures:
        """Figures of all rows; without `metrics`, those of the paper's tables, or of a test set's kind."""
        names = tuple(metrics or self.headline(test))
        key = names, at, recalibration, deep, resamples, test
        if key not in self._figures:
            predictions = self.at(at, recalibration, deep=deep, test=test)
            if isinstance(predictions, OodPredictions):
                self._figures[key] = OodFigures(predictions, names, resamples, looks=self._times)
            else:
                self._figures[key] = Figures(predictions, names, resamples, looks=self._times)
        return self._figures[key]

    @property
    def _times(self) -> float:
        """What p-values are multiplied by."""
        return 1 / self.look.share if self.look else looks(self.run)

    def clean_figures(self, test: Split, metrics: Sequence[str], resamples: int = RESAMPLES) -> Figures:
        """What a test set is held against: the study's own test images; where its images are versions of them, these
        alone, and resampled together with it.
        """
        if not self.tests[test].paired:
            return self.figures(metrics, resamples=resamples)
        first = self.trials[0]
        points = first.predictions["last", first.modes("last")[0]].splits[test].rows
        key = tuple(metrics), points.tobytes(), resamples
        if key not in self._clean:
            predictions = gather(
                self.trials,
                "last",
                recalibration="none",
                deep=False,
                fingerprint=self.run.frozen().fingerprint,
                diverged=self.diverged,
                only=points,
            )
            self._clean[key] = Figures(predictions, metrics, resamples, looks=self._times)
        return self._clean[key]

    def test_evaluations(self) -> Iterator[tuple[TrialRow, Evaluation]]:
        """What the finished trials evaluated on the test images, without scaling.

        A metric that was not known when they ran is computed from their predictions, as far as they go.
        """
        for row in self.finished:
            for evaluation in row.evaluations:
                if evaluation.split == "test" and not evaluation.scaled:
                    absent = (METRICS[name] for name in METRICS.keys() - evaluation.figures.keys())
                    complete = all(metric.needs_validation and not row.has_validation for metric in absent)
                    yield row, evaluation if complete else self._completed(row, evaluation)

    def _completed(self, row: TrialRow, evaluation: Evaluation) -> Evaluation:
        trial = next(trial for trial in self.trials if trial.row.key == row.key)
        validation, test, _ = trial.predictions[evaluation.at, evaluation.mode]
        best = trial.temperature(evaluation.at, evaluation.mode) if row.has_validation else None
        computed = evaluate(test.logits, test.labels, fitted=fitted(validation, evaluation.temperature, best))
        return replace(evaluation, figures={**computed, **evaluation.figures})


def planned_order(study: Study, rows: Iterable[TrialRow]) -> list[TrialRow]:
    places = {arm: place for place, arm in enumerate(study.arms)}
    return sorted(rows, key=lambda row: (PHASES.index(row.phase), places.get(row.arm, len(places)), row.number))
