"""Predictions of a made-up run, as others would store them."""

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.special import softmax

from pilotstudy.runs.folder import Run
from pilotstudy.runs.results import Results
from pilotstudy.runs.schemas import ModelPredictions, load_predictions


def networks(run: Run) -> Iterator[tuple[str, int, str, ModelPredictions]]:
    """Arm, seed, mode and predictions at the last epoch."""
    for row in Results(run.files).rows():
        for (at, mode), pair in load_predictions(run.files.trial(row.key).predictions).items():
            if at == "last":
                yield row.arm, row.seed, mode, pair


def as_npz(run: Run, folder: Path, *, validation: bool = True) -> list[Path]:
    """A file for each network; its name tells the arm and the seed."""
    folder.mkdir(exist_ok=True)
    paths = []
    for arm, seed, mode, pair in networks(run):
        arrays = {"logits": pair.test.logits, "labels": pair.test.labels}
        if validation:
            arrays |= {"validation_logits": pair.validation.logits, "validation_labels": pair.validation.labels}
        if mode == "mc":
            arrays["mode"] = np.array("mc")
        paths.append(folder / ("sampled" if mode == "mc" else "") / f"{arm}-seed{seed}.npz")
        paths[-1].parent.mkdir(exist_ok=True)
        np.savez(paths[-1], **arrays)
    return paths


def long_rows(run: Run) -> list[dict[str, object]]:
    return [
        {"arm": arm, "seed": seed, "mode": mode, "split": split, "row": row, "label": label, "logits": logits}
        for arm, seed, mode, pair in networks(run)
        for split, part in pair.splits.items()
        for row, label, logits in zip(
            part.rows.tolist(), part.labels.tolist(), part.logits.astype(float).tolist(), strict=True
        )
    ]


def as_parquet(run: Run, folder: Path) -> list[Path]:
    """One file of all, image by image, the last one first."""
    rows = sorted(long_rows(run), key=lambda row: -row["row"])
    pq.write_table(pa.Table.from_pylist(rows), folder / "all.parquet")
    return [folder / "all.parquet"]


def as_csv(run: Run, folder: Path, *, probabilities: bool = False) -> list[Path]:
    """One file of all, a column for each class."""
    name = "p" if probabilities else "logit_"
    lines = []
    for row in long_rows(run):
        values = row.pop("logits")
        values = softmax(values).tolist() if probabilities else values
        lines.append(row | {f"{name}{k}": repr(value) for k, value in enumerate(values)})
    with open(folder / "all.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    return [folder / "all.csv"]
