"""The one place that knows where files lie and how they are written: beside, then renamed into place."""

import errno
import io
import os
import shutil
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from pilotstudy.errors import InputError, NewerFormatError, PilotstudyError, StorageError

PACKAGE = Path(__file__).parent
FULL = (errno.ENOSPC, errno.EDQUOT)  # a disk, or what a user may have of it
AT_ONCE = 32  # how many files are read at once where there are many: each request to a distant store takes a while


class Store(Protocol):
    """What is used of an fsspec file system."""

    _location: str  # of Google's: the address of its API

    def cat_file(self, path: str) -> bytes: ...
    def ls(self, path: str, detail: bool) -> list[str]: ...
    def info(self, path: str) -> dict[str, object]: ...
    def pipe_file(self, path: str, value: bytes, **conditions: str) -> None: ...
    def rm_file(self, path: str) -> None: ...
    def split_path(self, path: str) -> tuple[str, str, str | None]: ...
    def call(self, method: str, path: str, *parts: str, **query: str | bytes) -> object: ...
    def call_s3(self, method: str, **words: str) -> object: ...


class StoredPath(Protocol):
    """A path on an object store, which a `Path` with a URI is."""

    fs: Store
    path: str
    protocol: str


def on_store(path: Path) -> StoredPath:
    """A path with a URI, by what only such paths have."""
    return cast(StoredPath, path)


def cache_folder() -> Path:
    """What can be made again, or is this user's alone: the platform's cache folder, or PILOTSTUDY_CACHE."""
    from platformdirs import user_cache_path

    return Path(os.environ.get("PILOTSTUDY_CACHE") or user_cache_path("pilotstudy"))


def packaged(folder: str) -> Path:
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
    """Whether it is on an object store."""
    return "://" in str(where)


def absolute(where: Path) -> str:
    """The same place for a process in another folder or on another node."""
    return str(where) if is_remote(where) else str(where.resolve())


def readable(path: Path) -> BinaryIO | Path:
    """What pyarrow and torch read a file from."""
    return io.BytesIO(read(path)) if is_remote(path) else path


def read(path: Path) -> bytes:
    """A file's content: one request, on a store."""
    if not is_remote(path):
        return path.read_bytes()
    stored = on_store(path)
    return bytes(stored.fs.cat_file(stored.path))


def names(folder: Path) -> set[str]:
    """What lies in a folder, from one listing; nothing, if it is not there."""
    try:
        if is_remote(folder):
            stored = on_store(folder)
            listed = stored.fs.ls(stored.path, detail=False)
        else:
            listed = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return set()
    return {name.rsplit("/", 1)[-1] for name in listed}


def check_format(path: Path, content: object, newest: int, key: str = "format") -> None:
    """Refuses a file whose own format number is newer than this version reads. A file without one is the oldest."""
    number = content.get(key) if isinstance(content, Mapping) else None
    if isinstance(number, int) and number > newest:
        raise NewerFormatError(path, number, newest)


@contextmanager
def storing(what: Path) -> Iterator[None]:
    """Turns the system's errors while writing into one line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        advice = "free some space or choose another folder" if error.errno in FULL else "choose another folder"
        raise StorageError(f"cannot write {what}: {reason}; {advice}") from error
    except PilotstudyError:
        raise
    except Exception as error:
        if not is_remote(what):
            raise
        reason = " ".join(str(error).split())[:200]  # what an object store's client raises
        raise StorageError(f"cannot write {what}: {reason}") from error


def _fill(file: BinaryIO, content: bytes | str | Callable[[BinaryIO], object]) -> None:
    if callable(content):
        content(file)
    else:
        file.write(content.encode() if isinstance(content, str) else content)


def write(path: Path, content: bytes | str | Callable[[BinaryIO], object]) -> None:
    """Replaces `path` as a whole or leaves it as it was; on disk, or in the object store, when this returns."""
    if is_remote(path):
        buffer = io.BytesIO()
        _fill(buffer, content)
        with storing(path):
            path.write_bytes(buffer.getvalue())  # an object appears whole or not at all
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(beside, "wb") as file:
                _fill(file, content)
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
        """Writes a file."""
        self._do(path, lambda: write(path, content))

    def remove(self, path: Path) -> None:
        """Removes a file, if it is there."""

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
        """Raises what went wrong."""
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


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A path beside `path` for who must write the file itself; it takes its place when the block ends well."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.unlink(missing_ok=True)
    try:
        yield beside
        with storing(path):
            os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
