"""What is looked at before the first trial, and whose code a reader executes."""

import pytest
import torch
from torch import nn

from pilotstudy import extensions
from pilotstudy.arms.catalogue import all_arms
from pilotstudy.errors import InputError
from pilotstudy.metrics.registry import METRICS
from pilotstudy.networks import catalogue
from pilotstudy.runs.folder import Run
from pilotstudy.runs.trust import check_trusted, load_trusted, trust
from pilotstudy.schedule.beforehand import check_metrics, check_models, check_same_recipe
from pilotstudy.schedule.contract import check_arm, check_metric, check_network, images_and_labels, trainer
from pilotstudy.schedule.halving import loss_of
from pilotstudy.study.budget import fixed_trial
from pilotstudy.study.reading import validate_study
from pilotstudy.study.resources import Location
from pilotstudy.study.spec import Search, Used
from pilotstudy.trial.images import TrialImages
from pilotstudy.trial.model import build_model
from tests.support.plans import CONTENT


def study(**changes):
    return validate_study(CONTENT | {"search": None} | changes, "test")


def frozen(tmp_path, **changes) -> Run:
    run = Run(tmp_path / "run")
    run.freeze(study(**changes), Location(), "squares-0")
    return run


@pytest.mark.parametrize(
    "changes",
    [
        {"training": {"epochs": 3, "batch_size": 32}},
        {"training": CONTENT["training"] | {"optimiser": "sgd"}},
        {"network": "cnn"},
        {"data": CONTENT["data"] | {"validation": 50}},
        {"arms": CONTENT["arms"] | {"pilot-a-aug": {"dgm_width": 8, "z": 4}}},
        {"arms": {"vanilla": {"method": "dropout"}}},
    ],
)
def test_the_same_name_with_another_recipe_is_refused(tmp_path, changes):
    run = frozen(tmp_path)
    before = run.files.study.read_bytes()
    with pytest.raises(InputError, match="give it another name with --name"):
        check_same_recipe(run, study(**changes))
    assert run.files.study.read_bytes() == before


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"seeds": [0, 1, 2]},
        {"arms": CONTENT["arms"] | {"dropout": {}}},
        {"arms": {"vanilla": {}}},
        {"search": CONTENT["search"]},
        {"title": "another", "claims": [{"says": "", "holds": "nll: pilot-a-aug < vanilla"}]},
        {"resources": {"cpus_per_trial": 2}},
    ],
)
def test_more_of_the_same_goes_into_the_same_run(tmp_path, changes):
    check_same_recipe(frozen(tmp_path), study(**changes))
    check_same_recipe(Run(tmp_path / "nothing there"), study(**changes))


def test_rows_that_a_study_has_no_more_are_told(tmp_path, capsys):
    run = frozen(tmp_path)
    check_same_recipe(run, study())
    assert capsys.readouterr().err == ""
    check_same_recipe(run, study(arms={"vanilla": {}}))
    told = "run 'run' has earlier rows that are not part of the study as it is now: pilot-a-aug; nothing is deleted\n"
    assert capsys.readouterr().err == told


class Odd(nn.Module):
    def __init__(self, kind: str, inputs: int, classes: int):
        super().__init__()
        self.kind, self.first, self.last = kind, nn.Linear(inputs, 8), nn.Linear(8, classes)

    def forward(self, x):
        logits = self.last(self.first(x.flatten(1)).relu())
        return {"tuple": (logits, x), "dict": {"logits": logits}, "flat": logits.sum(1)}.get(self.kind, logits)


class Two(Odd):
    def forward(self, x, y):
        return super().forward(x + y)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("tuple", "returns a tuple: wrap it so that it returns its logits alone"),
        ("dict", "returns a dict"),
        ("flat", "must return logits of shape"),
        ("two", "takes x, y: wrap it in a module that takes one tensor"),
        ("classes", "it must have as many outputs as there are classes"),
        ("nothing", "gave a NoneType, not a torch module"),
        ("broken", "cannot be made: ZeroDivisionError"),
    ],
)
def test_networks_that_do_not_fit_get_one_line_before_any_trial(kind, says, squares, monkeypatch):
    def odd(shape, classes):
        return {
            "two": lambda: Two("", 64, 3),
            "classes": lambda: Odd("", 64, 7),
            "nothing": lambda: None,
            "broken": lambda: 1 / 0,
        }.get(kind, lambda: Odd(kind, 64, classes))()

    monkeypatch.setitem(catalogue._brought, "odd", odd)
    with pytest.raises(InputError, match=says) as refused:
        check_models(study(network="odd"), squares)
    assert "\n" not in str(refused.value)


