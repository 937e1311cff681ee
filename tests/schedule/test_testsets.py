"""A study with further test sets: what its trials predict, what is trained again, and what readers make of it."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.metrics import roc_auc_score

from pilotstudy.data.testsets import load_tests
from pilotstudy.errors import DataError, InputError
from pilotstudy.evidence.claims import judge_all
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.evidence.shift import all_test_figures
from pilotstudy.metrics import registry
from pilotstudy.notebook import load
from pilotstudy.page.content import page_data
from pilotstudy.page.render import script
from pilotstudy.runs.folder import Run
from pilotstudy.runs.results import Results
from pilotstudy.runs.schemas import ModelPredictions, load_predictions
from pilotstudy.schedule import conduct
from pilotstudy.schedule.inline import inline_engine
from pilotstudy.study.reading import validate_study
from pilotstudy.study.resources import Location
from tests.support.squares import make_data

CONTENT = {
    "name": "squares",
    "seeds": [0, 1, 2],
    "data": {"name": "squares", "validation": 60},
    "network": {"name": "mlp-512"},
    "training": {"epochs": 1, "batch_size": 32},
    "arms": {"vanilla": {}, "dropout": {}, "pilot-x-aug": {"dgm_width": 8, "z": 2}},
    "search": {"arms": ["dropout"], "trials": 2, "confirm_seeds": 1},
    "tests": [
        {"data": "corrupted:contrast", "size": 30},
        {"data": "test", "name": "people", "soft_labels": "soft.npy"},
    ],
    "claims": [
        {"says": "shift", "holds": "nll[contrast-3]: dropout < vanilla"},
        {"says": "both", "holds": "nll[contrast-3, temperature]: dropout < vanilla"},
        {"says": "unseen", "holds": "auroc_mi[unseen]: dropout@mc > ensemble"},
        {"says": "surprising", "holds": "auroc_typicality[unseen]: pilot-x-aug > 0.5"},
    ],
}
UNSEEN = {"data": "unseen.npz", "kind": "ood"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    squares = dataclasses.replace(make_data(), fingerprint="0123456789abcdef")
    soft = np.random.default_rng(0).dirichlet([1, 1, 1], len(squares.test_labels)).astype(np.float32)
    np.save(folder / "soft.npy", soft)
    random = np.random.default_rng(1).integers(0, 255, (20, 8, 8), dtype=np.uint8)
    np.savez(folder / "unseen.npz", x_train=random, y_train=np.arange(20) % 2, x_test=random, y_test=np.arange(20) % 2)
    return folder


def start(place, tests, said: list[str] | None = None) -> Run:
    study = validate_study(CONTENT | {"tests": tests, "claims": CONTENT["claims"] if UNSEEN in tests else []}, "test")
    squares = dataclasses.replace(make_data(), fingerprint="0123456789abcdef")
    data = dataclasses.replace(squares, tests=tuple(load_tests(study.tests, squares, place, None)))
    run = Run(place / "runs" / "squares")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conduct, "load_study_data", lambda *_: data)
        if said is not None:
            patch.setattr(conduct, "message", said.append)
        conduct.start(study, run, Location(), inline_engine, lambda run: {"arms": set(), "confirm": set()}, quiet=True)
    return run


@pytest.fixture(scope="module")
def run(place) -> Run:
    """Trained without the test set that is unseen, then with it."""
    start(place, CONTENT["tests"])
    said: list[str] = []
    run = start(place, [*CONTENT["tests"], UNSEEN], said)
    assert "10 finished trials lack a test set of the study: they are trained again" in said
    again: list[str] = []
    start(place, [*CONTENT["tests"], UNSEEN], again)
    assert not any("trained again" in line for line in again)
    return run


@pytest.fixture(scope="module")
def evidence(run) -> RunEvidence:
    return RunEvidence(run)


def test_trials_store_them_at_the_last_epoch_and_those_of_the_search_do_not(run):
    rows = Results(run.files).rows()
    names = {*(f"contrast-{k}" for k in range(1, 6)), "people", "unseen"}
    tested = {row.key for row in rows if row.phase != "search"}
    assert any(row.key not in tested for row in rows)
    for row in rows:
        searched = row.key not in tested  # the search starts from the arm's own settings, whose trial it shares
        stored = load_predictions(run.files.trial(row.key).predictions, has_test=not searched)
        for (at, mode), model in stored.items():
            assert set(model.extra) == (names if at == "last" and not searched else set())
            assert (model.test.expected_entropy is not None) == (mode == "mc" and not searched)
            assert model.validation.expected_entropy is None
        assert set(row.tests) == (set() if searched else names)
        of_tests = {each.split for each in row.evaluations if each.split not in ("validation", "test")}
        assert of_tests == (set() if searched else names - {"unseen"})


def test_evaluations_are_those_of_the_stored_logits(run, place):
    row = next(row for row in Results(run.files).rows() if row.arm == "dropout" and row.phase == "arms")
    stored = load_predictions(run.files.trial(row.key).predictions)
    soft = np.load(place / "soft.npy").astype(float)
    soft /= soft.sum(1, keepdims=True)
    for each in row.evaluations:
        part = stored[each.at, each.mode].splits[each.split]
        known = registry.evaluate(part.logits, part.labels, each.temperature)
        assert each.figures["nll"] == pytest.approx(known["nll"], abs=1e-9)
        if each.split == "people":
            log_p = log_softmax(part.logits.astype(float) / each.temperature, axis=1)
            assert each.figures["soft_nll"] == pytest.approx(-(soft * log_p).sum() / len(soft), abs=1e-6)
            kl = (soft * (np.log(soft) - log_p)).sum() / len(soft)
            assert each.figures["soft_kl"] == pytest.approx(kl, abs=1e-6)
        else:
            assert "soft_nll" not in each.figures


def test_the_draws_mean_entropy_is_at_most_the_means(run):
    for row in Results(run.files).rows():
        if row.arm == "dropout" and row.phase == "arms":
            part = load_predictions(run.files.trial(row.key).predictions)["last", "mc"].extra["unseen"]
            p = np.exp(part.logits.astype(float))
            entropy = -(p * np.log(p)).sum(1)
            assert (part.expected_entropy <= entropy + 1e-5).all()
            assert (part.expected_entropy < entropy - 1e-5).any()


def test_shift_is_held_against_the_same_images(run, evidence):
    figures = {(f.test, str(f.row), f.metric): f for f in all_test_figures(evidence, resamples=200)}
    trials = [row for row in evidence.finished if (row.arm, row.phase) == ("vanilla", "arms")]
    differences = []
    for row in trials:
        model = load_predictions(run.files.trial(row.key).predictions)["last", "point"]
        shifted = model.extra["contrast-5"]
        clean = registry.evaluate(model.test.logits[shifted.rows], model.test.labels[shifted.rows])
        differences.append(registry.evaluate(shifted.logits, shifted.labels)["nll"] - clean["nll"])
    told = figures["contrast-5", "vanilla", "nll"]
    assert told.difference == pytest.approx(np.mean(differences), abs=1e-6)
    assert told.difference_low < told.difference < told.difference_high
    own = figures["people", "vanilla", "nll"]
    assert own.difference == pytest.approx(0, abs=1e-9)
    assert figures["contrast-1", "vanilla", "nll"].images == 30


def test_every_row_is_held_against_soft_labels_ensembles_too(place, run, evidence):
    figures = {(str(f.row), f.metric): f for f in all_test_figures(evidence, resamples=200) if f.test == "people"}
    soft = np.load(place / "soft.npy").astype(float)
    soft /= soft.sum(1, keepdims=True)
    rows = evidence.at(test="people").rows
    assert "ensemble" in map(str, rows)
    for row, by_seed in rows.items():
        expected = [-(soft * log_p).sum(1).mean() for log_p in by_seed.values()]
        told = figures[str(row), "soft_nll"]
        assert (told.figure, told.seeds) == (pytest.approx(np.mean(expected)), len(by_seed))
        entropy = -(soft * np.log(soft)).sum(1).mean()
        assert figures[str(row), "soft_kl"].figure == pytest.approx(np.mean(expected) - entropy)
    stored = [
        each.figures["soft_nll"]
        for trial in evidence.finished
        for each in trial.evaluations
        if (trial.arm, trial.phase, each.split, each.scaled) == ("vanilla", "arms", "people", False)
    ]
    assert figures["vanilla", "soft_nll"].figure == pytest.approx(np.mean(stored), abs=1e-6)
    (file,) = run.files.soft_labels.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    with pytest.raises(DataError, match="is damaged: remove it, and `pilotstudy resume` writes it again"):
        all_test_figures(evidence, resamples=200)
    file.write_bytes(whole)


def test_what_is_unseen_has_scores_where_predictions_have_them(run, evidence):
    figures = {(str(f.row), f.metric): f for f in all_test_figures(evidence, resamples=200) if f.test == "unseen"}
    assert ("vanilla", "auroc_energy") in figures
    assert ("vanilla", "auroc_mi") not in figures
    assert ("dropout@mc", "auroc_mi") in figures
    assert ("dropout@mc", "auroc_energy") not in figures
    assert ("ensemble", "auroc_mi") in figures
    expected = []
    for row in evidence.finished:
        if (row.arm, row.phase) == ("vanilla", "arms"):
            model = load_predictions(run.files.trial(row.key).predictions)["last", "point"]
            logits = np.concatenate([model.test.logits, model.extra["unseen"].logits]).astype(float)
            seen = np.repeat([1, 0], [len(model.test.logits), 20])
            expected.append(roc_auc_score(seen, np.exp(log_softmax(logits, axis=1)).max(1)))
    told = figures["vanilla", "auroc_msp"]
    assert told.figure == pytest.approx(np.mean(expected), abs=1e-6)
    assert told.low < told.figure < told.high
    assert figures["vanilla", "fpr95_msp"].low is None


def test_surprise_is_held_against_that_of_test_images_and_the_median_of_validation(run, evidence):
    figures = {(str(f.row), f.metric): f for f in all_test_figures(evidence, resamples=200) if f.test == "unseen"}
    assert {row for row, metric in figures if "surprise" in metric or "typicality" in metric} == {"pilot-x-aug"}
    plain, typical = [], []
    for row in evidence.finished:
        model = load_predictions(run.files.trial(row.key).predictions)["last", "point"]
        assert {part.surprise is None for part in model.splits.values()} == {row.arm != "pilot-x-aug"}
        if row.arm == "pilot-x-aug":
            surprise = np.concatenate([model.test.surprise, model.extra["unseen"].surprise]).astype(float)
            unseen = np.repeat([0, 1], [len(model.test.surprise), 20])
            plain.append(roc_auc_score(unseen, surprise))
            typical.append(roc_auc_score(unseen, np.abs(surprise - np.median(model.validation.surprise))))
    assert figures["pilot-x-aug", "auroc_surprise"].figure == pytest.approx(np.mean(plain), abs=1e-6)
    told = figures["pilot-x-aug", "auroc_typicality"]
    assert told.figure == pytest.approx(np.mean(typical), abs=1e-6)
    assert told.low <= told.figure <= told.high
    assert figures["pilot-x-aug", "fpr95_typicality"].low is None


def test_scores_that_no_row_has_are_in_no_table(evidence):
    known = ["msp", "entropy", "energy", "mi", "surprise", "typicality"]
    assert evidence.headline("unseen") == tuple(f"auroc_{score}" for score in known)
    without = RunEvidence(evidence.run)
    without.trials = [trial for trial in evidence.trials if trial.row.arm == "vanilla"]
    assert without.headline("unseen") == ("auroc_msp", "auroc_entropy", "auroc_energy")
    partly = RunEvidence(evidence.run)  # as a run whose first trials are of an earlier version
    partly.trials = [without_surprise(t) if t.row.seed == 0 else t for t in evidence.trials if t.row.phase == "arms"]
    assert not {f.metric for f in all_test_figures(partly, resamples=200) if "surprise" in f.metric}


def without_surprise(trial):
    def plain(part):
        return dataclasses.replace(part, surprise=None)

    models = {
        name: ModelPredictions(
            plain(model.validation), plain(model.test), {test: plain(part) for test, part in model.extra.items()}
        )
        for name, model in trial.predictions.items()
    }
    return dataclasses.replace(trial, predictions=models)


def test_mutual_information_of_an_ensemble_of_seeds_is_that_of_its_members(evidence):
    predictions = evidence.at(deep=True, test="unseen")
    deep = next(row for row in predictions.rows if str(row) == "vanilla@seeds")
    members = [p for row, by_seed in predictions.rows.items() if str(row) == "vanilla" for p in by_seed.values()]

    def entropy(p):
        return -(p * np.log(p)).sum(1)

    p = np.exp(np.stack(members))
    expected = entropy(p.mean(0)) - np.mean([entropy(each) for each in p], 0)
    assert np.allclose(-predictions.scores[deep][0]["mi"], expected, atol=1e-9)
    assert (expected > -1e-12).all()


def test_claims_name_them(evidence):
    assert [judged.verdict == "not tested" for judged in judge_all(evidence)] == [False] * 4
    shifted = evidence.figures(["nll"], test="contrast-3")
    rows = {str(row): row for row in shifted.rows}
    expected = shifted.difference("nll", rows["dropout"], rows["vanilla"])
    assert judge_all(evidence)[0].difference == expected.value


def test_commands_read_them(run, pilotstudy):
    name, folder = run.name, str(run.files.folder.parent)
    code, out, _ = pilotstudy("tests", name, "--runs-dir", folder)
    assert code == 0
    assert "contrast-5" in out
    assert "auroc_msp" in out
    records = json.loads(pilotstudy("tests", name, "--runs-dir", folder, "--json")[1])
    assert {record["kind"] for record in records} == {"shift", "ood"}
    assert list(load(run.files.folder).tests()) == records
    code, out, _ = pilotstudy("table", name, "--runs-dir", folder, "--test", "unseen")
    assert "AUROC (largest probability)" in out
    code, out, error = pilotstudy("table", name, "--runs-dir", folder, "--test", "contrast-6")
    assert (code, out) == (2, "")
    assert "did you mean" in error
    code, out, error = pilotstudy("table", name, "--runs-dir", folder, "--test", "")
    assert (code, out) == (2, "")
    code, out, error = pilotstudy("table", name, "--runs-dir", folder, "--test", "unseen", "--metric", "nll")
    assert code == 2
    claim = "auroc_mi[unseen]: dropout@mc > vanilla"
    assert "the run has no auroc_mi of vanilla" in pilotstudy("claims", name, "--runs-dir", folder, "--claim", claim)[1]
    code, out, error = pilotstudy("compare", name, "--runs-dir", folder, "--test", "contrast-3", "--at", "best")
    assert code == 2
    assert "at the last epoch only" in error


def test_what_was_added_and_is_not_predicted_yet_is_left_out(run, evidence, tmp_path, pilotstudy):
    """As in a run that was interrupted before its trials were trained again."""
    copy = Run(shutil.copytree(run.files.folder, tmp_path / "squares"))
    added = dataclasses.replace(evidence.tests["unseen"], fingerprint="other")
    frozen = copy.frozen()
    copy._keep(dataclasses.replace(frozen, tests={**frozen.tests, "added": added}))
    words = "--runs-dir", tmp_path, "--json"
    code, out, error = pilotstudy("tests", "squares", *words)
    assert (code, {record["test"] for record in json.loads(out)}) == (0, set(frozen.tests))
    assert "added: left out" in error
    assert pilotstudy("export", "squares", "--runs-dir", tmp_path, "-o", tmp_path / "out")[0] == 0
    copy._keep(dataclasses.replace(frozen, tests={"added": added}))
    code, out, error = pilotstudy("tests", "squares", *words)
    assert (code, out) == (2, "")
    assert "has trials without predictions of 'added': resume it" in error


def test_the_page_has_them(run, evidence):
    content = page_data(run)["shift"]
    assert content["families"] == ["contrast"]
    figures = evidence.figures(["nll"], test="contrast-2")
    rows = {str(row): row for row in figures.rows}
    places = list(zip(content["shift"]["test"], content["shift"]["row"], strict=True))
    line = {name: values[places.index(("contrast-2", "dropout@mc"))] for name, values in content["shift"].items()}
    assert line["nll"] == pytest.approx(figures.figure("nll", rows["dropout@mc"]).value, rel=1e-4)
    assert line["strength"] == 2
    assert set(content["ood"]["row"]) == {str(row) for row in rows.values()}
    assert "const shiftSection" in script("page")


@pytest.mark.parametrize(
    ("tests", "words"),
    [
        (
            [{"data": "corrupted:nois"}],
            "tests.0.data = 'corrupted:nois': unknown corruption 'nois': did you mean 'noise'?",
        ),
        ([{"data": "svhn"}, {"data": "svhn", "kind": "ood"}], "there is a test set 'svhn' already"),
        ([{"data": "test"}], "a test set cannot be called 'test': give it a name"),
        (
            [{"data": "svhn", "name": "temperature"}],
            "tests.0.name = 'temperature': a test set cannot be called 'temperature'",
        ),
        ([{"data": "svhn", "name": "a" * 65}], "give it a name of at most 64 letters"),
        ([{"data": "svhn", "name": "a"}, {"data": "cifar10", "name": "a"}], "tests.1.name = 'a': there is a test set"),
        ([{"data": "svhn", "kind": "odd"}], "tests.0.kind"),
        ([{"data": "corrupted:noise", "kind": "ood"}], "these are the study's own images, so it must be 'shift'"),
        ([{"data": "squares", "kind": "ood"}], "these are the study's own images, so it must be 'shift'"),
        ([{"data": "corrupted:all", "name": str(n)} for n in range(4)], "a study has at most 100 test sets"),
        ([{"name": "a"}], "tests.0.data"),
    ],
)
def test_what_is_wrong_with_them_is_told_when_the_study_is_read(tests, words):
    with pytest.raises(Exception, match=r".") as error:
        validate_study(CONTENT | {"tests": tests, "claims": []}, "here")
    assert words in str(error.value)
    assert type(error.value).exit_code == 2


@pytest.mark.parametrize("wrong", [{"size": 0}, {"data": "corrupted:contarst"}])
def test_claims_about_test_sets_that_are_wrong_are_not_told_wrong_too(wrong):
    tests = [CONTENT["tests"][0] | wrong, CONTENT["tests"][1], UNSEEN]
    with pytest.raises(InputError, match=r"tests\.0\.(size|data) = ") as error:
        validate_study(CONTENT | {"tests": tests}, "here")
    assert "claims" not in str(error.value)


@pytest.mark.parametrize(
    ("holds", "words"),
    [
        ("nll[noise-1]: dropout < vanilla", "unknown qualifier 'noise-1'"),
        ("nll[unseen]: dropout < vanilla", "unknown metric 'nll' of a test set that is out of distribution"),
        ("auroc_msp[people]: dropout < vanilla", "'auroc_msp': only a test set that is out of distribution has it"),
        ("auroc_msp: dropout < vanilla", "'auroc_msp': only a test set that is out of distribution has it"),
        ("smece: dropout < vanilla", "'smece': it has no intervals, so nothing can be claimed of it"),
        ("fpr95_msp[unseen]: dropout < vanilla", "those that have are auroc_msp"),
        ("nll[people, contrast-1]: dropout < vanilla", "people and contrast-1 both are test sets"),
    ],
)
def test_claims_that_make_no_sense_of_them(holds, words):
    content = CONTENT | {"tests": [*CONTENT["tests"], UNSEEN], "claims": [{"says": "", "holds": holds}]}
    with pytest.raises(Exception, match=r".") as error:
        validate_study(content, "here")
    assert words in str(error.value)
