"""Networks, arms and metrics that a study brings along, rows of one method, and what a search may choose."""

import copy
import math
import subprocess
import sys

import pytest
import torch

from pilotstudy import extensions
from pilotstudy.arms.catalogue import all_arms, arm_named
from pilotstudy.errors import InputError
from pilotstudy.metrics.registry import METRICS
from pilotstudy.runs.keys import key_of
from pilotstudy.study.budget import fixed_trial, planned_rows, trial_with
from pilotstudy.study.reading import read_study, validate_study
from pilotstudy.study.rows import arm_of
from pilotstudy.study.space import space_of, start_of
from pilotstudy.study.toml import toml_text
from pilotstudy.trial.trainer import Trainer
from tests.support import plans
from tests.support.squares import make_trial

LAB = """
import torch
from torch import nn
from pilotstudy.arms.arm import Range, Settings
from pilotstudy.arms.catalogue import arm
from pilotstudy.method.regulariser import Regulariser
from pilotstudy.metrics.registry import metric
from pilotstudy.networks.catalogue import network

SCALE = 2


@network("tiny")
def tiny(shape, classes, *, width=4):
    first = nn.Linear(shape[0] * shape[1] * shape[2], width)
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), nn.Linear(width, classes))


@arm("scaled", "logits times two", space={"by": Range(0.5, 4)}, label="Scaled")
class Scaled(Regulariser):
    class Settings(Settings):
        by: float = 2.0

    def __init__(self, network, *, by):
        super().__init__(network)
        self.by = by * SCALE

    def cross_entropy(self, logits, y):
        return super().cross_entropy(self.by * logits, y)


@metric("wrong", better="lower", bounds=(0, 1), objective=True, every_epoch=True)
def wrong(points):
    return 1 - points.correct
"""
STUDY = """
title = "Mine"
uses = ["some_lab.py"]
network = { name = "tiny", options = { width = 3 } }
[data]
name = "squares"
validation = 60
[training]
epochs = 2
batch_size = 32
[arms]
vanilla = {}
scaled = { by = 1.5 }
dropout-light = { method = "dropout", rate = 0.2, label = "Dropout 0.2" }
both = { method = ["pilot-a-aug", "dropout"], rate = 0.1, dgm_width = 8, z = 2 }
[[claims]]
says = "light is better"
holds = "wrong: dropout-light@mc < scaled"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "some_lab.py").write_text(LAB)
    (tmp_path / "mine.toml").write_text(STUDY)
    yield tmp_path
    extensions._forget("some_lab")


def changed(folder, old, new):
    text = (folder / "some_lab.py").read_text()
    assert old in text
    (folder / "some_lab.py").write_text(text.replace(old, new))
    return read_study(str(folder / "mine.toml"))


def key(study, arm="scaled"):
    return key_of(fixed_trial(study, arm, 0), "data")


def test_what_a_file_declares_is_known_and_comes_with_the_study(folder):
    study = read_study(str(folder / "mine.toml"))
    assert study.uses[0].text == LAB
    assert {"scaled"} <= set(all_arms())
    assert "wrong" in METRICS
    # As a job has it: one text, with the code in it.
    (folder / "sent.toml").write_text(toml_text(study.model_dump()))
    (folder / "some_lab.py").unlink()
    sent = read_study(str(folder / "sent.toml"))
    assert sent.model_copy(update={"name": "mine"}) == study
    extensions._forget("some_lab")
    assert "scaled" not in all_arms()
    assert "wrong" not in METRICS
    assert "some_lab" not in sys.modules


def test_a_key_holds_the_code_that_its_trial_needs(folder):
    study = read_study(str(folder / "mine.toml"))
    scaled, vanilla = key(study), key(study, "vanilla")
    for old, new in [
        ("1 - points.correct", "points.correct * 0"),
        ('label="Scaled"', 'label="Another"'),
        ("Range(0.5, 4)", "Range(0.1, 4)"),
        ("SCALE = 2", "SCALE = 2  # a comment\nUNUSED = 3"),
    ]:
        same = changed(folder, old, new)
        assert (key(same), key(same, "vanilla")) == (scaled, vanilla), new
    other = changed(folder, "SCALE = 2", "SCALE = 3")
    assert key(other) != scaled
    assert key(other, "vanilla") == vanilla
    both = key(other, "both")
    network = changed(folder, "nn.ReLU()", "nn.Tanh()")
    assert key(network, "vanilla") != vanilla
    assert key(network, "both") != both


def test_rows_of_one_method_are_rows_of_their_own(folder):
    study = read_study(str(folder / "mine.toml"))
    light, composed = arm_of(study, "dropout-light"), arm_of(study, "both")
    assert (light.label, light.sampled_label, light.role) == ("Dropout 0.2", "Dropout 0.2, sampled", "baseline")
    assert (composed.label, composed.modes, composed.role) == ("Pilot a-aug + dropout", ("point", "mc"), "method")
    assert fixed_trial(study, "dropout-light", 0).arm == "dropout"
    assert fixed_trial(study, "both", 0).arm == "pilot-a-aug+dropout"
    plain = validate_study(study.model_dump() | {"arms": {"dropout": {"rate": 0.2}}, "claims": []}, "test")
    assert key(study, "dropout-light") == key(plain, "dropout")
    assert [str(row) for row in planned_rows(study)][2:6] == ["dropout-light", "dropout-light@mc", "both", "both@mc"]


@pytest.mark.parametrize(
    ("method", "says"),
    [
        (["dropout", "pilot-a-aug"], "pilot-a-aug has a loss or weights of its own, so it must come first"),
        (["pilot-a-aug", "add-a-aug"], "both have a setting 'variance_in'"),
        (["pilot-a-aug", "vanilla"], "vanilla does nothing to a network"),
        (["dropout", "dropout"], "both have a setting 'rate'"),
        (["r-drop", "dropout"], "both have a setting 'rate'"),
        (
            ["mixup", "label-smoothing"],
            "label-smoothing has a loss or weights of its own, so it must come first, and only one can",
        ),
        (["pilot-a-aug", "sam"], "sam has a loss or weights of its own, so it must come first, and only one can"),
        ([], "expected the name of an arm, or a list of names"),
        (3, "expected the name of an arm, or a list of names"),
        ("nobody", "unknown arm 'nobody'"),
        ("dropout+l2", "expected the name of an arm"),
    ],
)
def test_methods_that_make_no_sense_are_refused(method, says):
    content = {"title": "", "data": {"name": "x"}, "network": "mlp-512", "training": {"epochs": 1}}
    with pytest.raises(InputError, match=says):
        validate_study(content | {"arms": {"mine": {"method": method}}}, "test")


def test_a_composed_arm_does_both(squares):
    from pilotstudy.arms.arm import Inputs
    from pilotstudy.networks.catalogue import build_network

    arm = arm_named("pilot-a-aug+dropout")
    torch.manual_seed(0)
    network = build_network("mlp", squares.shape, 3, {"hidden": [8, 8]})
    inputs = Inputs(torch.zeros(1, *squares.shape), torch.zeros(1), torch.ones(1), network.layers)
    built = arm.build(arm.settings(rate=0.5, dgm_width=8, z=2), network, inputs)
    assert [type(part).__name__ for part in (built, built.network, built.network.network)] == [
        "Pilot",
        "Dropout",
        "Network",
    ]
    x, y = torch.rand(32, *squares.shape), torch.arange(32) % 3
    built.train()
    assert math.isfinite(built.loss(x, y).total.item())
    assert torch.equal(built.predict(x), network(x))
    assert not torch.allclose(built.predict(x, samples=5), built.predict(x, samples=5))


@pytest.mark.parametrize("network", ["mlp-512", "resnet-20"])
@pytest.mark.parametrize("arm", [arm.name for arm in all_arms().values() if arm.group == "modern"])
def test_modern_arms_act_around_others(arm, network, squares):
    trial = make_trial(network=network, epochs=1)
    method = f"{arm}+add-a-drop+batchnorm" if network == "mlp-512" else f"{arm}+l2"
    settings = arm_named(method).settings().model_dump()
    trainer = Trainer(trial.model_copy(update={"arm": method, "settings": settings}), squares, torch.device("cpu"))
    before = copy.deepcopy(trainer.regulariser.innermost.state_dict())
    record = trainer.train_epoch()
    assert math.isfinite(record["train_loss"])
    moved = trainer.regulariser.innermost.state_dict()
    assert all(not torch.equal(moved[name], value) for name, value in before.items() if name.endswith("weight"))


CONTENT = {
    "title": "",
    "data": {"name": "x"},
    "network": "mlp-512",
    "training": {"epochs": 4, "learning_rate": 0.01},
    "arms": {"vanilla": {}, "light": {"method": "dropout", "rate": 0.05}},
}


def searched(space, arms=("vanilla", "light")):
    return validate_study(CONTENT | {"search": {"arms": list(arms), "trials": 4, "space": space}}, "test")


def test_a_space_is_the_arms_own_with_what_the_file_says():
    rates = {"low": 1e-3, "high": 1e-1, "log": True}
    space = {"training.learning_rate": rates, "light": {"rate": [0.1, 0.2]}, "training": {"batch_size": [64, 128]}}
    study = searched(space)
    assert set(space_of(study, "vanilla")) == {"training.learning_rate", "training.batch_size"}
    assert space_of(study, "light")["rate"].options == (0.1, 0.2)
    assert start_of(study, "light") == {"rate": 0.05, "training.learning_rate": 0.01, "training.batch_size": 128}
    proposal = {"rate": 0.1, "training.learning_rate": 0.02, "training.batch_size": 64}
    trial = trial_with(study, "light", proposal, 3)
    assert (trial.settings, trial.training.learning_rate, trial.training.batch_size) == ({"rate": 0.1}, 0.02, 64)
    assert trial.training.epochs == 4


@pytest.mark.parametrize(
    ("space", "says"),
    [
        ({"training.learning_rat": [0.1]}, "did you mean 'training.learning_rate'"),
        ({"training.epochs": [3]}, "unknown name 'training.epochs': known are"),
        ({"ligth": {"rate": [0.1]}}, "search.space.ligth: search.arms has no 'ligth': did you mean 'light'"),
        ({"l2": {"weight_decay": [0.1]}}, "search.space.l2: search.arms has no 'l2': known are"),
        ({"rat": {"low": 0, "high": 1}}, "did you mean 'rate'"),
        ({"light": {"mask_rate": [0.1]}}, "unknown name 'mask_rate'|light has no setting 'mask_rate'"),
        ({"rate": {"low": 0.5, "high": 1.5}}, "light cannot have 1.5"),
        ({"rate": {"low": 0.5, "high": 0.1}}, "low must be less than high"),
        ({"rate": {"low": 0, "high": 0.1, "log": True}}, "a logarithmic range must be above 0"),
        ({"rate": {"low": 0.1}}, "search.space.rate.high"),
        ({"rate": []}, "at least one"),
        ({"rate": "high"}, "expected { low = .., high = .. } or a list of choices"),
        ({"training.gradient_clip": {"low": 0.1, "high": 1}}, "needs a value in the study"),
        ({"training.batch_size": {"low": 8, "high": 64}}, "add whole = true"),
        ({"training.batch_size": [1, 64]}, "light cannot have 1: it must be greater than or equal to 2"),
        ({}, "'vanilla' has nothing to search"),
    ],
)
def test_a_wrong_space_is_refused(space, says):
    with pytest.raises(InputError, match=says):
        searched(space, ("vanilla", "light") if "vanilla" in says else ("light",))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError.*listed in `uses` before"),
        ("\n\n1 / 0", r"other_lab.py, line 3: ZeroDivisionError"),
        ("def f(:", r"other_lab.py, line 1: SyntaxError"),
        ("from pilotstudy.arms.catalogue import arm\narm('dropout')(print)", "there is an arm 'dropout' already"),
        (
            "from pilotstudy.arms.catalogue import arm\n@arm('Bad name')\ndef f(*a): ...",
            "a name has lower-case letters",
        ),
        ("import pilotstudy\n@pilotstudy.arm\nclass A(pilotstudy.Regulariser): ...", r'write @pilotstudy.arm\("NAME"'),
        ("import pilotstudy\n@pilotstudy.network\ndef net(shape, classes): ...", r'write @pilotstudy.network\("NAME"'),
        ("import pilotstudy\n@pilotstudy.metric\ndef mine(points): ...", r'write @pilotstudy.metric\("NAME"'),
        ("import pilotstudy\npilotstudy.arm(3)", "with a name, which is a text"),
    ],
)
def test_a_file_that_fails_is_told_with_its_line(tmp_path, text, says):
    (tmp_path / "other_lab.py").write_text(text)
    (tmp_path / "mine.toml").write_text(STUDY.replace("some_lab", "other_lab"))
    with pytest.raises(InputError, match=says):
        read_study(str(tmp_path / "mine.toml"))
    assert "other_lab" not in sys.modules


def test_our_arms_have_their_names_before_a_users_file_is_read():
    declaring = "import pilotstudy\n@pilotstudy.arm('dropout')\nclass Mine(pilotstudy.Regulariser): ..."
    process = subprocess.run([sys.executable, "-c", declaring], capture_output=True, text=True, check=False)
    assert "there is an arm 'dropout' already, of pilotstudy.arms.dropout: choose another name" in process.stderr


@pytest.mark.parametrize("name", ["torch.py", "json.py", "lab.txt", "my lab.py", "missing.py"])
def test_a_file_that_cannot_be_used_is_refused(tmp_path, name):
    if name != "missing.py":
        (tmp_path / name).write_text("")
    (tmp_path / "mine.toml").write_text(STUDY.replace("some_lab.py", name))
    with pytest.raises(InputError, match="uses"):
        read_study(str(tmp_path / "mine.toml"))


@pytest.mark.parametrize(
    "text", ["a\nb", '\na\\n\n"""', "it's\n'''", "ends with '\n'", "\r\n", "\x7f\n", "\x01\n", "é\t\n"]
)
def test_texts_of_several_lines_come_back_as_they_were(text):
    import tomllib

    assert tomllib.loads(toml_text({"text": text, "more": [text], "table": {text: text}}))["text"] == text


def test_rows_of_one_method_without_labels_can_be_told_apart():
    arms = {"dropout": {}, "less": {"method": "dropout", "rate": 0.2}, "named": {"method": "dropout", "label": "Named"}}
    study = validate_study(plans.CONTENT | {"search": None, "arms": arms}, "test")
    assert [arm_of(study, name).label for name in arms] == ["Dropout", "Dropout (less)", "Named"]
    alone = validate_study(plans.CONTENT | {"search": None, "arms": {"less": arms["less"]}}, "test")
    assert arm_of(alone, "less").label == "Dropout"
