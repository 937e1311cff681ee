"""What a trial's key holds: each kind of thing is changed, in a copy of the package, and the key looked at."""

import dataclasses
import shutil
import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

from pilotstudy import extensions
from pilotstudy.arms import catalogue
from pilotstudy.arms.catalogue import all_arms, arm_named
from pilotstudy.networks.catalogue import NETWORKS, network_names, networks_of, source_of_network
from pilotstudy.runs import keys
from pilotstudy.runs.meaning import _needed, meaning_of
from pilotstudy.storage import PACKAGE
from pilotstudy.study.budget import fixed_trial, trial_with
from tests.support.plans import make_study

TRIED = {"vanilla", "dropout", "pilot-a-aug", "add-a-aug", "data-aug"}


@pytest.fixture
def package(tmp_path) -> Path:
    """A copy of the package, to be changed."""
    copy = tmp_path / "pilotstudy"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "fashion"))
    return copy


@pytest.fixture(autouse=True)
def forgetting():
    """What these files declare is no other test's."""
    yield
    for module in "key_nets", "key_acting":
        extensions._forget(module)


def module_of_arm(arm: str) -> str:
    return arm_named(arm).source.removeprefix("pilotstudy.")


def module_of_network(network: str) -> str:
    return source_of_network(network)[0].removeprefix("pilotstudy.")


def digest(package: Path, arm: str, network: str = "mlp-512") -> str:
    modules = (*keys.TRAINING, module_of_arm(arm), module_of_network(network))
    return keys.digest_of.__wrapped__(modules, package)  # not remembered


def change(package: Path, module: str, old: str, new: str) -> None:
    path = keys.path_of(module, package)
    text = path.read_text()
    assert old in text, (module, old)
    path.write_text(text.replace(old, new, 1))


def test_settings_seed_data_and_recipe_are_in_the_key():
    study = make_study()
    trial = fixed_trial(study, "dropout", 0)
    key = keys.key_of(trial, "a")
    assert key == keys.key_of(fixed_trial(make_study(), "dropout", 0), "a")
    assert key != keys.key_of(trial, "b")
    assert key != keys.key_of(fixed_trial(study, "dropout", 1), "a")
    assert key != keys.key_of(trial_with(study, "dropout", {"rate": 0.25}, 0), "a")
    for part, changes in {
        "training": {"learning_rate": 0.01},
        "data": {"scaling": "standardised"},
        "network": {"name": "cnn"},
    }.items():
        section = getattr(trial, part).model_copy(update=changes)
        assert key != keys.key_of(trial.model_copy(update={part: section}), "a")


def test_what_a_trial_is_given_is_not(monkeypatch):
    study = make_study()
    more = study.model_copy(update={"resources": study.resources.changed({"cpus_per_trial": 2})})
    assert keys.key_of(fixed_trial(study, "vanilla", 0), "a") == keys.key_of(fixed_trial(more, "vanilla", 0), "a")


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("method.pilot", "def loss(self", "# a comment\n    def loss(self"),
        ("method.pilot", '"""Pilot: a', '"""Pilot is a'),
        ("method.pilot", "def record(self, x: Tensor) -> Tensor:", "def record(self, x) -> object:"),
        ("metrics.scores", "BINS = 15", "BINS = 20"),
        ("metrics.registry", "import", "import math\nimport"),
        ("arms.dropout", "rate=settings.rate", "rate=0.1"),  # another arm
        ("arms.pilot", "Range(0.2, 0.95)", "Range(0.1, 0.95)"),  # what a search may choose
        ("arms.pilot", 'role="method"', 'role="baseline"'),
        ("arms.pilot", "ORDER = 1", "ORDER = 3"),
        ("method.augmentation", "self.rate", "0.3"),  # another arm's method
        ("method.surprise", "MASKS, SEED = 4", "MASKS, SEED = 8"),  # no prediction depends on it
        ("networks.cnn", "stride=2", "stride=1"),  # another network
        ("trial.checkpoint", "SHARE = 20", "SHARE = 10"),
        ("data.sources", "HELD_OUT", "HELD_OUT_"),
        ("study.reading", "import tomllib", "import tomllib, math"),
        ("report.plain", "import", "import math\nimport"),
    ],
)
def test_what_decides_nothing_changes_no_key(package, module, old, new):
    before = digest(package, "pilot-a-aug")
    change(package, module, old, new)
    assert digest(package, "pilot-a-aug") == before


