"""A run as files for an appendix."""

import json
from pathlib import Path

import pyarrow.csv as pa_csv

from pilotstudy import claims, comparing, evidence, paper, report, statements, tables, tabulate
from pilotstudy.errors import InputError
from pilotstudy.files import new_folder, write
from pilotstudy.metrics import BINS
from pilotstudy.results import Results, optimism, summary
from pilotstudy.runs import Run, total_of
from pilotstudy.statistics import METRICS, RESAMPLES


def export(run: Run, folder: Path) -> int:
    """How many files were written. The folder is there as a whole or not at all."""
    if folder.exists():
        raise InputError(f"{folder} exists already: choose a folder that does not")
    frozen, results = run.frozen(), Results(run.files)
    study = run.study()
    in_paper = bool(paper.rows(study.network.name, study.data.name))
    table = tabulate.build(run)
    texts = {
        "study.toml": report.toml(frozen["study"]),
        "provenance.json": json.dumps({name: value for name, value in frozen.items() if name != "study"}, indent=1)
        + "\n",
        "results.csv": report.csv(summary(results)),
        "optimism.csv": report.csv(optimism(results.trials.to_pylist())),
        "ensembles.csv": report.csv(evidence.ensembles(run)),
        "claims.csv": report.csv(claims.rows(claims.judge_all(run))),
        "table.tex": tabulate.as_latex(table) + "\n",
        "table.md": tabulate.as_markdown(table) + "\n",
        "table.csv": tabulate.FORMATS["csv"](tabulate.build(run, names=list(METRICS))) + "\n",
        "methods.txt": methods(run) + "\n",
    }
    against = next((line.row for line in table.lines if line.row == statements.Row("vanilla")), table.lines[0].row)
    texts["comparisons.csv"] = report.csv(comparing.within(run, against, evidence.PAPER_METRICS))
    if in_paper:
        beside = tabulate.build(run, like_paper=True)
        texts |= {"table-beside-paper.tex": tabulate.as_latex(beside) + "\n"}
        texts |= {"table-beside-paper.csv": tabulate.FORMATS["csv"](beside) + "\n"}
    with new_folder(folder) as beside_folder:
        for name, text in texts.items():
            write(beside_folder / name, text)
        parts = {"trials": results.trials, "evaluations": results.evaluations, "epochs": results.epochs}
        parts["predictions"] = results.predictions
        for name, found in parts.items():
            tables.save(beside_folder / f"{name}.parquet", found)
        flat = results.evaluations
        write(beside_folder / "evaluations.csv", lambda file: pa_csv.write_csv(flat, file))
    return len(texts) + len(parts) + 1


def methods(run: Run) -> str:
    """A paragraph for the appendix: data, network, budget, seeds, statistics, versions."""
    frozen, study, given = run.frozen(), run.study(), evidence.budget(run)
    made = frozen["provenance"]
    versions = ", ".join(f"{name} {version}" for name, version in made["packages"].items() if version)
    subset = f"a class-balanced subset of {study.data.train_size:,} images of " if study.data.train_size else ""
    text = (
        f"All networks ({study.network.name}) were trained on {subset}{study.data.name} with inputs "
        f"{'in [0, 1]' if study.data.scaling == 'unit' else 'standardised by channel'}; "
        f"{study.data.validation:,} training images were held out, stratified, for validation. Training used Adam "
        f"(learning rate {study.training.learning_rate:g}, batches of {study.training.batch_size}) for "
        f"{study.training.epochs} epochs. Each of {len(study.arms)} methods was trained at fixed "
        f"settings with {len(study.seeds)} seeds ({', '.join(map(str, study.seeds))})"
    )
    if given["search_trials"]:
        each = min(given["search_trials"].values())
        text += (
            f"; {', '.join(given['search_trials'])} were in addition each searched with {each} trials (Optuna, TPE, "
            f"validation {', '.join(study.search.objectives if study.search else ())}), and their best settings were "
            f"trained again with {given['confirm_seeds']} fresh seeds"
        )
    trials = Results(run.files).trials["status"].to_pylist()
    total = total_of(run)
    ended = {status: trials.count(status) for status in ("finished", "diverged", "stopped", "failed")}
    if ended["finished"] < total:
        others = ", ".join(f"{number} {status}" for status, number in ended.items() if number and status != "finished")
        text += f". Of {total} planned trials {ended['finished']} finished and count{f' ({others})' if others else ''}"
    text += (
        f". Figures are of the last epoch on the test images, which guided no choice; ECE has {BINS} equal-width bins. "
        f"± is the sample deviation over seeds. Intervals are 95 %: bootstrap over test images ({RESAMPLES:,} "
        f"resamples, shared by all methods) and Student's t over seeds, combined; differences are paired over both, "
        f"and p-values are Holm-corrected within a metric. Data fingerprint (SHA-256) {frozen['fingerprint']}. "
        f"Versions: Python {made['python']}, {versions}; code {made['code_version']}"
        f"{', commit ' + made['git_commit'] if made['git_commit'] else ''}. Hardware: {made['machine']['system']}, "
        f"{made['machine']['cores']} cores."
    )
    return text
