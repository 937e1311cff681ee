"""Sizes are bounded, and runs stay in their folder: refused in a line, at once, before anything is written."""

import json

import pytest

from pilotstudy.errors import InputError
from pilotstudy.runs.folder import Run
from pilotstudy.study import spec
from pilotstudy.study.naming import check_run_name
from tests.support.command_line import refused

TRAIN = ("train", "quickstart", "--arm", "vanilla")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run", "quickstart", "--dry-run", "--seeds", 10**9), ("--seeds", "10000")),
        (("run", "quickstart", "--dry-run", "--seeds", spec.MOST + 1), ("--seeds",)),
        (("run", "quickstart", "--dry-run", "--seeds", 0), ("--seeds",)),
        (("run", "quickstart", "--dry-run", "--seeds", -3), ("--seeds",)),
        (("run", "quickstart", "--dry-run", "--trials", 10**9), ("--trials",)),
        (("run", "quickstart", "--dry-run", "--epochs", 10**9), ("--epochs: training.epochs = 1000000000",)),
        (("run", "quickstart", "--dry-run", "--train-size", 2**70), ("--train-size: data.train_size",)),
        ((*TRAIN, "--set", "data.image_size=100000"), ("data.image_size = 100000",)),
        ((*TRAIN, "--seed", 2**64), ("--seed",)),
        ((*TRAIN, "--set", f"seeds=[{2**64}]"), ("--set seeds", "too large")),
        (
            (*TRAIN, "--set", "network.options.hidden=[1000000000]"),
            ("network 'mlp-512' would have about 8e+11 weights",),
        ),
        ((*TRAIN, "--set", "network.options.hidden=[100000, 100000]"), ("about 1e+10 weights",)),
        ((*TRAIN, "--set", "network.name=mlp", "--set", "network.options.depth=1000000000"), ("about 3e+11 weights",)),
        ((*TRAIN, "--set", "network.name=resnet", "--set", "network.options.width=1000000"), ("about 1e+12 weights",)),
        ((*TRAIN, "--set", 'network.options.hidden="wide"'), ("network 'mlp-512' cannot be made",)),
        ((*TRAIN, "--set", f"x={'[' * 5000}"), ("--set x", "nested too deeply")),
        (("run", "quickstart", "--name", "../out"), ("--name '../out'", "not a path")),
        (("run", "quickstart", "--name", ""), ("--name ''", "empty")),
        (("run", "quickstart", "--dry-run", "--name", "."), ("begin with a dot",)),
        (("run", "quickstart", "--set", "name=/tmp/out"), ("--set name: name = '/tmp/out'", "not a path")),
        (("submit", "quickstart", "--runs-dir", "/runs", "--name", "a/b"), ("--name 'a/b'", "not a path")),
    ],
)
def test_out_of_bounds(pilotstudy, tmp_path, monkeypatch, words, told):
    monkeypatch.chdir(tmp_path)
    refused(pilotstudy(*words), 2, *told)
    assert list(tmp_path.iterdir()) == []


def test_the_largest_study_is_counted_at_once(pilotstudy):
    words = ("--seeds", spec.MOST, "--trials", 10**6, "--epochs", 100_000)
    code, out, _ = pilotstudy("run", "quickstart", "--dry-run", *words)
    assert code == 0
    assert "1000000" in out


def test_a_dry_run_until_decided_tells_the_least_and_the_most(pilotstudy):
    code, out, _ = pilotstudy("run", "quickstart", "--dry-run", "--until-decided", "--max-seeds", 8, "--json")
    assert code == 0
    assert json.loads(out) == [
        {"phase": "arms", "least": 9, "most": 24},
        {"phase": "search", "least": 6, "most": 6},
        {"phase": "confirm", "least": 6, "most": 16},
    ]


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        ".",
        "..",
        "a/b",
        "/a",
        "a\\b",
        "a\0",
        "a\n",
        "\x1b[31m",
        "\u202e",
        ".a",
        "a.",
        "a ",
        "x" * 101,
        "🦆" * 60,
    ],
)
def test_names_that_a_run_cannot_have(tmp_path, name):
    with pytest.raises(InputError):
        Run.named(name, tmp_path)


@pytest.mark.parametrize("name", ["a", "my-study", "my study 2", "a.b", "é", "x" * 100, "-", "~"])
def test_names_that_a_run_can_have(tmp_path, name):
    assert check_run_name(name) == name
    assert Run.named(name, tmp_path).files.study.parent.parent == tmp_path
