"""The one place that knows where files lie and how they are written: beside, then renamed into place."""

import io
import os
import shutil
import socket
import tempfile
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pilotstudy.errors import InputError, PilotstudyError, StorageError

PACKAGE = Path(__file__).parent
AT_ONCE = 32  # files that are read at a time where there are many: a store may be far away


def resource(folder: str) -> Path:
    """`studies` or `dashboards`: inside the package when installed from a wheel, beside it in a checkout."""
    inside = PACKAGE / folder
    return inside if inside.is_dir() else PACKAGE.parent / folder


def place(where: str | Path) -> Path:
    """A folder by its path, or by a URI such as s3://bucket/runs, which then behaves like a path."""
    if not is_remote(where):
        return Path(where)
    try:
        from upath import UPath
    except ImportError as error:
        raise InputError(f"{where}: `pip install 'pilotstudy[cloud]'` brings what it takes to read it") from error
    try:
        return UPath(str(where), use_listings_cache=False)  # type: ignore[return-value]
    except (ValueError, ImportError) as error:
        raise InputError(f"{where}: {error}; `pip install 'pilotstudy[cloud]'` knows s3:// and gs://") from error


def is_remote(where: str | Path) -> bool:
    return "://" in str(where)


def whole(where: Path) -> str:
    """The same place for a process in another folder or on another node."""
    return str(where) if is_remote(where) else str(where.resolve())


def source(path: Path) -> Any:
    """What pyarrow reads a file from."""
    return io.BytesIO(read(path)) if is_remote(path) else path


def read(path: Any) -> bytes:
    """A file's content: one request, on a store."""
    return bytes(path.fs.cat_file(path.path) if is_remote(path) else path.read_bytes())


def names(folder: Any) -> set[str]:
    """What lies in a folder, from one listing; nothing, if it is not there."""
    try:
        found = folder.fs.ls(folder.path, detail=False) if is_remote(folder) else os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return set()
    return {name.rsplit("/", 1)[-1] for name in found}


def cache() -> Path:
    """Where prepared data lie: the platform's cache folder, or PILOTSTUDY_CACHE."""
    from platformdirs import user_cache_path

    return Path(os.environ.get("PILOTSTUDY_CACHE") or user_cache_path("pilotstudy")) / "data"


@dataclass(frozen=True)
class TrialFiles:
    """The files of one trial. The result is written last, so where there is one, all is there."""

    result: Path
    epochs: Path
    predictions: Path
    checkpoint: Path
    starts: Path  # how often it was started, while it is under way on Ray

    @classmethod
    def in_folder(cls, folder: Path) -> "TrialFiles":
        """A folder of its own, as `pilotstudy train -o` makes it."""
        names = "result.json", "epochs.parquet", "predictions.parquet", "checkpoint.pt", "starts.json"
        return cls(*(folder / name for name in names))


class RunFiles:
    """The files of a run's folder: one table of all trials, and for each trial (by its key) its parts."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.study = folder / "study.json"  # the frozen study, the run's options and where it came from
        self.trials = folder / "trials.parquet"
        self.results = folder / "results"
        self.epochs = folder / "epochs"
        self.all_epochs = folder / "epochs.parquet"  # the same rows, of all trials, once a run has ended
        self.predictions = folder / "predictions"
        self.proposals = folder / "search"
        self.checkpoints = folder / "checkpoints"  # of trials that are under way
        self.dashboard = folder / "dashboard.html"
        self.lock = folder / "lock"
        self.stop = folder / "stop"
        # What Ray and Optuna print; beside a run on an object store it stays on the driver's machine.
        local = Path(tempfile.gettempdir()) / f"pilotstudy-{folder.name}.log"
        self.log = local if is_remote(folder) else folder / "log.txt"

    def trial(self, key: str) -> TrialFiles:
        return TrialFiles(
            self.results / f"{key}.json",
            self.epochs / f"{key}.parquet",
            self.predictions / f"{key}.parquet",
            self.checkpoints / f"{key}.pt",
            self.checkpoints / f"{key}.json",
        )

    def proposal(self, arm: str, number: int) -> Path:
        return self.proposals / self.proposal_name(arm, number)

    @staticmethod
    def proposal_name(arm: str, number: int) -> str:
        return f"{arm}-{number:04}.json"


class DataFiles:
    """The files of one prepared data set's folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.meta = folder / "meta.json"

    def array(self, name: str) -> Path:
        return self.folder / f"{name}.npy"


