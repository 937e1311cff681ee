"""What is wrong with a study file: all at once, each with its line, in words."""

import pytest

from pilotstudy.errors import InputError
from pilotstudy.study.faults import MOST, shown
from pilotstudy.study.reading import parse_override, read_study, validate_study

GOOD = """\
seeds = [0, 1]
[data]
name = "fashion"
[network]
name = "mlp-512"
[training]
epochs = 3
[arms]
vanilla = {}
dropout = {}
"""


@pytest.fixture
def refusal(tmp_path, monkeypatch):
    """What is said of a study file, by line."""
    monkeypatch.chdir(tmp_path)

    def told(text: str | bytes, **overrides: object) -> list[str]:
        (tmp_path / "my.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(InputError) as refused:
            read_study("my.toml", {key.replace("__", "."): value for key, value in overrides.items()})
        return str(refused.value).split("\n")

    return told


def test_all_faults_at_once_each_with_its_line(refusal):
    text = """\
seeds = 2
epochs = 3
[data]
name = "fashion"
validation = "many"
[trainig]
epochs = 4
[network]
name = "mlp-513"
[arms]
vanilla = { rate = 1 }
dropout = { rate = 1.5 }
light = { method = "dropuot" }
[search]
arms = ["dropout", "l2", "nope"]
ranges = {}
[search.space]
"training.learning_rate" = { low = 2, high = 1 }
training.batch_size = { low = 1, high = 20 }
[[claims]]
says = "a"
hold = "nll: l2 < vanilla"
[[claims]]
says = "b"
holds = "nll: l2 < vanila"
"""
    wanted = [
        (1, "seeds = 2: expected a list of whole numbers, such as [0, 1, 2]"),
        (2, "unknown key 'epochs': it belongs in [training]"),
        (5, "data.validation = 'many': expected a valid integer"),
        (6, "unknown key 'trainig': did you mean 'training'?"),
        (9, "network.name = 'mlp-513': did you mean 'mlp-512'?"),
        (11, "unknown key 'arms.vanilla.rate': arms.vanilla has no settings"),
        (12, "arms.dropout.rate = 1.5: it must be less than 1"),
        (13, "arms.light.method = 'dropuot': unknown arm 'dropuot': did you mean 'dropout'?"),
        (15, "search.arms: unknown arm 'nope'"),
        (16, "unknown key 'search.ranges': did you mean 'space'?"),
        (18, "search.space.training.learning_rate: low must be less than high"),
        (19, "search.space.training.batch_size: it takes whole numbers: add whole = true"),
        (22, "unknown key 'claims.0.hold': did you mean 'holds'?"),
        (25, "claims.1.holds = 'nll: l2 < vanila': unknown arm 'vanila': did you mean 'vanilla'?"),
    ]
    told = refusal(text)
    for line, (number, words) in zip(told, wanted, strict=True):
        assert line.startswith(f"my.toml, line {number}: {words}")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("seeds = [0, 1]", "seeds = [0, 18446744073709551616]", "line 1: seeds.1 = 18446744073709551616: the number"),
        ("seeds = [0, 1]", "seeds = [0, 4611686018427387904]", "line 1: seeds = [0, 4611686018427387904]: seeds must"),
        ("epochs = 3", "epochs = nan", "line 7: training.epochs = nan: expected a finite number"),
        ("epochs = 3", "epochs = 1979-05-27", "line 7: training.epochs = 1979-05-27: a study has no dates"),
        ("epochs = 3", "epochs = 3\ntrain_size = 5", "line 8: unknown key 'training.train_size': it belongs in [data]"),
        ("seeds = [0, 1]", "seed = 2", "line 1: unknown key 'seed': did you mean 'seeds'?"),
        ("epochs = 3", "epochs = 3\nwarmup = 5", "line 8: unknown key 'training.warmup': it belongs in [training.sch"),
        ("epochs = 3", "epochs = 3\ndropout = {}", "line 8: unknown key 'training.dropout': it belongs in [arms]"),
        ("epochs = 3", "epochs = 3\nseeds = [1]", "line 8: unknown key 'training.seeds': it belongs above the first"),
        ("epochs = 3", "epochs = 3\nschedule = { warmup = 9 }", "line 6: training: schedule.warmup = 9 must be less"),
        (
            "epochs = 3",
            "epochs = 3\noptimiser = { name = 'adadelta', rho = 1.5 }",
            "line 8: training.optimiser: adadelta.rho must be at most 1",
        ),
        (
            "[training]\nepochs = 3\n[arms]",
            "[training]\nepochs = 3\noptimiser = 'rprop'\n[arms]\nl2 = {}",
            "line 10: arms.l2: weight_decay = 4e-06: rprop has no weight decay",
        ),
        (
            "[training]",
            "[search]\narms = ['l2']\n[training]\noptimiser = 'rprop'",
            "line 7: search.arms: weight_decay = 4e-06: rprop has no weight decay",
        ),
        ("vanilla = {}", "noise = { method = 'l2' }", "line 9: arms.'noise' has the name of a group of arms"),
        (
            "vanilla = {}",
            "a = { method = 'l2', label = 'X' }\nb = { method = 'dropout', label = 'X' }",
            "line 10: arms.b.label = 'X': it is the label of a, too",
        ),
        (
            "vanilla = {}",
            "vanilla = {}\nb = { method = 'l2', label = 'Vanilla' }",
            "line 10: arms.b.label = 'Vanilla': it is the label of vanilla, too",
        ),
        ("vanilla = {}", "vanilla = 3", "line 9: arms.vanilla = 3: expected a table"),
        (
            "vanilla = {}",
            "x = { method = ['l2', 'vanilla'] }",
            "line 9: arms.x: method = ['l2', 'vanilla']: vanilla does",
        ),
        (
            "epochs = 3",
            f"epochs = 3\noptimiser = {{ momentum = {'9' * 400} }}",
            "line 8: training.optimiser.momentum = 99",
        ),
        ('"fashion"', '""', "line 3: data.name = '': expected a known data set, a folder"),
        ('"fashion"', f"'/{'x' * 300}'", "line 3: data.name = '/xxx"),
        ("vanilla = {}", '"" = {}', "line 9: arms: a key cannot be empty"),
        ("[network]", '[network]\noptions = { a = ["\\u0000"] }', r"network.options.a.0 = '\x00': it has control"),
        ("[network]", "[network]\noptions = { a = 07:32:00 }", "network.options.a = 07:32:00: a study has no dates"),
        ("[training]", "[[training]]", "line 6: training = [{'epochs': 3}]: expected a section: [training] with epo"),
        ("[data]", 'claims = "\\u0000"\n[data]', "line 2: claims = '\\x00': it has control characters"),
        ("[data]", 'claims = "none.toml"\n[data]', "line 2: claims: cannot read 'none.toml': there is no such file"),
        ("[data]", "claims = 3\n[data]", "line 2: claims = 3: expected [[claims]] with says"),
        ("[data]", "name = '../../x'\n[data]", "line 2: name = '../../x': a name is that of a folder, not a path"),
        ("[data]", "uses = ['..']\n[data]", "line 2: uses: '..' is not the name of a Python file"),
        ("[data]", "uses = ['exits.py']\n[data]", "line 2: uses: exits.py, line 2: SystemExit: 3"),
        ("[data]", "uses = ['data.py']\n[data]", "line 2: uses: cannot read 'data.py': there is no such file"),
        ("[data]", "x" * 500 + " = 1\n[data]", "line 2: unknown key"),
    ],
)
def test_each_fault_is_told_in_one_line(refusal, tmp_path, old, new, told):
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(3)\n")
    assert old in GOOD
    (line,) = refusal(GOOD.replace(old, new))
    assert told in line
    assert len(line) < 900
    assert line.isprintable()


