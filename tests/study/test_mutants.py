"""Study files that are almost right: each loads, or is refused in words. PILOTSTUDY_MUTANTS=5000 tries more of them."""

import os
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest

from pilotstudy import extensions
from pilotstudy.errors import DataError, InputError
from pilotstudy.runs.keys import key_of
from pilotstudy.storage import packaged
from pilotstudy.study.budget import counts, fixed_trial
from pilotstudy.study.reading import read_study
from pilotstudy.study.toml import toml_text
from tests.support.mutants import RICH, mutants

NUMBER = int(os.environ.get("PILOTSTUDY_MUTANTS", "150"))
SECONDS = 60  # for one of them: more, and it hangs
LAB = "UNITS = 8\n"


@pytest.fixture
def studies(tmp_path) -> dict[str, str]:
    """The built-in studies and one with every feature; mutants of them can be written beside what they read."""
    for folder in "first", "again":
        shutil.copytree(packaged("studies"), tmp_path / folder)
        (tmp_path / folder / "mutant_lab.py").write_text(LAB)
        (tmp_path / folder / "rich.toml").write_text(RICH)
    yield {path.stem: path.read_text() for path in (tmp_path / "first").glob("*.toml")}
    extensions._forget("mutant_lab")


def test_mutants_load_or_are_refused_in_words(studies, tmp_path):
    for name in studies:
        load(tmp_path / f"first/{name}.toml")  # whole, they load
    found, refusals = Counter(), []
    for name, text in mutants(studies, NUMBER):
        path = tmp_path / f"first/{name}.toml"
        path.write_bytes(text)
        began = time.monotonic()
        try:
            load(path)
            found[0] += 1
        except (InputError, DataError) as error:
            found[error.exit_code] += 1
            refusals.append(str(error))
        except BaseException as error:
            (tmp_path / "crash.toml").write_bytes(text)
            raise AssertionError(f"{type(error).__name__}: {tmp_path}/crash.toml\n{text[:3000]!r}") from error
        assert time.monotonic() - began < SECONDS, text
    print("mutants by exit code:", dict(found))
    lines = {line for told in refusals for line in told.split("\n")}
    assert [line for line in lines if not line.isprintable() or len(line) > 2_000] == []
    assert found[2] > found[0] > 0
    assert set(found) <= {0, 2}


def load(path: Path) -> None:
    """All that happens before a trial trains; and a study that was written can be read again."""
    study = read_study(str(path))
    sum(counts(study).values())
    for arm in study.arms:
        key_of(fixed_trial(study, arm, study.seeds[0]), "")
    again = path.parent.parent / "again" / path.name
    again.write_text(toml_text(study.model_dump()))
    assert read_study(str(again)) == study


def test_the_commands_end_with_0_or_2(studies, tmp_path, pilotstudy):
    found = Counter()
    for number, (name, text) in enumerate(mutants(studies, max(NUMBER // 10, 40), seed=1)):
        path = tmp_path / f"first/{name}.toml"
        path.write_bytes(text)
        words = ("show", path) if number % 2 else ("run", path, "--dry-run", "--runs-dir", tmp_path / "runs")
        code, out, err = pilotstudy(*words)
        found[code] += 1
        assert "Traceback" not in err
        assert (code == 0) == bool(out), (out, err)
        assert all(line.startswith("pilotstudy: ") or "stay untested" in line for line in err.splitlines())
    print("commands by exit code:", dict(found))
    assert set(found) == {0, 2}
    assert not (tmp_path / "runs").exists()