def test_a_new_arm_changes_no_key(package):
    before = {arm: digest(package, arm) for arm in all_arms()}
    (package / "arms" / "mine.py").write_text("ORDER = 99\nARMS = []\n")
    assert {arm: digest(package, arm) for arm in all_arms()} == before


@pytest.mark.parametrize(
    ("module", "old", "new", "arms"),
    [
        ("method.pilot", "bound.total / count", "bound.total", {"pilot-a-aug"}),
        ("method.dgm", "SIGMA_MIN = 1e-3", "SIGMA_MIN = 1e-2", {"pilot-a-aug"}),
        ("method.masked", "self.mask_rate *", "0.5 * self.mask_rate *", {"pilot-a-aug", "add-a-aug"}),
        ("method.noise", "self._sigma(layer) * torch", "2 * self._sigma(layer) * torch", {"add-a-aug"}),
        ("method.dropout", "1 - rate", "1 - rate / 2", {"dropout"}),
        ("arms.dropout", "rate=settings.rate", "rate=settings.rate / 2", {"dropout"}),
        ("networks.mlp", "nn.ReLU", "nn.Tanh", TRIED),
        (
            "trial.trainer",
            "loss.total.backward()",
            "loss.cross_entropy.backward()",
            TRIED,
        ),
        ("trial.device", '"highest"', '"medium"', TRIED),
        ("data.splits", "[seed, 20]", "[seed, 21]", TRIED),
    ],
)
def test_code_is_in_the_keys_of_the_trials_that_run_it(package, module, old, new, arms):
    before = {arm: digest(package, arm) for arm in TRIED}
    change(package, module, old, new)
    assert {arm for arm in TRIED if digest(package, arm) != before[arm]} == arms


def test_a_file_that_moves_takes_its_keys_along(package):
    before = digest(package, "pilot-a-aug")
    (package / "method" / "dgm.py").rename(package / "method" / "generative.py")
    for path in package.rglob("*.py"):
        path.write_text(path.read_text().replace("pilotstudy.method.dgm", "pilotstudy.method.generative"))
    assert digest(package, "pilot-a-aug") == before


def test_all_code_that_trials_run_is_known():
    for arm in all_arms():
        for network in NETWORKS:
            reached = keys.closure((*keys.TRAINING, module_of_arm(arm), module_of_network(network)))
            assert {"method.regulariser", "networks.network", "trial.trainer"} <= reached
            assert not {module.split(".")[0] for module in reached} - set(keys.DECIDING_ROOMS)


def test_what_the_entries_of_arms_and_networks_say_is_in_the_key(monkeypatch):
    trial = fixed_trial(make_study(), "dropout", 0)
    key = keys.key_of(trial, "a")

    def changed(**changes) -> str:
        with monkeypatch.context() as patch:
            patch.setitem(catalogue._arms, "dropout", dataclasses.replace(all_arms()["dropout"], **changes))
            return keys.key_of(trial, "a")

    build = all_arms()["dropout"].build
    others = [
        changed(modes=("point",)),
        changed(network={"batchnorm": True}),
        changed(build=partial(build, kind="x")),
        changed(build=partial(build, float)),
        changed(build=lambda settings, network, inputs: build(settings, network, inputs)),
        changed(build=lambda settings, network, inputs: None),
    ]
    assert len({key, *others}) == 7
    assert changed(label="Another", role=None, group="", space={}) == key
    monkeypatch.setitem(NETWORKS, "mlp-512", ("mlp", {"hidden": (64, 64)}))
    assert keys.key_of(trial, "a") != key


@pytest.mark.parametrize(
    "statement",
    [
        "import pilotstudy.method.extra as extra",
        "from ..method.extra import helped",
        "from .extra import helped",
        "from pilotstudy.method.extra import helped",
        "from pilotstudy.method import extra",
        "from pilotstudy.method.sub import helped",
    ],
)
def test_every_form_of_import_is_followed(package, statement):
    (package / "method" / "sub").mkdir()
    helpers = [package / "method" / "extra.py", package / "method" / "sub" / "__init__.py"]
    for helper in helpers:
        helper.write_text("def helped(x):\n    return x\n")
    first = "from pilotstudy.method.activations"
    change(package, "method.dropout", first, f"{statement}\n{first}")
    before = digest(package, "dropout")
    for helper in helpers:
        helper.write_text("def helped(x):\n    return 2 * x\n")
    assert digest(package, "dropout") != before


