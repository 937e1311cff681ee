import os
import sys
import uuid
from pathlib import Path

import hypothesis
import pytest
import torch

from pilotstudy import cli, console, extensions, storage
from pilotstudy.data.dataset import DataSet
from pilotstudy.runs.folder import Run
from pilotstudy.schedule.director import Director
from tests.support.made_run import made
from tests.support.places import SHARED
from tests.support.plans import conduct, make_study
from tests.support.squares import make_data
from tests.support.stores import gs, s3

# A loaded machine is slow, and that is no fault.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


@pytest.fixture(autouse=True)
def any_width(monkeypatch):
    """What commands print is as wide as it is, also where a library has set COLUMNS in this process."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    os.environ["PILOTSTUDY_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    os.environ.pop("PILOTSTUDY_DATA", None)
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _no_code_of_others():
    """What a test's studies have declared, the next one does not know."""
    yield
    for module in list(extensions._loaded):
        extensions._forget(module)


@pytest.fixture
def shared_data() -> Path:
    if not (SHARED / "data" / "cifar10").is_dir():
        pytest.skip(f"no data in {SHARED / 'data'}")
    return SHARED / "data"


@pytest.fixture
def double():
    """float64 by default, for comparisons with closed forms."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="session")
def squares() -> DataSet:
    return make_data()


@pytest.fixture
def pilotstudy(monkeypatch, capsys):
    """Runs a command in this process: exit code, stdout, stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pilotstudy", *map(str, words)])
        monkeypatch.delenv("PILOTSTUDY_RUNS", raising=False)
        monkeypatch.setattr(console, "quiet", False)
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        out, err = capsys.readouterr()
        return stopped.value.code, out, err

    return run


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> Run:
    """A finished run, made up. It is everybody's: nobody changes it."""
    return made(tmp_path_factory.mktemp("runs") / "made")


@pytest.fixture(scope="module")
def whole(tmp_path_factory, squares) -> Director:
    """A small study that ran to its end in this process; `ran` trials of it."""
    plan = Director(make_study(), Run(tmp_path_factory.mktemp("whole")), squares.fingerprint)
    plan.ran = conduct(plan, squares)
    assert plan.next() == "done"
    return plan


@pytest.fixture(scope="module", params=[s3, pytest.param(gs, marks=pytest.mark.long)], ids=["s3", "gs"])
def bucket(request) -> str:
    """A folder of runs on an object store."""
    pytest.importorskip("moto.server")
    pytest.importorskip("gcp_storage_emulator")
    with request.param() as values, pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, value)
        name = f"studies-{uuid.uuid4().hex}"  # moto's buckets outlive its server
        place = storage.place(f"{request.param.__name__}://{name}/runs")
        place.fs.mkdir(name)
        yield str(place)
