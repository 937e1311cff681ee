"""What lies prepared in the cache, whatever folder it was made from, and what would have to be."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pilotstudy.data.dataset import ARRAYS, NAMES, DataFiles, cache, find, open_files, origin
from pilotstudy.errors import DataError

Row = dict[str, str | int | None]


@dataclass(frozen=True)
class Prepared:
    """A data set in the cache."""

    files: DataFiles
    name: str
    origin: str  # empty for one that an earlier version made
    fingerprint: str

    def row(self, *, verify: bool = False) -> Row:
        """With `verify` every image is read again."""
        try:
            train, test = (np.load(self.files.array(f"{split}_images"), mmap_mode="r") for split in ("train", "test"))
            sizes: Row = {"train": len(train), "test": len(test), "shape": "×".join(map(str, train.shape[1:]))}
            state = "prepared"
        except (OSError, ValueError, EOFError):
            sizes, state = dict.fromkeys(("train", "test", "shape")), "damaged"
        if verify and state == "prepared":
            state = "whole" if open_files(self.files, self.name) else "damaged"
        return {"name": self.name, "from": self.origin, "state": state, **sizes, "fingerprint": self.fingerprint}


def all_prepared() -> list[Prepared]:
    """Every data set in the cache, by name; further test sets of studies are no data sets."""
    found = []
    for path in sorted(cache().glob("*/meta.json")):
        try:
            meta = json.loads(path.read_bytes())
            own = [str(meta.get(key, "")) for key in ("name", "origin", "fingerprint")]
        except (OSError, ValueError, AttributeError):
            own = [path.parent.name.rsplit("-", 1)[0], "", ""]
        if own[0] and any((path.parent / f"{array}.npy").exists() for array in ARRAYS):
            found.append(Prepared(DataFiles(path.parent), *own))
    return found


def how_to_prepare(row: Row) -> list[str]:
    """What makes it anew: the words after `pilotstudy data prepare`."""
    name, folder = str(row["name"]), Path(str(row["from"] or row["name"]))
    if name not in NAMES:
        return [str(folder)]
    return (
        [name, "--data-dir", str(folder.parent if folder.name == name else folder)] if folder.is_absolute() else [name]
    )


def data_rows(data_dir: Path | None) -> list[Row]:
    """All that is prepared, and of the known data sets what is not, from where they would come now."""
    prepared = all_prepared()
    rows = {one.files.folder: one.row() for one in prepared}
    for name in NAMES:
        try:
            source = find(name, data_dir)
        except DataError:  # not in this folder
            source = find(name)
        unknown: Row = {"name": name, "from": origin(source), "state": "not prepared"}
        unknown |= dict.fromkeys(("train", "test", "shape", "fingerprint"))
        rows.setdefault(source.files.folder, unknown)["from"] = origin(source)
    return sorted(rows.values(), key=lambda row: NAMES.index(str(row["name"])) if row["name"] in NAMES else len(NAMES))


def verified_rows(names: list[str] | None, data_dir: Path | None) -> list[Row]:
    """What is prepared under these names, whatever it was made from, or all of it, every image read again."""
    prepared, rows = all_prepared(), []
    for name in names or [""]:
        own = [one for one in prepared if one.name == name] if name in NAMES or not name else []
        if name and not own:
            source = find(name, data_dir)
            own = [one for one in prepared if one.files.folder == source.files.folder]
        if name and not own:
            raise DataError(f"{name} is not prepared; `pilotstudy data list` shows what is")
        rows += [one.row(verify=True) for one in own or prepared]
    return rows
