import pyarrow.parquet as pq
import pytest

from pilotstudy.metrics import registry
from pilotstudy.runs import schemas
from pilotstudy.runs.layout import TrialFiles
from pilotstudy.trial.lifecycle import train_trial
from tests.support.squares import make_trial


def test_parquet_tables_round_trip(squares, tmp_path):
    result = train_trial(make_trial("pilot-a-aug", dgm_width=16, z=4), squares, tmp_path)
    files = TrialFiles.in_folder(tmp_path)
    table = pq.read_table(files.epochs)
    assert table.schema.remove_metadata() == schemas.epochs_schema()
    assert table["epoch"].to_pylist() == [1, 2]
    assert len(table["imputation_error"][1].as_py()) == 3
    predictions = schemas.load_predictions(files.predictions)
    assert set(predictions) == {(at, mode) for at in ("last", "best") for mode in ("point", "mc")}
    test = predictions["last", "point"].test
    assert test.rows.tolist() == list(range(len(squares.test_labels)))
    assert (test.labels == squares.test_labels).all()
    last = next(e for e in result.evaluations if (e.at, e.mode, e.split) == ("last", "point", "test"))
    assert registry.evaluate(test.logits, squares.test_labels)["nll"] == last.figures["nll"]
    bins = next(diagram.bins for diagram in result.reliability if (diagram.at, diagram.mode) == ("last", "point"))
    filled = [b for b in bins if b.count]
    ece = sum(b.count * abs(b.accuracy - b.confidence) for b in filled) / len(squares.test_labels)
    assert ece == pytest.approx(last.figures["ece"])
    assert all(b.lower < b.confidence <= b.upper + 1e-9 for b in filled)
    assert all(b.accuracy is None for b in bins if not b.count)