def test_where_a_name_comes_from_counts(package):
    (package / "method" / "one.py").write_text("def f(x):\n    return x\n")
    (package / "method" / "two.py").write_text("def f(x):\n    return 2 * x\n")
    path = keys.path_of("method.dropout", package)
    code = path.read_text()

    def importing(first: str, second: str) -> str:
        imports = f"from pilotstudy.method.{first} import f\nfrom pilotstudy.method.{second} import f as g\n"
        path.write_text(imports + code)
        return digest(package, "dropout")

    assert importing("one", "two") != importing("two", "one")


LAB = """
import pilotstudy
{import_}
SPACE = {k}
def doubled(regulariser, x):
    return regulariser.network(x) * {k}
def unrelated(x):
    return x * {other}
if True:
    Y = 1
    def within(x):
        return x + {k}
{declared}
"""
IN_CLASS = "class Mine(pilotstudy.Regulariser):\n    def training_logits(self, x):\n        {body}"


@pytest.mark.parametrize(
    ("import_", "body"),
    [
        ("", "return doubled(self, x)"),
        ("", "return x * SPACE"),
        ("", "return within(x)"),
        ("from key_help import helped", "return helped(x)"),
        ("", "from key_help import helped; return helped(x)"),
        ("", "return globals()['doubled'](self, x)"),
    ],
)
def test_what_an_own_arm_needs_is_in_its_key(import_, body):
    def of(k, other=1):
        extensions.load("key_deep.py", f"def deep(x): return x * {k}")
        extensions.load("key_help.py", "from key_deep import deep\ndef helped(x): return deep(x)")
        declared = IN_CLASS.format(body=body)
        extensions.load("key_lab.py", LAB.format(import_=import_, k=k, other=other, declared=declared))
        return meaning_of("key_lab", "Mine")

    assert of(2) != of(3)
    assert of(2) == of(2)
    assert "globals" in body or of(2) == of(2, other=3)


def test_what_has_no_name_of_its_own_needs_all_of_its_file():
    def of(k):
        lab = LAB.format(import_="", k=k, other=1, declared="")
        extensions.load("key_lab.py", lab + "made = lambda settings, network, inputs: doubled(network, 1)")
        return meaning_of("key_lab", "<lambda>")

    assert of(2) != of(3)


def test_modules_of_an_installed_package_are_followed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "keypackage").mkdir()
    (tmp_path / "keypackage" / "__init__.py").write_text("from .blocks import block\ndef make(): return block()\n")
    blocks = tmp_path / "keypackage" / "blocks.py"
    blocks.write_text("def block(): return 1\n")
    import_module("keypackage")
    before = meaning_of("keypackage", "make")
    blocks.write_text("def block(): return 2\n")
    assert meaning_of("keypackage", "make") != before


NETS = """
from functools import partial
import pilotstudy
from torch import nn
from pilotstudy.arms.dropout import build_dropout
from pilotstudy.networks.mlp import mlp
def block(width): return nn.Linear(4, {inner})
def make(shape, classes, *, width=1, block=None, blocks=()):
    return nn.Sequential(nn.Flatten(), nn.Linear(4, width + {k}))
net = {net}
pilotstudy.network("key-net")(net)
pilotstudy.arm("key-arm")(partial(build_dropout))
"""
LOADED = []  # kept, so that no function takes the place of another in memory


def key_of_network(name="key_nets:net", *, net, k=1, inner=1):
    extensions._forget("key_nets")
    extensions.load("key_nets.py", NETS.format(net=net, k=k, inner=inner))
    LOADED.append(sys.modules["key_nets"])
    study = make_study()
    choice = study.network.model_copy(update={"name": name})
    return keys.key_of(fixed_trial(study.model_copy(update={"network": choice}), "vanilla", 0), "a")


@pytest.mark.parametrize("name", ["key_nets:net", "key-net"])
def test_a_network_that_is_a_partial_has_its_code_and_arguments_in_the_key(name):
    of = partial(key_of_network, name)
    assert of(net="partial(make, width=8)") == of(net="partial(make, width=8)")
    assert of(net="partial(make, width=8)") != of(net="partial(make, width=9)")
    assert of(net="partial(make, width=8)", k=1) != of(net="partial(make, width=8)", k=2)
    for net in "partial(make, block=block)", "partial(partial(make, width=1), blocks=[block])":
        assert of(net=net) == of(net=net)  # and not where in memory the function is
        assert of(net=net, inner=1) != of(net=net, inner=2)
    libraries = [of(net=f"partial(make, block=nn.{kind})") for kind in ("ReLU", "Tanh", "ReLU")]
    assert libraries[0] != libraries[1]
    assert libraries[0] == libraries[2]


