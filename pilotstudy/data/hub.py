"""Data sets of the Hugging Face hub, as `hf:owner/name`: their Parquet files are fetched, then read as one's own."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pilotstudy.data.labels import quoted
from pilotstudy.data.raw import reason
from pilotstudy.errors import DataError, InputError

PREFIX = "hf:"
NAME = re.compile(r"hf:(?P<repo>[\w.-]+/[\w.-]+)(/(?P<config>[\w.-]+))?(@(?P<revision>[\w./-]+))?", re.ASCII)


@dataclass(frozen=True)
class HubName:
    """`hf:owner/name`, with /CONFIG where there are several, and @REVISION for another than the newest."""

    repo: str
    config: str | None = None
    revision: str | None = None

    def __str__(self) -> str:
        config, revision = (mark + part if part else "" for mark, part in (("/", self.config), ("@", self.revision)))
        return f"{PREFIX}{self.repo}{config}{revision}"


def hub_name(name: str) -> HubName | None:
    """The parts of a name that begins with `hf:`, or None for all others."""
    if not name.startswith(PREFIX):
        return None
    parts = NAME.fullmatch(name)
    if parts is None:
        raise InputError(f"{name!r} is no name on the Hugging Face hub: write hf:owner/name, or hf:owner/name@revision")
    return HubName(parts["repo"], parts["config"], parts["revision"])


def fetch(name: HubName, holds_data: Callable[[Path], object]) -> Path:
    """The folder of the data set's Parquet files, downloaded (with the hub's own progress bars and cache)."""
    return config_folder(name, download(name), holds_data)


def download(name: HubName) -> Path:
    try:
        from huggingface_hub import snapshot_download, utils  # type: ignore[import-not-found]
    except ImportError as error:
        raise DataError(
            f"{name} needs huggingface_hub: `pip install 'pilotstudy[hf]'`, or give a folder with its Parquet files"
        ) from error
    patterns = [f"{name.config}/*.parquet"] if name.config else ["*.parquet", "data/*.parquet", "*/*.parquet"]
    try:
        return Path(snapshot_download(name.repo, repo_type="dataset", revision=name.revision, allow_patterns=patterns))
    except utils.GatedRepoError as error:
        advice = "accept its terms on huggingface.co, then `hf auth login`"
        raise DataError(f"{name} is open only to those who accepted its terms: {advice}") from error
    except utils.RepositoryNotFoundError as error:
        advice = "look at the spelling, and `hf auth login` if it is private"
        raise DataError(f"the Hugging Face hub has no data set {name.repo}: {advice}") from error
    except utils.RevisionNotFoundError as error:
        raise DataError(f"{name.repo} has no revision {name.revision}: give a branch, tag or commit of it") from error
    except utils.HFValidationError as error:
        raise InputError(f"{name} is no name on the Hugging Face hub: {reason(error)}") from error
    except Exception as error:  # no network, a proxy, the hub itself: each client library has its own kinds
        raise DataError(
            f"cannot download {name} ({reason(error)}): give a folder with its Parquet files, or run "
            f"`pilotstudy data prepare {name}` where there is a network and copy the cache folder"
        ) from error


def config_folder(name: HubName, folder: Path, holds_data: Callable[[Path], object]) -> Path:
    """Where the files lie: at the top, or in the folder of the only configuration there is, or of the named one."""
    configs = {path.name: path for path in sorted(folder.glob("*/")) if path.name != "data" and holds_data(path)}
    if name.config:
        if name.config in configs:
            return configs[name.config]
        if name.config != "data":
            raise DataError(f"{name} is not there, or not in Parquet files for train and test")
    if holds_data(folder):
        return folder
    if len(configs) == 1:
        return next(iter(configs.values()))
    if configs:
        raise DataError(f"{name} has several parts, {quoted(configs, 10)}: choose one, as {PREFIX}{name.repo}/CONFIG")
    raise DataError(f"{name} has no Parquet files for train and test: download it and convert it to a known layout")
