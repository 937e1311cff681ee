"""Predictions from elsewhere: every form of file gives the figures of the run that they came from."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest

import pilotstudy as package
from pilotstudy.evidence.costs import HEADINGS
from pilotstudy.page.content import page_data
from pilotstudy.runs import schemas
from pilotstudy.runs.filling import filled
from pilotstudy.runs.folder import Run
from pilotstudy.runs.foreign import read_parts
from pilotstudy.runs.foreign_trials import fingerprint, trials_of
from tests.support import foreign
from tests.support.command_line import refused
from tests.support.made_run import made

CLAIMS = """
[[claims]]
says = "Dropout, sampled, is better calibrated than vanilla"
holds = "ece: dropout@mc < vanilla"
[[claims]]
says = "Pilot beats all baselines"
holds = "nll: pilot-a-aug < baselines"
"""


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Run:
    arms = {"vanilla": {}, "pilot-a-aug": {}, "dropout": {}}
    run = made(tmp_path_factory.mktemp("runs") / "made", points=60, search=None, claims=[], arms=arms, seeds=[0, 1])
    # Images are resampled by the fingerprint of the data, which an import can only take from rows and labels.
    path = foreign.as_npz(run, tmp_path_factory.mktemp("npz"))[0]
    run._keep(replace(run.frozen(), fingerprint=fingerprint(trials_of(read_parts(path))[0])))
    return run


def figures(pilotstudy, name, folder):
    """What every reader says of a run, as JSON."""
    found = []
    claim = ("--claim", "nll: pilot-a-aug < baselines")
    for words in ("table",), ("table", "--scaled"), ("compare", "--metric", "nll"), ("ensembles",), ("claims", *claim):
        code, out, err = pilotstudy(words[0], name, *words[1:], "--json", "--runs-dir", folder)
        assert code == 0, err
        said = json.loads(out)
        if "answer" in said:  # what to do next differs, and what training costs
            said["answer"] = {name: said["answer"][name] for name in ("row", "gain", "low", "high", "p")}
        if "notes" in said:  # of the training images of a run from elsewhere nothing is known
            said["notes"] = [note for note in said["notes"] if "training images" not in note]
        found.append(said)
    results = json.loads(pilotstudy("results", name, "--json", "--runs-dir", folder)[1])["results"]
    return [*found, [row for row in results if row["at"] == "last"]]  # what is imported has one epoch


def same(ours, theirs, tolerance) -> None:
    """Numbers within the tolerance, all else equal; titles and budgets differ, and costs are not known."""
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        for key in ours.keys() - {"title", "budget", *HEADINGS}:
            same(ours[key], theirs[key], tolerance)
    elif isinstance(ours, list):
        assert len(ours) == len(theirs)
        for our, their in zip(ours, theirs, strict=True):
            same(our, their, tolerance)
    elif isinstance(ours, float):
        assert ours == pytest.approx(theirs, rel=tolerance, abs=tolerance)
    else:
        assert ours == theirs


@pytest.mark.parametrize("form", ["npz", "parquet", "csv"])
def test_every_form_gives_the_figures_of_the_run_it_came_from(original, pilotstudy, tmp_path, form):
    files = getattr(foreign, f"as_{form}")(original, tmp_path)
    code, out, err = pilotstudy("import", "made", "--predictions", *files, "--runs-dir", tmp_path / "runs", "--json")
    assert code == 0, err
    assert json.loads(out)["trials"] == 6
    theirs = figures(pilotstudy, "made", original.files.folder.parent)
    same(figures(pilotstudy, "made", tmp_path / "runs"), theirs, 1e-9)


def test_validation_images_must_be_the_same_too(original, pilotstudy, tmp_path):
    files = foreign.as_npz(original, tmp_path / "npz")
    words = ("import", "x", "--runs-dir", tmp_path / "runs", "--predictions")
    assert pilotstudy(*words, files[0])[0] == 0
    content = dict(np.load(files[-1]))
    np.savez(tmp_path / "other_0.npz", **content | {"validation_labels": np.roll(content["validation_labels"], 1)})
    refused(pilotstudy(*words, tmp_path / "other_0.npz"), 3, "validation images or their labels are not those")


def test_probabilities_are_as_good_as_logits(original, pilotstudy, tmp_path):
    files = foreign.as_csv(original, tmp_path, probabilities=True)
    for name, paths in ("p", files), ("l", foreign.as_npz(original, tmp_path / "npz")):
        assert pilotstudy("import", name, "--predictions", *paths, "--runs-dir", tmp_path, "-q")[0] == 0
    tables = [json.loads(pilotstudy("table", name, "--json", "--runs-dir", tmp_path)[1])["rows"] for name in "pl"]
    same(*tables, 1e-5)


def test_without_validation_nothing_is_scaled_and_nothing_made_up(original, pilotstudy, tmp_path):
    files = foreign.as_npz(original, tmp_path / "npz", validation=False)
    (tmp_path / "claims.toml").write_text(CLAIMS)
    words = ("--title", "Mine", "--data-name", "CIFAR", "--claims", tmp_path / "claims.toml", "--runs-dir", tmp_path)
    code, _, err = pilotstudy("import", "mine", "--predictions", *files, *words)
    assert code == 0, err
    where = ("mine", "--runs-dir", tmp_path)
    refused(pilotstudy("table", *where, "--scaled"), 2, "no validation predictions to fit temperature scaling on")
    refused(pilotstudy("table", *where, "--recalibrate", "vector"), 2, "no validation predictions to fit vector")
    refused(pilotstudy("compare", *where, "--metric", "conformal_size"), 2, "which conformal_size would be fitted on")
    table = json.loads(pilotstudy("table", *where, "--metric", "nll", "--metric", "nll_refinement", "--json")[1])
    assert all(row["nll"] > 0 and row["nll_refinement"] is None for row in table["rows"])
    assert "Run 'mine' has no validation predictions, which nll_refinement would be fitted on." in table["notes"]
    told = "nll_refinement: dropout < vanilla", "nll[platt]: dropout < vanilla", "nll: dropout < vanilla"
    more = [word for text in told for word in ("--claim", text)]
    asked = json.loads(pilotstudy("claims", *where, *more, "--json")[1])["claims"][-3:]
    assert [claim["verdict"] == "not tested" for claim in asked] == [True, True, False]
    assert ["no validation predictions" in claim["reason"] for claim in asked] == [True, True, False]
    results = list(csv.DictReader(io.StringIO(pilotstudy("results", *where, "--format", "csv")[1])))
    assert {row["nll_refinement"] + row["parameters"] + row["passes"] for row in results} == {""}
    stored = schemas.read(Run(tmp_path / "mine").files.trials, schemas.trials_schema())
    assert filled(stored, Run(tmp_path / "mine").files) is stored  # nothing is missing that could be there
    refused(pilotstudy("table", *where, "--at", "best"), 2, "best epoch", "imported")
    refused(pilotstudy("resume", *where, "--inline"), 2, "imported", "nothing to train")
    refused(pilotstudy("run", "quickstart", "--name", *where, "--inline"), 2, "imported", "--name")
    claims = json.loads(pilotstudy("claims", *where, "--json")[1])["claims"]
    assert [claim["stated"] for claim in claims] == ["after", "after"]
    assert claims[0]["budget"] == "2 seeds, imported predictions"
    assert {row["recalibration"] for row in json.loads(pilotstudy("ensembles", *where, "--json")[1])} == {"none"}
    assert pilotstudy("table", *where)[1].startswith("Mine: test figures, 60 test images")
    state = json.loads(pilotstudy("list", "--runs-dir", tmp_path, "--json")[1])[0]
    assert (state["state"], state["done"], state["trials"], state["data"]) == ("done", 6, 6, "CIFAR")
    assert json.loads(pilotstudy("status", *where, "--json")[1])["phases"][0]["finished"] == 6
    loaded = package.load(tmp_path / "mine")
    assert loaded.predictions.num_rows == 10 * 60
    assert "training" not in loaded.study.to_toml()
    result = Run(tmp_path / "mine").result(loaded.trials["key"][0].as_py())
    assert result.notes == ("imported from vanilla-seed0.npz",)
    page = page_data(Run(tmp_path / "mine"))
    assert page["table"]["variants"]["last"]
    assert not page["table"]["variants"]["last-scaled"] + page["table"]["variants"]["best"]
    assert "imported from" in page["made"]["notes"][0]
    assert page["made"]["budget"][0] == {"arm": "vanilla", "seeds": 2}
    assert pilotstudy("export", *where, "-o", tmp_path / "appendix")[0] == 0
    methods = (tmp_path / "appendix" / "methods.txt").read_text()
    assert "predictions of 3 methods were imported from 6 files, vanilla-seed0.npz to dropout-seed1.npz" in methods
    assert not any(word in methods for word in ("Adam", "epoch", "trained on", "torch"))
    again = (tmp_path / "appendix" / "study.toml").read_text()
    assert again.count("sha256 = ") == 6
    assert "training" not in again
    refused(pilotstudy("show", tmp_path / "appendix" / "study.toml"), 2, "imported", "nothing to train")


def arrays(**changes):
    random = np.random.default_rng(0)
    return {"logits": random.normal(size=(20, 3)), "labels": np.arange(20) % 3, "arm": "mine", "seed": 0} | changes


def save(path, **changes):
    np.savez(path, **{name: value for name, value in arrays(**changes).items() if value is not None})
    return path


def test_more_is_added_and_nothing_replaced(pilotstudy, tmp_path):
    where = ("--runs-dir", tmp_path / "runs")
    logits = arrays()["logits"]
    names = {"arm": None, "seed": None}
    first = [save(tmp_path / f"plain_{seed}.npz", **names, logits=logits * (1 + seed / 9)) for seed in (0, 1)]
    assert pilotstudy("import", "own", "--predictions", *first, "--reference", "plain", *where)[0] == 0
    code, out, err = pilotstudy("import", "own", "--predictions", *first, *where, "--json")
    assert (code, json.loads(out)["new"]) == (0, 0)
    assert "already" in err
    second = save(tmp_path / "b.npz", arm="our-best", logits=4.0 * (arrays()["labels"][:, None] == np.arange(3)))
    code, out, err = pilotstudy("import", "own", "--predictions", second, "--method", "our-best", *where, "--json")
    assert code == 0, err
    content = json.loads(out)
    assert (content["new"], content["trials"]) == (1, 3)
    assert [(arm["arm"], arm["seeds"], arm["role"]) for arm in content["arms"]] == [
        ("plain", 2, "reference"),
        ("our-best", 1, "method"),
    ]
    comparisons = json.loads(pilotstudy("compare", "own", "--metric", "accuracy", "--json", *where)[1])
    assert [(row["row"], row["against"]) for row in comparisons] == [("our-best", "plain")]
    claimed = json.loads(pilotstudy("claims", "own", "--claim", "accuracy: our-best > plain", "--json", *where)[1])[
        "claims"
    ]
    assert claimed[0]["difference"] > 0
    state = json.loads(pilotstudy("list", "--json", *where)[1])[0]
    assert (state["state"], state["done"], state["trials"]) == ("done", 3, 3)
    before = {path: path.read_bytes() for path in (tmp_path / "runs" / "own").rglob("*.*")}
    other = save(tmp_path / "other.npz", arm="our-best", logits=arrays()["logits"])
    refused(pilotstudy("import", "own", "--predictions", other, *where), 2, "our-best, seed 0", "nothing is replaced")
    labels = save(tmp_path / "labels.npz", arm="third", labels=np.zeros(20, int))
    refused(pilotstudy("import", "own", "--predictions", labels, *where), 3, "test images or their labels")
    assert before == {path: path.read_bytes() for path in (tmp_path / "runs" / "own").rglob("*.*")}
    made(tmp_path / "runs" / "trained", points=40, most=1)
    refused(pilotstudy("import", "trained", "--predictions", other, *where), 2, "was trained, not imported")


def test_a_file_may_say_which_image_and_which_split_each_row_is(tmp_path):
    """In one file, in two, or with a prefix: the same trial."""
    random = np.random.default_rng(1)
    logits, labels, row = random.normal(size=(30, 3)), np.arange(30) % 3, random.permutation(30) + 7
    split = np.array(["test", "validation", "test"] * 10)
    test, own = split == "test", {"arm": "mine", "seed": 0}
    one = save(tmp_path / "one.npz", logits=logits, labels=labels, row=row, split=split)
    halves = [
        save(tmp_path / f"{name}.npz", logits=logits[of], labels=labels[of], row=row[of], split=name)
        for name, of in (("test", test), ("validation", ~test))
    ]
    validation = {"logits": logits[~test], "labels": labels[~test], "row": row[~test]}
    prefixed = {f"validation_{name}": values for name, values in validation.items()}
    apart = save(tmp_path / "apart.npz", logits=logits[test], labels=labels[test], rows=row[test], **prefixed, **own)
    trials = [trials_of([part for path in paths for part in read_parts(path)]) for paths in ([one], halves, [apart])]
    assert {trial.key for (trial,) in trials} == {trials[0][0].key}
    pair = trials[0][0].predictions["last", "point"]
    assert pair.test.rows.tolist() == sorted(row[test])
    assert pair.validation.labels.tolist() == labels[~test][np.argsort(row[~test])].tolist()


@pytest.mark.parametrize(
    ("changes", "code", "told"),
    [
        ({"labels": None}, 2, ("expected labels and either logits or probabilities", "found logits, arm, seed")),
        ({"logits": None}, 2, ("expected labels and either logits", "found labels, arm, seed")),
        ({"seed": None}, 2, ("no arm or no seed", "ARM-seed0.npz")),
        ({"seed": -1}, 3, ("seed -1 is not among",)),
        ({"seed": np.arange(2)}, 2, ("seed has 2 values",)),
        ({"arm": "ensemble"}, 2, ("arms.'ensemble'", "none of ensemble")),
        ({"arm": "../up"}, 2, ("arms.'../up'", "letters, digits")),
        ({"arm": "noise"}, 2, ("'noise' has the name of a group",)),
        ({"mode": "MC"}, 2, ("mode 'MC'",)),
        ({"labels": np.arange(20)}, 3, ("label 19 is not among 0 to 2",)),
        ({"labels": np.arange(20) / 2}, 3, ("a label is not a whole number",)),
        ({"labels": np.array(["a"] * 20)}, 3, ("labels are <U1",)),
        ({"labels": np.zeros(19, int)}, 3, ("20 predictions, 19 labels",)),
        ({"logits": np.full((20, 3), np.nan)}, 3, ("20 images", "NaN or infinite")),
        ({"logits": np.full((20, 3), 1e300)}, 3, ("20 images", "NaN or infinite")),
        ({"logits": np.full((20, 4), 0.25)}, 3, ("call them probabilities",)),
        ({"logits": np.zeros(20)}, 3, ("logits are float64 [20]",)),
        ({"logits": None, "probabilities": np.full((20, 3), 0.3)}, 3, ("row 0: probabilities sum to 0.9, not 1",)),
        ({"logits": None, "probabilities": np.tile([1.5, -0.5], (20, 1))}, 3, ("outside [0, 1]",)),
        ({"logits": np.zeros((1, 3)), "labels": np.zeros(1, int)}, 3, ("has 1 image: figures need two",)),
        ({"rows": np.zeros(20, int)}, 3, ("has an image twice",)),
        ({"row": np.zeros(20, int)}, 3, ("has an image twice",)),
        ({"row": np.arange(20), "rows": np.arange(20)}, 2, ("both row and rows",)),
        ({"rwos": np.arange(20)}, 2, ("unknown array 'rwos'", "did you mean 'rows'?")),
        ({"y": np.arange(20)}, 2, ("unknown array 'y'", "known are logits, probabilities, labels")),
        ({"split": "train"}, 2, ("split 'train'",)),
        ({"split": "validation"}, 3, ("no test predictions",)),
        ({"split": np.array(["test"] * 19)}, 3, ("split has 19 values for 20 images",)),
        ({"split": np.array(["test"] * 20), "labels": np.zeros(9, int)}, 3, ("labels has 9 values for 20 images",)),
        ({"classes": np.array(["cat", "dog"])}, 3, ("classes has 2 names", "3 columns")),
        ({"labels": np.array([{}] * 20)}, 3, ("pickled objects", "save plain arrays")),
        ({"validation_logits": np.zeros((9, 3))}, 2, ("expected validation_labels",)),
        ({"validation_logits": 2 * np.eye(4), "validation_labels": np.arange(4)}, 3, ("another number of classes",)),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(pilotstudy, tmp_path, changes, code, told):
    path = save(tmp_path / "mine.npz", **changes)
    refused(pilotstudy("import", "x", "--predictions", path, "--runs-dir", tmp_path / "runs"), code, *told)
    assert not (tmp_path / "runs").exists()


def test_what_does_not_go_together(pilotstudy, tmp_path):
    def refuse(code, *told, name="x", **changes):
        files = save(tmp_path / "a_0.npz", arm=None, seed=None), save(tmp_path / "b_0.npz", **changes)
        refused(pilotstudy("import", name, "--predictions", *files, "--runs-dir", tmp_path / "runs"), code, *told)

    refuse(2, "a, seed 0 is there twice", "a_0.npz and", arm="a")
    refuse(3, "mine, seed 0 has other labels than a, seed 0 for 20 test images", labels=(np.arange(20) + 1) % 3)
    refuse(3, "20 images", "predicts other test images", rows=np.arange(20) + 5)
    refuse(3, "4 classes, and a, seed 0 has 3", logits=np.random.default_rng(1).normal(size=(20, 4)))
    refused(pilotstudy("import", "x", "--predictions", tmp_path / "none.npz"), 3, "there is no such file")
    refuse(2, "NAME '../x': a name is that of a folder", name="../x")
    words = ("import", "x", "--predictions", tmp_path / "a_0.npz", "--runs-dir", tmp_path / "runs")
    refused(pilotstudy(*words, "--reference", "vanila"), 2, "--reference vanila", "known are a")
    (tmp_path / "c.toml").write_text('[[claims]]\nsays = "?"\nholds = "nll: a < b"\n')
    refused(pilotstudy(*words, "--claims", tmp_path / "c.toml"), 2, "claims.0.holds", "unknown arm 'b'")
    (tmp_path / "c.toml").write_text('title = "no claims"\n')
    refused(pilotstudy(*words, "--claims", tmp_path / "c.toml"), 2, "has no [[claims]]")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("name", "content", "code", "told"),
    [
        ("a.csv", "label,arm,seed,score\n0,a,0,1\n", 2, ("no predictions; found label, arm, seed, score", "prob_0")),
        ("a.csv", "arm,seed,p0,p1\na,0,1,0\n", 2, ("no column label; found arm, seed, p0, p1",)),
        ("a.csv", "label,seed,p0,p1\n0,0,1,0\n", 2, ("no arm or no seed", "ARM-seed0.csv")),
        ("a.csv", "label,arm,seed,p1,p2\n0,a,0,1,0\n", 2, ("numbered [1, 2], not from 0 on",)),
        ("a.csv", "label,arm,seed,p0,p1,logit0,logit1\n0,a,0,1,0,1,0\n", 2, ("both logits and probabilities",)),
        ("a.csv", "label,arm,seed,p0,p1\n0,a,0,1,0\n,a,0,1,0\n", 3, ("column label has 1 empty cells",)),
        ("a.csv", "label,arm,seed,p0,p1\n0,a,0,1,x\n0,a,0,1,0\n", 3, ("column p1 holds string",)),
        ("a.csv", "label,arm,seed,p0,p1,split\n0,a,0,1,0,train\n1,a,0,1,0,train\n", 2, ("split 'train'",)),
        ("a.csv", "label,arm,seed,p0,p1,split\n0,a,0,1,0,validation\n1,a,0,1,0,validation\n", 3, ("no test",)),
        ("a.csv", "label,arm,seed,p0,p1\n", 3, ("has no rows",)),
        ("a.csv", "", 3, ("is not a CSV file",)),
        ("a.csv", "label,label,p0,p1\n0,0,1,0\n", 2, ("two columns of the same name",)),
        ("a.parquet", "nonsense", 3, ("not a whole Parquet file",)),
        ("a.npz", "nonsense", 3, ("pickled objects",)),
        ("a.npz", "PK\x03\x04nonsense", 3, ("not a whole NPZ file",)),
        ("a.pkl", "", 2, ("expected a file of predictions: .npz, .parquet, .csv",)),
    ],
)
def test_files_that_cannot_be_read(pilotstudy, tmp_path, name, content, code, told):
    (tmp_path / name).write_text(content)
    refused(pilotstudy("import", "x", "--predictions", tmp_path / name, "--runs-dir", tmp_path / "runs"), code, *told)