LAB = """
from pilotstudy.metrics.registry import metric

@metric("halved", better="higher")
def halved(points):
    return points.confidence / 2
"""


def test_readers_execute_no_code_that_was_never_run_here(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PILOTSTUDY_CACHE", str(tmp_path / "cache"))
    run = frozen(tmp_path, uses=[{"name": "foreign_lab.py", "text": LAB}])
    load_trusted(run)
    assert "halved" not in METRICS
    assert "was never run here" in capsys.readouterr().err
    with pytest.raises(InputError, match="never run here; look at it"):
        check_trusted(run)
    trust([Used(name="foreign_lab.py", text=LAB)])
    check_trusted(run)
    load_trusted(run)
    assert "halved" in METRICS
    extensions._forget("foreign_lab")
    assert "halved" not in METRICS


# The contract


@pytest.mark.parametrize("arm", all_arms())
def test_our_own_arms_keep_the_contract(arm):
    assert [checked for checked in check_arm(all_arms()[arm]) if checked.says] == []


BROKEN = """
import torch
from pilotstudy.arms.arm import Range, Settings
from pilotstudy.arms.catalogue import arm
from pilotstudy.method.regulariser import Regulariser
from pilotstudy.metrics.registry import metric
from pilotstudy.networks.catalogue import network


@arm("forgetful")
class Forgetful(Regulariser):
    steps = 0

    def training_logits(self, x):
        self.steps += 1
        return self.network(x) * (1 + self.steps)


@arm("meddling")
class Meddling(Regulariser):
    def __init__(self, network):
        super().__init__(network)
        with torch.no_grad():
            next(network.parameters()).zero_()


@arm("steady", modes=("point", "mc"))
class Steady(Regulariser):
    pass


@arm("wild")
class Wild(Regulariser):
    def forward(self, x):
        return self.network(x) + torch.rand(1)


@arm("outside", space={"rate": Range(0.5, 1.0)})
class Outside(Regulariser):
    class Settings(Settings):
        rate: float = 0.1

    def __init__(self, network, *, rate):
        super().__init__(network)


@metric("one", better="lower", bounds=(0, 1))
def one(points):
    return points.p[:3, 0]


@metric("placed", better="lower")
def placed(points):
    return points.confidence.cumsum()


@network("unmade")
def unmade(shape, classes):
    raise RuntimeError("no")


@metric("greedy", better="lower")
def greedy(points):
    points.p[:] = 1
    return points.p[:, 0]


@network("random-start")
def random_start(shape, classes):
    import random
    first = torch.nn.Linear(shape[1] ** 2 * shape[0], 4)
    made = torch.nn.Sequential(torch.nn.Flatten(), first, torch.nn.Linear(4, classes))
    torch.nn.init.constant_(made[1].bias, random.random())
    return made
"""


@pytest.fixture
def broken():
    extensions.load("broken_lab.py", BROKEN)
    yield
    extensions._forget("broken_lab")


@pytest.mark.parametrize(
    ("arm", "rule"),
    [
        ("forgetful", "resumes to the bit"),
        ("meddling", "leaves the initial weights alone"),
        ("steady", "samples"),
        ("wild", "point predictions are not random"),
        ("outside", "defaults within the space"),
    ],
)
def test_arms_that_break_a_rule_are_told_which(arm, rule, broken):
    assert [checked.rule for checked in check_arm(all_arms()[arm]) if checked.says] == [rule]


def test_metrics_and_networks_that_break_a_rule_are_told_which(broken):
    assert [c.rule for c in check_metric(METRICS["placed"]) if c.says] == ["no matter the order"]
    assert "a number for each point" in [c.rule for c in check_metric(METRICS["one"]) if c.says]
    assert [c.rule for c in check_network("random-start") if c.says] == ["the same weights for a seed"]


def test_what_breaks_several_rules_is_told_once(broken):
    greedy = [checked.says for checked in check_metric(METRICS["greedy"])]
    assert "read-only" in greedy[0]
    assert greedy[1:] == ["the same"] * 2
    unmade = [checked.says for checked in check_network("unmade")]
    assert "RuntimeError: no" in unmade[0]
    assert unmade[1:] == ["the same"] * 7


# ASHA


@pytest.mark.parametrize(
    ("objectives", "loss"), [(["nll"], 2.0), (["accuracy", "nll"], -0.25), (["ece"], 0.5), (["brier"], None)]
)
def test_halving_judges_by_the_first_objective(objectives, loss):
    search = Search.model_validate({"arms": ["dropout"], "objectives": objectives})
    record = {"validation_nll": 2.0, "validation_accuracy": 0.25, "validation_ece": 0.5}
    assert loss_of(record, search) == loss


TRAINING_ONLY = """
import torch
from torch import nn
from pilotstudy import network, metric


class Aux(nn.Sequential):
    def forward(self, x):
        logits = super().forward(x)
        return (logits, logits) if self.training else logits


def layers(shape, classes):
    return nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], 8), nn.ReLU(), nn.Linear(8, classes)


@network("aux")
def aux(shape, classes):
    return Aux(*layers(shape, classes))


@network("frozen")
def frozen(shape, classes):
    return nn.Sequential(*layers(shape, classes)).requires_grad_(False)


class Choosy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def forward(self, x):
        raise AssertionError("wrong height")


@network("plain")
def plain(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(classes))


@network("choosy")
def choosy(shape, classes):
    return Choosy()
"""


@pytest.mark.parametrize(
    ("network", "why"),
    [("aux", "returns a tuple"), ("frozen", "nothing that can be trained"), ("choosy", "wrong height")],
)
def test_networks_that_only_fail_in_training_are_refused_beforehand(network, why):
    extensions.load("training_only.py", TRAINING_ONLY)
    try:
        with pytest.raises(InputError, match=why):
            check_models(study(network=network, data={"name": "fashion", "validation": 32}), images_and_labels())
    finally:
        extensions.load("training_only.py", "")


@pytest.mark.parametrize(
    "body", ["raise RuntimeError('no')", "return 0.5", "return points.p", "return points.p[:, 0] * float('inf')"]
)
def test_broken_metrics_are_refused_beforehand(body):
    extensions.load(
        "broken_metric.py", f"from pilotstudy import metric\n@metric('odd', better='lower')\ndef odd(points): {body}"
    )
    try:
        with pytest.raises(InputError, match="metric 'odd'"):
            check_metrics(4)
    finally:
        extensions.load("broken_metric.py", "")


def test_metrics_may_be_lists_and_columns():
    text = "from pilotstudy import metric\n@metric('odd', better='lower')\ndef odd(points): return [[True]] * "
    extensions.load("broken_metric.py", f"{text}len(points.labels)")
    check_metrics(4)
    extensions.load("broken_metric.py", "")


def test_settings_that_no_record_can_hold_are_refused():
    text = "import pilotstudy\n@pilotstudy.arm('listed')\nclass Listed(pilotstudy.Regulariser):\n    class Settings("
    with pytest.raises(InputError, match="'w' must be a number"):
        extensions.load("listed_lab.py", f"{text}pilotstudy.Settings):\n        w: list[float] = [1.0]")
    with pytest.raises(InputError, match="must be a subclass"):
        extensions.load("listed_lab.py", "import pilotstudy\n@pilotstudy.arm('listed')\nclass Listed: pass")


def test_parameters_of_an_arm_are_trained():
    text = """
import torch, pilotstudy
@pilotstudy.arm('scaled')
class Scaled(pilotstudy.Regulariser):
    def __init__(self, network):
        super().__init__(network)
        self.scale = torch.nn.Parameter(torch.ones(1))
    def training_logits(self, x):
        return self.network(x) * self.scale
"""
    extensions.load("scaled_lab.py", text)
    try:
        trained = trainer("scaled")
        trained.train_epoch()
        assert trained.regulariser.scale.item() != 1
    finally:
        extensions.load("scaled_lab.py", "")


SEEDED = """
import torch
from torch import nn
from pilotstudy import network


@network("seeded")
def seeded(shape, classes):
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(classes))


class Restless(nn.Sequential):
    def forward(self, x):
        return nn.functional.dropout(super().forward(x))


@network("restless")
def restless(shape, classes):
    return Restless(nn.Flatten(), nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(classes))
"""


@pytest.mark.parametrize(
    ("network", "why"), [("seeded", "two seeds are equal"), ("restless", "predictions are random")]
)
def test_networks_that_seeds_do_not_change_or_that_draw_are_told(network, why):
    extensions.load("seeded_lab.py", SEEDED)
    try:
        assert [why in each.says for each in check_network(network)].count(True) == 1
    finally:
        extensions.load("seeded_lab.py", "")


@pytest.mark.parametrize(
    ("said", "why"), [("role='hero'", "its role must be one of"), ("modes=('mc',)", "its modes must be")]
)
def test_declarations_that_no_reader_understands_are_refused(said, why):
    text = f"import pilotstudy\n@pilotstudy.arm('odd', {said})\nclass Odd(pilotstudy.Regulariser): pass"
    with pytest.raises(InputError, match=why):
        extensions.load("odd_lab.py", text)


def test_a_run_says_when_its_code_was_edited(tmp_path, capsys):
    run = frozen(tmp_path, uses=[{"name": "edited_lab.py", "text": "a = 1"}])
    check_same_recipe(run, study(uses=[{"name": "edited_lab.py", "text": "a = 1"}]))
    assert "another than before" not in capsys.readouterr().err
    check_same_recipe(run, study(uses=[{"name": "edited_lab.py", "text": "a = 2"}]))
    assert "edited_lab.py is another than before" in capsys.readouterr().err


def test_a_network_without_hidden_layers_trains_with_arms_that_need_none():
    extensions.load("training_only.py", TRAINING_ONLY)
    small = {"network": "plain", "data": {"name": "fashion", "validation": 32}}
    try:
        check_models(study(**small, arms={"vanilla": {}, "l2": {}, "data-aug": {}}, claims=[]), images_and_labels())
        with pytest.raises(InputError, match="no layers"):
            check_models(study(**small, arms={"dropout": {}}, claims=[]), images_and_labels())
    finally:
        extensions.load("training_only.py", "")


def told_of(capsys, squares, **training) -> str:
    small = {"network": {"name": "mlp-512"}, "arms": {"vanilla": {}, "swag": {}, "sgld": {}}, "claims": []}
    check_models(study(**small, training=CONTENT["training"] | training), squares)
    return capsys.readouterr().err


def test_that_patience_may_end_a_training_before_weights_are_kept_is_told_once(squares, capsys):
    assert told_of(capsys, squares) == ""
    told = told_of(capsys, squares, patience=1)
    assert told.startswith("swag: its sampled predictions are of weights from the last part")
    assert told.count("patience") == 2


OWN_LAYERS = """
from torch import nn
from pilotstudy import network


class Own(nn.Module):
    def __init__(self, layers, classes):
        super().__init__()
        self.first, self.second = nn.LazyLinear(8), nn.Linear(8, classes)
        self.layers = layers

    def forward(self, x):
        return self.second(self.first(x.flatten(1)).relu())


for name, layers in {"modules": nn.ModuleList([nn.Linear(1, 1)]), "number": 2, "text": "first", "numbers": [8]}.items():
    network(f"own-{name}")(lambda shape, classes, layers=layers: Own(layers, classes))
"""


@pytest.mark.parametrize("kind", ["modules", "number", "text", "numbers"])
def test_an_attribute_layers_that_holds_no_names_is_the_networks_own(kind):
    extensions.load("own_layers.py", OWN_LAYERS)
    changes = {"network": f"own-{kind}", "data": {"name": "fashion", "validation": 32}, "claims": []}
    small = study(**changes, arms={"dropout": {}, "pilot-a-aug": {"dgm_width": 8, "z": 2}})
    data, cpu = images_and_labels(), torch.device("cpu")
    try:
        check_models(small, data)
        described = TrialImages(small.data, data, cpu).described
        built = build_model(fixed_trial(small, "dropout", 0), data.shape, len(data.classes), described, cpu)
        assert built.activations.layers == ["first"]
    finally:
        extensions.load("own_layers.py", "")


@pytest.mark.parametrize("arm", ["vanilla", "l2", "dropout"])
@pytest.mark.parametrize("network", ["mlp-512", "resnet-20"])
@pytest.mark.parametrize(("layers", "why"), [(["layer0"], "no layer 'layer0'"), (["logits"], "network's output")])
def test_layers_that_a_network_does_not_have_are_refused_for_every_arm(arm, network, layers, why):
    changes = {"network": {"name": network, "layers": layers}, "data": {"name": "fashion", "validation": 32}}
    with pytest.raises(InputError, match=why):
        check_models(study(**changes, arms={arm: {}}, claims=[]), images_and_labels())
