import numpy as np
import pytest

from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.evidence.summary import optimism, summary
from pilotstudy.runs.results import Results, gather_epochs
from pilotstudy.study.resources import Location


def test_results(whole):
    whole.run.freeze(whole.study, Location(), whole.fingerprint)
    whole.save()
    results = Results(whole.run.files)
    assert results.trials.num_rows == 18
    lines = [line.record() for line in summary(RunEvidence(whole.run))]
    rows = {(row["arm"], row["mode"], row["phase"], row["at"]): row for row in lines}
    vanilla = rows["vanilla", "point", "arms", "last"]
    values = [
        evaluation.figures["nll"]
        for item in whole.items
        if (item.phase, item.arm) == ("arms", "vanilla")
        for evaluation in whole.run.result(item.key).evaluations
        if (evaluation.at, evaluation.split, evaluation.scaled) == ("last", "test", False)
    ]
    assert vanilla["seeds"] == 2
    assert vanilla["nll"] == pytest.approx(np.mean(values))
    assert vanilla["nll_sd"] == pytest.approx(np.std(values, ddof=1))
    assert ("dropout", "mc", "confirm", "best") in rows
    gap = {line.arm: line for line in optimism(RunEvidence(whole.run))}["dropout"]
    assert gap.optimism == pytest.approx(gap.confirmed - gap.search)
    assert (gap.trials, gap.seconds > 0) == (4, True)
    assert len(set(results.epochs["key"].to_pylist())) == 16
    assert results.epochs.num_rows == 16 * 2
    before = results.epochs
    whole.save()  # what has ended is in memory as Arrow by now
    assert results.trials.num_rows == 18
    gather_epochs(whole.run.files, {item.key for item in whole.items[:5]})
    assert results.epochs == before  # some from the gathered file, the rest from their own
    test = results.predictions.to_pandas().query("split == 'test' and mode == 'point' and at == 'last'")
    assert len(test) == 10 * 120  # six trials of the search do not predict them
