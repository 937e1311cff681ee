"""Data sets of the Hugging Face hub, with a stand-in for its client: copies a folder, fails as the real one does."""

import fnmatch
import shutil
import sys
from types import SimpleNamespace

import pytest

from pilotstudy.data import dataset
from pilotstudy.data.hub import HubName, hub_name
from pilotstudy.errors import DataError, InputError
from tests.support.pictures import parquet_folder


# The kinds of huggingface_hub 2.4.0, by what they derive from.
class HfHubHTTPError(OSError):
    pass


class RepositoryNotFoundError(HfHubHTTPError):
    pass


class GatedRepoError(RepositoryNotFoundError):
    pass


class RevisionNotFoundError(HfHubHTTPError):
    pass


class LocalEntryNotFoundError(FileNotFoundError):
    pass


class HFValidationError(ValueError):
    pass


class ProxyError(Exception):  # of its HTTP library, which it does not catch
    pass


KINDS = (RepositoryNotFoundError, GatedRepoError, RevisionNotFoundError, LocalEntryNotFoundError, HFValidationError)


class Hub:
    """What the hub has: folders by name and revision. `error` is raised instead of a download."""

    def __init__(self, root):
        self.root, self.error, self.asked = root, None, []

    def snapshot_download(self, repo_id, *, repo_type=None, revision=None, allow_patterns=None):
        self.asked.append((repo_id, revision))
        if self.error:
            raise self.error
        assert repo_type == "dataset"
        at_hub, snapshot = self.root / "hub" / repo_id / (revision or "main"), self.root / "snapshots" / "0a1b2c"
        shutil.rmtree(snapshot, ignore_errors=True)
        snapshot.mkdir(parents=True)
        for path in at_hub.rglob("*.*"):
            name = str(path.relative_to(at_hub))
            if any(fnmatch.fnmatch(name, pattern) for pattern in allow_patterns):
                (snapshot / name).parent.mkdir(exist_ok=True)
                shutil.copy(path, snapshot / name)
        return str(snapshot)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    made = Hub(tmp_path)
    utils = SimpleNamespace(**{kind.__name__: kind for kind in KINDS})
    module = SimpleNamespace(snapshot_download=made.snapshot_download, utils=utils)
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    monkeypatch.setenv("PILOTSTUDY_CACHE", str(tmp_path / "cache"))
    return made


def test_names():
    assert hub_name("cifar10") is None
    assert hub_name("hf:uoft-cs/cifar10") == HubName("uoft-cs/cifar10")
    full = "hf:ufldl-stanford/svhn/cropped_digits@refs/convert/parquet"
    assert hub_name(full) == HubName("ufldl-stanford/svhn", "cropped_digits", "refs/convert/parquet")
    assert str(hub_name(full)) == full
    for wrong in "hf:", "hf:cifar10", "hf:a/b/c/d", "hf:a b/c", "hf:a/b@", "hf:../b\n":
        with pytest.raises(InputError, match="write hf:owner/name"):
            dataset.load_data(wrong)


@pytest.mark.parametrize("inside", ["", "data", "plain_text"])
def test_where_the_files_lie(hub, inside):
    parquet_folder(hub.root / "hub/someone/fashion/main" / inside)
    own = dataset.load_data(str(parquet_folder(hub.root / "own")))
    assert dataset.data_state("hf:someone/fashion", None)["state"] == "not prepared"
    data = dataset.load_data("hf:someone/fashion")
    assert data.fingerprint == own.fingerprint
    assert data.name == "hf-someone-fashion"
    state = dataset.data_state("hf:someone/fashion", hub.root, verify=True)
    assert (state["state"], state["from"]) == ("whole", "hf:someone/fashion")


def test_a_prepared_data_set_needs_no_network_and_a_revision_is_one_of_its_own(hub):
    parquet_folder(hub.root / "hub/a/b/main")
    parquet_folder(hub.root / "hub/a/b/v2", names=("x", "y", "z"))
    newest, second = dataset.load_data("hf:a/b"), dataset.load_data("hf:a/b@v2")
    assert (newest.classes, second.classes) == (("cat", "dog", "eel"), ("x", "y", "z"))
    assert hub.asked == [("a/b", None), ("a/b", "v2")]
    hub.error = OSError("no route to host")
    assert dataset.load_data("hf:a/b").fingerprint == newest.fingerprint


def test_one_of_several_configurations(hub):
    for config in "cropped", "full":
        parquet_folder(hub.root / "hub/a/svhn/main" / config, names=(config, "y", "z"))
    with pytest.raises(DataError, match=r"several parts, 'cropped', 'full': choose one, as hf:a/svhn/CONFIG"):
        dataset.load_data("hf:a/svhn")
    assert dataset.load_data("hf:a/svhn/full").classes == ("full", "y", "z")
    with pytest.raises(DataError, match=r"hf:a/svhn/other is not there"):
        dataset.load_data("hf:a/svhn/other")
    (hub.root / "hub/a/empty/main").mkdir(parents=True)
    with pytest.raises(DataError, match=r"hf:a/empty has no Parquet files for train and test"):
        dataset.load_data("hf:a/empty")


def test_what_is_wrong_with_the_files_is_told_by_the_name_that_was_typed(hub):
    parquet_folder(hub.root / "hub/a/b/main", names=("cat",))
    with pytest.raises(DataError, match=r"^hf:a/b: the train label 1"):
        dataset.load_data("hf:a/b")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            LocalEntryNotFoundError("Got: ConnectError: no name\nAn error"),
            r"\(Got: ConnectError: no name\): give a fol",
        ),
        (ProxyError(""), r"cannot download hf:a/b@v1 \(ProxyError\).*data prepare hf:a/b@v1"),
        (RepositoryNotFoundError("401 Client Error.\n\nRepository"), "has no data set a/b: look at the spelling"),
        (GatedRepoError("403 Client Error."), "accepted its terms"),
        (RevisionNotFoundError("404 Client Error."), "a/b has no revision v1"),
    ],
)
def test_what_the_hub_refuses_is_one_line(hub, error, message):
    hub.error = error
    with pytest.raises(DataError, match=message) as told:
        dataset.load_data("hf:a/b@v1")
    assert "\n" not in str(told.value)
    assert not list((hub.root / "cache" / "data").iterdir())


def test_names_that_the_hub_does_not_allow(hub):
    hub.error = HFValidationError("Repo id must use alphanumeric chars")
    with pytest.raises(InputError, match="hf:-a/b is no name on the Hugging Face hub: Repo id must"):
        dataset.load_data("hf:-a/b")


def test_without_its_client_what_to_install_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PILOTSTUDY_CACHE", str(tmp_path))
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(DataError, match=r"needs huggingface_hub: `pip install 'pilotstudy\[hf\]'`"):
        dataset.load_data("hf:a/b")
