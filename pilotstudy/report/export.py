"""A run as files for an appendix."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pyarrow.csv as pa_csv

from pilotstudy.errors import InputError
from pilotstudy.evidence import paper
from pilotstudy.evidence.claims import judge_all
from pilotstudy.evidence.compare import compare_rows, reference_row
from pilotstudy.evidence.ensembles import ensemble_figures
from pilotstudy.evidence.recommendation import answer
from pilotstudy.evidence.reservations import reservations
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.evidence.shift import all_test_figures
from pilotstudy.evidence.summary import optimism, summary
from pilotstudy.metrics.registry import headline_metrics, resampled_metrics
from pilotstudy.metrics.resampling import RESAMPLES
from pilotstudy.metrics.scores import BINS
from pilotstudy.report.formats import FORMATS, as_latex, as_markdown
from pilotstudy.report.plain import csv_text
from pilotstudy.report.table import build_table, ensemble_note
from pilotstudy.runs import schemas
from pilotstudy.runs.folder import Run
from pilotstudy.runs.records import Status
from pilotstudy.runs.results import Results
from pilotstudy.runs.status import mixtures, total_of
from pilotstudy.storage import new_folder, write
from pilotstudy.study.budget import Budget
from pilotstudy.study.looks import Seeded
from pilotstudy.study.recipe import PREFIX, Training
from pilotstudy.study.spec import Study
from pilotstudy.study.toml import toml_text

MOST_FILES = 5  # that a sentence lists


def export(run: Run, folder: Path, *, predictions: bool = True) -> int:
    """How many files were written. The folder is there as a whole or not at all. Predictions are most of its size."""
    if folder.exists():
        raise InputError(f"{folder} exists already: choose a folder that does not")
    texts = appendix_texts(RunEvidence(run))
    results = Results(run.files)
    evaluations = results.evaluations
    tables = {"trials": results.trials, "evaluations": evaluations, "epochs": results.epochs}
    if predictions:
        tables["predictions"] = results.predictions
    with new_folder(folder) as unfinished:
        for name, text in texts.items():
            write(unfinished / name, text)
        for name, table in tables.items():
            schemas.save(unfinished / f"{name}.parquet", table)
        write(unfinished / "evaluations.csv", lambda file: pa_csv.write_csv(evaluations, file))
    return len(texts) + len(tables) + 1


def appendix_texts(evidence: RunEvidence) -> dict[str, str]:
    """The text files by name."""
    frozen, study = evidence.run.frozen(), evidence.study
    provenance = {name: value for name, value in frozen.content().items() if name not in ("format", "study")}
    table, against = build_table(evidence), reference_row(evidence)
    texts = {
        "study.toml": toml_text(frozen.study),
        "provenance.json": json.dumps(provenance, indent=1, default=str) + "\n",
        "results.csv": csv_text([row.record() for row in summary(evidence)]),
        "optimism.csv": csv_text([asdict(gap) for gap in optimism(evidence)]),
        "ensembles.csv": csv_text([row.record() for row in ensemble_figures(evidence)]),
        "claims.csv": csv_text([claim.record() for claim in judge_all(evidence)]),
        "table.tex": as_latex(table) + "\n",
        "table.md": as_markdown(table) + "\n",
        "table.csv": FORMATS["csv"](build_table(evidence, metrics=resampled_metrics(), with_cost=True)) + "\n",
        "answer.txt": answer(evidence).text + "\n",
        "methods.txt": methods_paragraph(evidence) + "\n",
        "comparisons.csv": csv_text([c.record() for c in compare_rows(evidence, against, headline_metrics())]),
    }
    if evidence.tests:
        texts["tests.csv"] = csv_text([figure.record() for figure in all_test_figures(evidence)])
    if paper.printed_rows(study.network.name, study.data.name):
        beside = build_table(evidence, like_paper=True)
        texts |= {"table-beside-paper.tex": as_latex(beside) + "\n"}
        texts |= {"table-beside-paper.csv": FORMATS["csv"](beside) + "\n"}
    return texts


def methods_paragraph(evidence: RunEvidence) -> str:
    """For the appendix: data, network, budget, seeds, statistics, versions."""
    return f"{training_sentences(evidence)}. {statistics_sentences(evidence)}"


def imported_sentence(study: Study) -> str:
    """Where the predictions of a study came from that trained nothing; else empty."""
    if not study.imported:
        return ""
    files = ", ".join(f"{each.file} (SHA-256 {each.sha256})" for each in study.imported)
    if len(study.imported) > MOST_FILES:
        first, *_, last = study.imported
        files = f"{len(study.imported)} files, {first.file} to {last.file} (their SHA-256 are in the study)"
    return f"Nothing was trained here: predictions of {len(study.arms)} methods were imported from {files}"


def training_sentences(evidence: RunEvidence) -> str:
    study, budget = evidence.study, evidence.budget
    if study.imported:
        return f"{imported_sentence(study)}; how they were made is not known to pilotstudy"
    subset = ""
    if study.data.train_size:
        which = ", drawn anew for every seed," if study.data.train_subset == "by-seed" else ""
        subset = f"a class-balanced subset{which} of {study.data.train_size:,} images of "
    text = (
        f"All networks ({study.network.name}{options_text(study.network.options)}) were trained on {subset}"
        f"{study.data.name} with inputs "
        f"{'in [0, 1]' if study.data.scaling == 'unit' else 'standardised by channel'}; "
        f"{study.data.validation:,} training images were held out, stratified, for validation. "
        f"{recipe_sentences(study.training)}. Each of {len(study.arms)} methods was trained at fixed "
        f"settings with {seeds_in_words(study, budget)}"
    )
    if budget.search_trials:
        objectives = ", ".join(study.search.objectives if study.search else ())
        text += (
            f"; {', '.join(budget.search_trials)} were in addition searched with "
            f"{budget.search_in_words(list(budget.search_trials))}, by Optuna's TPE (validation "
            f"{objectives}{searched_recipe(evidence)}), and their best settings were trained again with "
            f"{numbers_in_words(budget, 'confirm')} fresh seeds"
        )
    statuses = [row.status for row in evidence.trial_rows]
    total, finished = total_of(evidence.run), statuses.count(Status.FINISHED)
    if finished < total:
        others = {status: statuses.count(status) for status in (Status.DIVERGED, Status.STOPPED, Status.FAILED)}
        counted = ", ".join(f"{number} {status}" for status, number in others.items() if number)
        text += f". Of {total} planned trials {finished} finished and count{f' ({counted})' if counted else ''}"
    return text


def seeds_in_words(study: Study, budget: Budget) -> str:
    """Which seeds the methods were trained with at fixed settings."""
    most = max(budget.trials_of(arm)["arms"] for arm in study.arms)
    return f"{numbers_in_words(budget, 'arms')} seeds ({', '.join(map(str, study.seeds[:most]))})"


def numbers_in_words(budget: Budget, phase: Seeded) -> str:
    """How many seeds methods have in a phase; where that differs, each with its own."""
    planned = {"arms": budget.seeds, "confirm": budget.confirm_seeds}[phase]
    by_arm = budget.looks.given[phase] if budget.looks else {}
    numbers = set(by_arm.values()) or {planned}
    if len(numbers) == 1:
        return str(*numbers)
    each = ", ".join(f"{arm} {number}" for arm, number in by_arm.items())
    return f"the first {min(numbers)} to {max(numbers)} ({each}) of {max(numbers)}"


def searched_recipe(evidence: RunEvidence) -> str:
    """Which keys of the recipe the searches chose, too."""
    names = {name for space in evidence.spaces.values() for name in space if name.startswith(PREFIX)}
    words = [name.removeprefix(PREFIX).replace("_", " ") for name in sorted(names)]
    return f"; of the recipe also the {', the '.join(words)}" if words else ""


def recipe_sentences(training: Training) -> str:
    """The recipe, which all methods share, without what it leaves out."""
    optimiser = training.optimiser
    name = {"adam": "Adam", "adamw": "AdamW"}.get(optimiser.name, optimiser.name.upper())
    text = f"Training used {name}{options_text(optimiser.options)} (learning rate {training.learning_rate:g}, "
    text += f"batches of {training.batch_size}) for {training.epochs} epochs"
    schedule = training.schedule
    words = schedule.model_dump() | {"final": f"{schedule.final:g} of its first value" if schedule.final else "zero"}
    details = [SCHEDULES[schedule.name].format(**words)] if schedule.name != "constant" else []
    if schedule.warmup:
        details.append(f"the rate grew in proportion over the first {schedule.warmup:g} epochs")
    if training.weight_decay:
        kind = "decoupled weight decay" if optimiser.name == "adamw" else "weight decay"
        details.append(f"{kind} {training.weight_decay:g} on the weights")
    if training.gradient_clip:
        details.append(f"gradients were clipped at norm {training.gradient_clip:g}")
    if training.augmentation != "none":
        details.append(AUGMENTATIONS[training.augmentation])
    if training.average.name != "none":
        details.append(AVERAGES[training.average.name].format(**training.average.model_dump()))
    if training.patience:
        since = " of the average" if training.average.name == "swa" else ""
        details.append(f"training ended when validation NLL had not improved for {training.patience} epochs{since}")
    return "; ".join([text, *details])


SCHEDULES = {
    "cosine": "the rate fell as a cosine to {final}",
    "linear": "the rate fell linearly to {final}",
    "step": "the rate was multiplied by {factor:g} at {milestones} of the training",
    "one-cycle": "the rate followed one cycle with its peak at {peak:g} of the training",
}
AUGMENTATIONS = {
    "paper": "images were augmented with colour shifts, rotations and flips, alike for all methods",
    "flips-and-crops": "images were mirrored and shifted at random, alike for all methods",
}
AVERAGES = {
    "ema": "an exponential average of the weights (decay {decay:g}) was evaluated",
    "swa": "the mean of the weights after each epoch from {start:g} of the training on was evaluated",
}


def options_text(options: Mapping[str, object]) -> str:
    """Options in words: " with momentum 0.9, nesterov true"."""
    parts = [f"{key} {str(value).lower() if isinstance(value, bool) else value}" for key, value in options.items()]
    return f" with {', '.join(parts)}" if parts else ""


def statistics_sentences(evidence: RunEvidence) -> str:
    frozen = evidence.run.frozen()
    made = frozen.provenance
    versions = ", ".join(f"{name} {version}" for name, version in made.packages.items() if version)
    of_seeds = "they decided how many seeds each method has, but " if evidence.looks else ""
    of_what = f"of the last epoch on the test images; {of_seeds}no setting in this run was chosen by them"
    if evidence.study.imported:
        of_what = "of the test images"
    notes = [*ensemble_note(evidence.at()), *reservations(evidence.run), *mixtures(evidence.trial_rows)]
    return (
        f"Figures are {of_what}. ECE has {BINS} equal-width bins; a difference in it counts only if it is also there "
        f"with each network's noise floor taken off. {interval_sentences(evidence)} "
        f"Data fingerprint (SHA-256) {frozen.fingerprint}. "
        f"Versions: Python {made.python}, {versions}; code {made.code_version}"
        f"{', commit ' + made.git_commit if made.git_commit else ''}. Hardware: {made.machine['system']}, "
        f"{made.machine['cores']} cores." + "".join(f" {said}" for said in notes)
    )


def interval_sentences(evidence: RunEvidence) -> str:
    """What intervals and p-values are made of, in this run."""
    rows = evidence.at().rows
    images = f"bootstrap over test images ({RESAMPLES:,} resamples, shared by all methods)"
    if all(len(by_seed) == 1 for by_seed in rows.values()):
        return f"Intervals are 95 %: {images}, for the one network of each method."
    pairs = "differences are paired over both"
    if len({row.phase for row in rows}) > 1:
        pairs = (
            "differences are paired over images and, but for tuned against fixed settings (Welch's), also over seeds"
        )
    claims = len(evidence.study.claims)
    verdicts = f", the verdicts on {claims} claims over all of them" if claims > 1 else ""
    if evidence.looks and not evidence.looks.exceeded:
        if claims > 1:
            verdicts = f", the verdicts on {claims} claims at each look over those still open (Maurer and Bretz, 2013)"
        verdicts += (
            ". The design is group-sequential: looks spend the error rate of 5 % by Lan and DeMets' function of "
            "Pocock's kind, and after each only those methods got more seeds that an open claim was about or, while "
            "there was one, that might be the best"
        )
    return (
        f"± is the sample deviation over seeds. Intervals are 95 %: {images} and Student's t over seeds, combined, "
        f"and never narrower than the bootstrap alone; {pairs}. p-values of comparisons are Holm-corrected within a "
        f"metric{verdicts}."
    )
