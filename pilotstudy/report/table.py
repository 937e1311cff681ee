"""A run's table, beside the paper's if wanted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pilotstudy.errors import InputError
from pilotstudy.evidence import paper
from pilotstudy.evidence.costs import NOTE, Cost, costs
from pilotstudy.evidence.figures import Mark
from pilotstudy.evidence.labels import row_label
from pilotstudy.evidence.predictions import TestPredictions
from pilotstudy.evidence.reservations import reservations
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.metrics.intervals import Estimate
from pilotstudy.metrics.recalibration import IN_WORDS, Recalibration
from pilotstudy.metrics.resampling import RESAMPLES
from pilotstudy.runs.records import At
from pilotstudy.study.spec import Study
from pilotstudy.study.statements import ENSEMBLE, Row


@dataclass(frozen=True)
class Cell:
    ours: Estimate | None
    mark: Mark = ""
    floor: float | None = None  # what a perfectly calibrated model would score
    published: paper.Figure | None = None

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return self.ours.value - float(self.published.value) if self.ours and self.published else None


@dataclass(frozen=True)
class Line:
    row: Row
    seeds: int
    cells: Mapping[str, Cell]  # by metric
    diverged: int = 0  # seeds that are not in the figures
    cost: Cost | None = None  # where it is shown


@dataclass(frozen=True)
class Table:
    title: str
    lines: Sequence[Line]
    metrics: tuple[str, ...]
    like_paper: bool
    notes: Sequence[str]
    with_cost: bool = False
    name: str = ""  # of the run


def build_table(
    evidence: RunEvidence,
    *,
    like_paper: bool = False,
    metrics: Sequence[str] | None = None,
    at: At = "last",
    recalibration: Recalibration = "none",
    with_cost: bool = False,
    resamples: int = RESAMPLES,
    test: str = "test",
) -> Table:
    """Without `metrics`, those of the paper's tables. `like_paper`: its rows in its order, its figures beside ours.
    `test`: the study's own test images, or a further test set.
    """
    study = evidence.study
    place = study.network.name, study.data.name
    printed = paper.printed_rows(*place)
    if like_paper and not printed:
        places = dict.fromkeys(f"{f.network} on {f.data}" for f in paper.printed_figures())
        raise InputError(f"the paper has no figures for {place[0]} on {place[1]}: it has {', '.join(places)}")
    names = tuple(metrics or evidence.headline(test))
    predictions = evidence.at(at, recalibration, test=test)
    figures = evidence.figures(names, at, recalibration, resamples=resamples, test=test)
    rows = [Row(*row) for row in printed] if like_paper else []
    here = [*figures.rows, *(row for row in evidence.diverged if row not in figures.rows)]
    rows += [row for row in table_order(here) if row not in rows]  # what the paper does not print comes after
    best = {name: figures.best(name, [row for row in rows if row in figures.rows]) for name in names}

    def cell(name: str, row: Row) -> Cell:
        has_published = like_paper and row.phase == "arms"
        return Cell(
            ours=figures.figure(name, row) if figures.has(name, row) else None,
            mark=best[name].mark(row),
            floor=predictions.floor(name, row),
            published=paper.printed_figure(*place, row.arm, row.mode, name) if has_published else None,
        )

    by_row = costs(evidence) if with_cost else {}
    lines = [
        Line(
            row,
            figures.seeds(row) if row in figures.rows else 0,
            {name: cell(name, row) for name in names},
            predictions.diverged.get(row, 0),
            by_row.get(row, Cost()) if with_cost else None,
        )
        for row in rows
    ]
    title = (
        f"{study.title}: {'test figures' if test == 'test' else f'figures of {test}'}"
        f"{'' if study.imported else f' at the {at} epoch'}"
        f"{'' if recalibration == 'none' else f', after {IN_WORDS[recalibration]}'}, "
        f"{figures.points:,} {'test images' if test == 'test' else 'images'}"
    )
    notes = [
        *table_notes(lines, study if like_paper else None),
        *ensemble_note(predictions),
        *missing_note(evidence, names),
        *([NOTE] if with_cost else []),
        *reservations(evidence.run),
    ]
    return Table(title, lines, names, like_paper, notes, with_cost, evidence.run.name)


def table_order(rows: Sequence[Row]) -> list[Row]:
    """Networks as they are, then sampled, then the ensemble; tuned arms last."""
    return sorted(rows, key=lambda row: (row.phase == "confirm", ("point", "mc", ENSEMBLE).index(row.mode)))


def ensemble_note(predictions: TestPredictions) -> list[str]:
    """What the paper's ensemble averages, where there is one."""
    if Row(ENSEMBLE, ENSEMBLE) not in predictions.rows:
        return []
    return [f"Ensemble: the mean of the probabilities of {', '.join(map(row_label, predictions.members))}."]


def missing_note(evidence: RunEvidence, metrics: Sequence[str]) -> list[str]:
    """Why some columns are empty, where they are."""
    lacking = evidence.lacks_metrics(metrics)
    return [f"R{lacking[1:]}."] if lacking else []


def table_notes(lines: Sequence[Line], beside_paper: Study | None) -> list[str]:
    """What must be known to read the table. `beside_paper`: the study, where the paper's figures stand beside ours."""
    notes = [
        "± is the sample deviation over seeds; intervals are 95 %, over seeds and test images together.",
        "* is better than every other row; ° has the best mean, and ≈ cannot be told from it. "
        "floor: the ECE of a perfectly calibrated model with the same confidences.",
    ]
    if any(line.seeds == 1 for line in lines):
        notes.append(
            "Rows of one network have no deviation and take no part in the marks; their intervals hold for that "
            "network only."
        )
    if any(line.diverged for line in lines):
        notes.append("Figures are of the seeds that did not diverge; no row is called better by leaving out those.")
    if beside_paper:
        published = [cell.published for line in lines for cell in line.cells.values() if cell.published]
        doubts = dict.fromkeys(doubt for figure in published for doubt in figure.doubts)
        remarks = dict.fromkeys(remark for figure in published for remark in figure.remarks)
        notes += [f"? {paper.DOUBTS[doubt]}." for doubt in doubts]
        notes += [f"† {paper.REMARKS[remark]}." for remark in remarks]
        size, epochs = beside_paper.data.train_size, beside_paper.training.epochs
        images = f"{size:,} images" if size else "all images but those for validation"
        notes.append(f"Ours: {images}, {epochs} epochs; the paper's: 250 epochs for MLPs, 100 for CNNs.")
    return notes
