"""What commands print fits the width that there is, and pipes are not cut."""

import os
import pty
import subprocess
import sys

import pytest

from pilotstudy.cli import read
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.runs.folder import Run
from pilotstudy.study import reading
from tests.support.made_run import Maker, content, corrupted, made

ARMS = ("vanilla", "pilot-a-aug", "dropout", "multi-sample-dropout", "add-a-drop-stopgrad", "variational-dropout")
CLAIMS = [
    {"says": "Pilot a-aug has a lower NLL than vanilla", "holds": "nll: pilot-a-aug < vanilla"},
    {
        "says": "Monte Carlo Pilot loses less accuracy against Pilot than Monte Carlo dropout against dropout",
        "holds": "accuracy: pilot-a-aug - pilot-a-aug@mc < dropout - dropout@mc",
    },
]
COMMANDS = ("table", "claims", "results", "compare", "tests", "ensembles", "status")


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Run:
    """A run of arms with long names, a search, claims and further test sets."""
    study = reading.validate_study(content(arms={name: {} for name in ARMS}, claims=CLAIMS, name="many"), "made")
    tests = corrupted(80, families=("noise",), strengths=2)
    return Maker(tmp_path_factory.mktemp("runs") / "many", study, points=80, tests=tests).make()


@pytest.mark.parametrize("columns", [80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(many, columns, pilotstudy, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    where = ("--runs-dir", many.files.folder.parent)
    printed = {command: pilotstudy(command, "many", *where)[1] for command in COMMANDS}
    printed["list"] = pilotstudy("list", *where)[1]
    for words in "arms", "studies", "data list", "data prepare fashion", "run quickstart --dry-run":
        printed[words] = pilotstudy(*words.split())[1]
    printed["paper"] = pilotstudy("table", "many", "--like", "paper", "--cost", *where)[1]
    read.print_ending(many)
    printed["run"] = capsys.readouterr().out
    for command, text in printed.items():
        wide = [line for line in text.splitlines() if len(line) > columns and str(many.files.folder.parent) not in line]
        assert not wide, command
        assert text


def test_nothing_is_lost_without_a_word(many, pilotstudy, monkeypatch):
    where = ("many", "--runs-dir", many.files.folder.parent)
    monkeypatch.delenv("COLUMNS", raising=False)
    piped = {command: pilotstudy(command, *where)[1] for command in COMMANDS}
    monkeypatch.setenv("COLUMNS", "80")
    for command, whole in piped.items():
        narrow = pilotstudy(command, *where)[1]
        assert "--wide" not in whole
        assert ("--wide" in narrow) == (command in ("table", "results", "compare", "ensembles")), command
        assert pilotstudy(command, *where, "--wide")[1].splitlines()[-1:] == whole.splitlines()[-1:]
    assert "95 %" in piped["table"].splitlines()[2]


def test_narrow_tables_have_the_figures_that_matter_and_marks_that_are_explained(many, pilotstudy, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    where = ("many", "--runs-dir", many.files.folder.parent)
    table = pilotstudy("table", *where)[1]
    heading = next(line for line in table.splitlines() if "accuracy" in line)
    assert heading.split()[:4] == ["seeds", "accuracy", "NLL", "ECE"]
    for text in (table, *(pilotstudy(command, *where)[1] for command in ("results", "compare", "ensembles", "tests"))):
        assert " °" in text or " *" in text
        assert "° the best" in text or "° has the best mean" in text


def test_the_ending_of_a_run_has_a_table_the_claims_and_the_answer(many, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    read.print_ending(many)
    out = capsys.readouterr().out
    evidence = RunEvidence(many)
    places = [out.index(words) for words in ("test figures at the last epoch", "Of 2 claims, ", "Take Pilot")]
    assert places == sorted(places)
    assert all(claim.says.split()[0] in out for claim in evidence.study.claims)
    assert out.count("HOLDS") + out.count("UNDECIDED") + out.count("FAILS") == 2


def test_one_claim_is_one_claim(tmp_path, pilotstudy):
    made(tmp_path / "one", points=40, search=None)
    assert "\nOf 1 claim, " in pilotstudy("claims", "one", "--runs-dir", tmp_path)[1]


@pytest.mark.parametrize("columns", [80, 132])
def test_on_a_terminal_its_own_width_counts(many, columns):
    """A real one, of which the kernel knows the size."""
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "PILOTSTUDY_RUNS")}
    words = [sys.executable, "-m", "pilotstudy", "table", str(many.files.folder)]
    with subprocess.Popen(words, stdout=theirs, env=environment) as process:
        os.close(theirs)
        out = b""
        try:
            while read_now := os.read(ours, 65536):
                out += read_now
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    assert process.returncode == 0
    lines = out.decode().replace("\r\n", "\n").splitlines()
    assert columns - 20 < max(map(len, lines)) <= columns