@contextmanager
def storing(what: Path) -> Iterator[None]:
    """Turns the system's errors while writing into one line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"cannot write {what}: {reason}; free some space or choose another folder") from error
    except PilotstudyError:
        raise
    except Exception as error:
        if not is_remote(what):
            raise
        reason = " ".join(str(error).split())[:200]  # what an object store's client raises
        raise StorageError(f"cannot write {what}: {reason}") from error


def put(file: BinaryIO, content: bytes | str | Callable[[BinaryIO], object]) -> None:
    if callable(content):
        content(file)
    else:
        file.write(content.encode() if isinstance(content, str) else content)


def write(path: Path, content: bytes | str | Callable[[BinaryIO], object]) -> None:
    """Replaces `path` as a whole or leaves it as it was; on disk, or in the object store, when this returns."""
    if is_remote(path):
        buffer = io.BytesIO()
        put(buffer, content)
        with storing(path):
            path.write_bytes(buffer.getvalue())  # an object appears whole or not at all
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(beside, "wb") as file:
                put(file, content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)


class Background:
    """Writes to a store from threads, so that nobody waits for it; to a disk at once. An error is raised at the next
    call.
    """

    def __init__(self, threads: int = 16):
        self._pool = ThreadPoolExecutor(threads)
        self._under_way: set[Future[None]] = set()
        self._error: BaseException | None = None

    def submit(self, path: Path, content: bytes | str) -> None:
        self._do(path, lambda: write(path, content))

    def remove(self, path: Path) -> None:
        def work() -> None:
            with storing(path):
                path.unlink(missing_ok=True)

        self._do(path, work)

    def _do(self, path: Path, work: Callable[[], None]) -> None:
        self.check()
        if is_remote(path):
            self._start(work)
        else:
            work()

    def after_all(self, work: Callable[[], None]) -> None:
        """Does this in a thread as well, once all that was submitted before is written."""
        self.check()
        before = list(self._under_way)

        def then() -> None:
            wait(before)
            self.check()
            work()

        self._start(then)

    def _start(self, work: Callable[[], None]) -> None:
        future = self._pool.submit(work)
        self._under_way.add(future)
        future.add_done_callback(self._ended)

    def _ended(self, future: Future[None]) -> None:
        self._error = self._error or future.exception()
        self._under_way.discard(future)

    def check(self) -> None:
        if self._error:
            raise self._error

    def flush(self) -> None:
        """Waits until all is written."""
        wait(list(self._under_way))
        self.check()


def try_out(folder: Path) -> None:
    """Writes, reads and deletes a small file there, and says what cannot be done."""
    path, host = folder / f".tried-{uuid.uuid4().hex}", socket.gethostname()
    write(path, "tried")
    try:
        if path.read_text() != "tried":
            raise StorageError(f"{host} reads something else from {folder} than it wrote")
        path.unlink()
    except StorageError:
        raise
    except Exception as error:  # an object store's client has errors of many kinds for it
        reason = " ".join(str(error).split())[:200]
        raise StorageError(f"{host} can write to {folder}, but not read or delete there: {reason}") from error


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` that takes its place when the block ends well, and is removed when it does not."""
    beside = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    with storing(folder):
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
    try:
        yield beside
        with storing(folder):
            if folder.exists():
                shutil.rmtree(folder)
            os.replace(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
