import tomllib

import pytest

from pilotstudy.errors import InputError
from pilotstudy.report.export import export, recipe_sentences
from pilotstudy.study import reading
from pilotstudy.study.recipe import Training
from tests.support.made_run import FINGERPRINT


def test_an_export_to_publish_leaves_out_predictions(run, tmp_path):
    export(run, tmp_path / "all")
    written = export(run, tmp_path / "small", predictions=False)
    names, fewer = ({path.name for path in (tmp_path / which).iterdir()} for which in ("all", "small"))
    assert names - fewer == {"predictions.parquet"}
    assert written == len(fewer)


def test_the_schedule_in_words():
    def words(schedule):
        training = {"epochs": 3, "schedule": schedule}
        return recipe_sentences(Training.model_validate(training))

    assert "for 3 epochs; the rate fell linearly to zero" in words("linear")
    assert "fell as a cosine to 0.01 of its first value" in words({"name": "cosine", "final": 0.01})


def test_export_is_whole_and_can_be_run_again(run, tmp_path):
    folder = tmp_path / "out"
    assert export(run, folder) == len(list(folder.iterdir()))
    study = tomllib.loads((folder / "study.toml").read_text())
    assert reading.validate_study(study, "exported") == run.study()
    methods = (folder / "methods.txt").read_text()
    for word in "3 seeds (0, 1, 2)", "4 trials", FINGERPRINT, "torch", "15 equal-width bins":
        assert word in methods
    with pytest.raises(InputError, match="exists already"):
        export(run, folder)