def test_missing_sections_are_shown(refusal):
    told = " ".join(refusal(""))
    for words in (
        '[data] with name = "fashion"',
        '[network] with name = "mlp-512"',
        "[training] with epochs",
        "[arms]",
    ):
        assert words in told


def test_what_an_option_says_has_no_line(refusal):
    (line,) = refusal(GOOD, training__epoch=3)
    assert line == "--set training.epoch: unknown key 'training.epoch': did you mean 'epochs'?"
    assert parse_override('search.space."training.learning_rate"=[1e-3]')[1] == [1e-3]
    searched = GOOD + '[search]\narms = ["dropout"]\n'
    (line,) = refusal(searched, **{'search__space__"training.learning_rat"': [1.0]})
    assert line.startswith('--set search.space."training.learning_rat": search.space: unknown name \'training.learni')


def test_claims_in_a_file_of_their_own_have_its_lines(refusal, tmp_path):
    claims = "".join(f'[[claims]]\nsays = "x"\nholds = "nll: {row} < vanilla"\nonly = {only}\n' for row, only in CLAIMS)
    (tmp_path / "claims.toml").write_text(claims)
    (line,) = refusal('claims = "claims.toml"\n' + GOOD)
    assert line.startswith("claims.toml, line 11: claims.1.holds = 'nll: nobody < vanilla': unknown arm 'nobody'")