@pytest.mark.parametrize(
    "net", ["lambda s, c: make(s, c, blocks=[n for n in range(3)])", "type('Net', (), {'__call__': make})()"]
)
def test_a_network_without_a_name_of_its_own_has_a_key(net):
    assert key_of_network(net=net) == key_of_network(net=net)
    assert key_of_network(net=net, k=1) != key_of_network(net=net, k=2)


@pytest.mark.parametrize("net", ["partial(make, width=8)", "partial(mlp, hidden=(4,))"])
def test_what_a_file_declares_is_its_own(net):
    key_of_network(net=net)
    assert networks_of("key_nets") == ["key-net"]
    assert all_arms()["key-arm"].source == "key_nets"
    assert keys.source_of_arm("key-arm") == ("pilotstudy.arms.dropout", "build_dropout")
    extensions._forget("key_nets")
    assert "key-net" not in network_names()
    assert "key-arm" not in all_arms()


ACTING = """
import torch, pilotstudy
from torch import nn
CFG, PARTS = {"k": 1}, {}
def keep(part):
    PARTS["block"] = part
    return part
class Kept:
    pass
%s
class Mine(pilotstudy.Regulariser):
    def training_logits(self, x):
        return PARTS["block"](x) * CFG["k"]
%s
"""


def meaning_with(before="", after=""):
    extensions.load("key_acting.py", ACTING % (before, after))
    return meaning_of("key_acting", "Mine")


@pytest.mark.parametrize(
    "statement",
    [
        "_ = CFG.update(k=%d)",
        "unused, CFG['k'] = 1, %d",
        "for k in [%d]: CFG['k'] = k",
        "alias = CFG; alias |= {'k': %d}",
        "if True:\n    _ = list(map(CFG.update, [{'k': %d}]))",
        "@keep\ndef block(x): return x * %d",
        "@keep\nclass Block(nn.Module):\n    width = %d",
        "_ = keep(%d)",
        "unused = [keep(%d)]",
        "torch.zeros(%d)",
        "run = CFG\nrun.update(k=%d)",
        "study = pilotstudy.Study\nstudy = CFG\nstudy.update(k=%d)",
        "class Base:\n    def __init_subclass__(cls): keep(cls)\nclass Block(Base):\n    width = %d",
    ],
)
def test_what_a_file_does_by_itself_counts(statement):
    for place in "before", "after":
        one, again, other = (meaning_with(**{place: statement % k}) for k in (1, 1, 2))
        assert one == again
        assert one != other


@pytest.mark.parametrize(
    "statement",
    [
        "UNUSED = %d",
        "UNUSED = dict(k=%d)",
        "SPACE = {'rate': pilotstudy.Range(0, %d)}",
        "def unused(x): return CFG.update(k=%d)",
        "@pilotstudy.metric('key_unused', better='lower')\ndef unused(points): return points.p[:, 0] * %d",
        "print(CFG, %d)",
    ],
)
def test_what_changes_nothing_does_not(statement):
    assert meaning_with(after=statement % 1) == meaning_with(after=statement % 2) == meaning_with()


def test_what_a_script_does_with_its_study_does_not_count():
    declared = ACTING % ("", "")
    lines = ["study = pilotstudy.Study.from_dict({'seeds': [0]})"]
    lines += ["run = study.run('inline')", "print(run.table(['nll']), len(repr(run.claims())))"]
    lines += ["frame = run.evaluations.to_pandas()", "if __name__ == '__main__':\n    frame.describe()"]
    whole = _needed(declared, "Mine")
    for number in range(len(lines) + 1):
        assert _needed(declared + "\n".join(lines[:number]), "Mine") == whole
    assert _needed(declared + "\nstudy = CFG\nstudy.update(k=2)", "Mine") != whole


@pytest.mark.parametrize("names", ["helped", "*"])
def test_names_that_are_imported_within_other_statements_are_followed(names):
    def of(k):
        extensions.load("key_help.py", f"def helped(x): return x * {k}")
        trying = f"try:\n    from key_help import {names}\nexcept ImportError:\n    pass"
        body = IN_CLASS.format(body="return helped(x)")
        extensions.load("key_lab.py", f"import pilotstudy\n{trying}\n{body}")
        return meaning_of("key_lab", "Mine")

    assert of(1) != of(2)
