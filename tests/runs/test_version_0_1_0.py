"""A run of version 0.1.0 is read by everything that reads runs, and can be resumed.

`version-0.1.0/` was made by that version: three arms and one that diverges, two seeds, a search with early stopping.
`shapes.npz` holds its images.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from PIL import Image

from pilotstudy.metrics.registry import METRICS
from pilotstudy.notebook import load
from pilotstudy.runs.folder import Run
from pilotstudy.runs.frozen import FrozenStudy
from pilotstudy.runs.records import Status, TrialResult
from pilotstudy.runs.results import Results

OLD = Path(__file__).parent / "version-0.1.0"


@pytest.fixture
def old(tmp_path: Path) -> Run:
    run = Run(tmp_path / "runs" / "old")
    shutil.copytree(OLD, run.files.folder)
    return run


@pytest.mark.parametrize(
    "words",
    [
        ("results", "old"),
        ("results", "old", "--format", "csv"),
        ("results", "old", "--json"),
        ("table", "old"),
        ("table", "old", "--format", "latex", "--scaled", "--at", "best"),
        ("claims", "old"),
        ("compare", "old"),
        ("ensembles", "old"),
        ("status", "old"),
        ("status", "old", "--json"),
        ("status", "old", "--errors"),
        ("list",),
    ],
    ids=" ".join,
)
def test_what_reads_runs_reads_it(words, old, pilotstudy):
    code, out, err = pilotstudy(*words, "--runs-dir", old.files.folder.parent)
    assert (code, err) == (0, "")
    assert out


def test_its_page_and_its_export(old, pilotstudy, tmp_path):
    code, _, err = pilotstudy("dashboard", "old", "--runs-dir", old.files.folder.parent, "-o", tmp_path / "page.html")
    assert code == 0, err
    assert "A run of version 0.1.0" in (tmp_path / "page.html").read_text()
    code, _, err = pilotstudy("export", "old", "--runs-dir", old.files.folder.parent, "-o", tmp_path / "export")
    assert code == 0, err
    kept = json.loads((tmp_path / "export" / "provenance.json").read_text())
    assert kept["provenance"]["packages"]["pilotstudy"] == "0.1.0"


def test_its_numbers_are_those_of_its_files(old, pilotstudy):
    _, out, _ = pilotstudy("results", "old", "--runs-dir", old.files.folder.parent, "--json")
    rows = {(row["arm"], row["mode"], row["phase"], row["at"]): row for row in json.loads(out)["results"]}
    files = [json.loads(path.read_text()) for path in sorted(old.files.results.glob("*.json"))]
    vanilla = [
        evaluation["nll"]
        for content in files
        if content["trial"]["arm"] == "vanilla"
        for evaluation in content["evaluations"]
        if (evaluation["at"], evaluation["split"], evaluation["scaled"]) == ("last", "test", False)
    ]
    assert len(vanilla) == 2
    assert rows["vanilla", "point", "arms", "last"]["nll"] == fmean(vanilla)


def test_its_records(old):
    frozen = old.frozen()
    assert frozen.format is None
    assert frozen.location.address is None
    assert frozen.parsed().resources.concurrency == 2  # which stood in the options then
    assert [start.results for start in frozen.history] == [0]
    rows = load(old.files.folder).rows()
    assert len(rows) == 13
    assert {row.status for row in rows} == {Status.FINISHED, Status.DIVERGED, Status.STOPPED}
    for row in rows:
        result = old.result(row.key)
        assert result.status == row.status
        for stored, read in zip(result.evaluations, row.evaluations, strict=True):
            kept = {name: read.figures[name] for name in stored.figures}  # others have been added since
            assert replace(read, figures=kept) == stored
            assert set(read.figures) == set(METRICS)
        assert result.trial.settings == row.settings
        path = old.files.trial(row.key).result
        again = TrialResult.from_json(result.to_json(), path)
        assert again == result
        assert json.loads(path.read_text()).keys() <= json.loads(result.to_json()).keys()
    assert [old.proposal("dropout", number)["rate"] for number in range(4)] == [
        row.settings["rate"] for row in sorted(rows, key=lambda row: row.number) if row.phase == "search"
    ]


def test_what_its_variances_were_in_is_known(old):
    """Pilot's were in units of what its DGM saw, those of noise raw; an arm of a user's own keeps its settings."""
    frozen = old.frozen()
    noise, pilot = {"variance": 0.1, "mask_rate": 0.5}, {"decoder_variance": 0.1}
    arms = {"add-a-aug": noise, "pilot-a-aug": pilot, "pilot-x-aug": pilot | {"normalise": False}, "mine": noise}
    parsed = replace(frozen, study={**frozen.study, "arms": arms}).parsed()
    assert {arm: settings.get("variance_in") for arm, settings in parsed.arms.items()} == {
        "add-a-aug": "raw",
        "pilot-a-aug": "relative",
        "pilot-x-aug": "raw",
        "mine": None,
    }


def test_it_can_be_resumed(old, pilotstudy, tmp_path):
    """Trials are trained again, since their keys hold their code; the search goes on with the same proposals."""
    with np.load(OLD / "shapes.npz") as arrays:
        for split in "train", "test":
            for number, (pixels, label) in enumerate(
                zip(arrays[f"{split}_images"], arrays[f"{split}_labels"], strict=True)
            ):
                folder = tmp_path / "data" / "shapes" / split / ("circle", "cross", "square")[label]
                folder.mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels[0]).save(folder / f"{number:03}.png")
    before = {path.name: path.read_bytes() for path in old.files.results.iterdir()}
    proposals = [old.proposal("dropout", number) for number in range(4)]
    content = json.loads(old.files.study.read_text())
    content["options"]["data_dir"] = str(tmp_path / "data")
    old.files.study.write_text(json.dumps(content))
    code, _, err = pilotstudy("resume", "old", "--runs-dir", old.files.folder.parent, "--inline", "-q")
    assert code == 0, err
    after = {path.name: path.read_bytes() for path in old.files.results.iterdir()}
    assert after | before == after  # the earlier results are still there
    assert len(after) == 2 * len(before)
    assert [old.proposal("dropout", number) for number in range(4)] == proposals
    frozen = old.frozen()
    assert (frozen.format, len(frozen.history)) == (FrozenStudy.FORMAT, 2)
    assert frozen.fingerprint == content["fingerprint"]  # the same images
    rows = Results(old.files).rows()
    assert len(rows) == 13
    assert all(row.status.final for row in rows)
    assert sum(row.status is Status.DIVERGED for row in rows) == 2