CLAIMS = (("other", '["other"]'), ("dropout", "[]"), ("nobody", '["my"]'))


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 100_000,
        "x = " + "[" * 2_000 + "]" * 2_000,
        "x = " + "{a=" * 300 + "1" + "}" * 300,
        "a" + ".a" * 100 + " = 1",
        "a" + ".a" * 100_000 + " = 1",
        "a" * 1_000_000 + " = 1",
        "x = " + "9" * 5_000,
        "x = 0x" + "f" * 20_000,
        b"\xff\xfe",
        b"\0",
        "=" * 100,
        "title = 'x'\n" * 2,
        "# much\n" * 700_000,
    ],
    ids=range(13),
)
def test_no_file_is_more_than_can_be_told(refusal, text):
    assert all(len(line) < 600 for line in refusal(text))


def test_no_option_is_more_than_can_be_told(refusal):
    for value in "[" * 100_000, "9" * 5_000:
        with pytest.raises(InputError, match="too deeply"):
            parse_override(f"x={value}")
    assert "nested too deeply" in refusal(GOOD, **{"a" + "__a" * 2_000: 1})[0]


def test_a_folder_is_no_study(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        read_study(str(tmp_path))
    for odd in "\0", "x" * 5_000, "":
        with pytest.raises(InputError, match=r"unknown study|is a folder"):
            read_study(odd)


def test_many_faults_are_counted(refusal):
    told = refusal(GOOD + "".join(f"x{number} = 1\n" for number in range(1_000)))
    assert told[-1].endswith(f"{1_000 - MOST} more faults")
    assert len(told) == MOST + 1


def test_the_name_of_a_file_that_cannot_be_a_runs(tmp_path):
    file = tmp_path / ".hidden.toml"
    file.write_text(GOOD)
    with pytest.raises(InputError, match=r'does not begin with a dot: add name = "\.\."'):
        read_study(str(file))
    file.write_text('name = "seen"\n' + GOOD)
    assert read_study(str(file)).name == "seen"


def test_a_study_from_python_is_told_what_it_has():
    with pytest.raises(InputError, match="expected a text, a number, true, false, a list or a table"):
        validate_study({"title": {1, 2}}, "mine")
    with pytest.raises(InputError, match="mine: the study: the key 3 is not a text"):
        validate_study({3: 4}, "mine")  # type: ignore[dict-item]


def test_values_are_shortened():
    assert shown("x" * 1_000).startswith("'xxx")
    assert len(shown(["x" * 50] * 50)) <= 80
    assert "too large" in shown(16**20_000)
