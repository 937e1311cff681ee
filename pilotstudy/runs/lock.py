"""One process at a time on a run folder: a lock of the system on a disk, a lease on an object store."""

import contextlib
import errno
import fcntl
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from urllib.parse import quote

from pydantic import TypeAdapter

from pilotstudy.errors import RunLockedError
from pilotstudy.storage import StoredPath, is_remote, on_store, storing

BEAT_SECONDS = 10.0
SILENCE = 6 * BEAT_SECONDS  # after which a process on another host counts as gone
OTHER = "another process"

S3, GOOGLE = ("s3", "s3a"), ("gs", "gcs")  # the stores whose conditions we know


@dataclass(frozen=True)
class Holder:
    """The process that holds a run, as it writes itself into the lock or the lease."""

    pid: int
    host: str
    heard: float  # when it was last heard of, in seconds since 1970
    lease: str = ""  # a name of its own, where several processes could take themselves for the holder

    @classmethod
    def me(cls, lease: str = "") -> "Holder":
        """This process, now."""
        return cls(os.getpid(), socket.gethostname(), time.time(), lease)

    @classmethod
    def read(cls, content: bytes | str) -> "Holder | None":
        """Nobody, if it is empty or damaged."""
        try:
            return _HOLDERS.validate_json(content)
        except ValueError:
            return None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @property
    def alive(self) -> bool:
        """Whether it has been heard of lately."""
        return time.time() - self.heard < SILENCE

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


_HOLDERS = TypeAdapter(Holder)


@contextmanager
def beating(beat: Callable[[], object], seconds: float | None = None) -> Iterator[None]:
    """Calls `beat` every few seconds, in a thread of its own, until the block ends. What it raises is forgotten."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(seconds or BEAT_SECONDS):
            with contextlib.suppress(Exception):
                beat()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class FileLock:
    """The system's lock on a file. It ends with its process, so one that was left by a crash is free."""

    lost = ""  # nobody can take it while its process lives

    def __init__(self, path: Path):
        self.path = path

    @contextmanager
    def held(self) -> Iterator[None]:
        with storing(self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()
        with open(self.path, "r+") as file:
            for patience in range(5, -1, -1):  # `taken` holds a shared lock for a moment
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError as error:
                    if not patience:
                        raise RunLockedError(self.holder()) from error
                    time.sleep(0.05)
            file.seek(0)
            file.truncate()
            file.write(Holder.me().to_json())
            file.flush()
            try:
                with beating(lambda: os.utime(self.path)):  # other hosts may not see the lock itself
                    yield
            finally:
                file.seek(0)
                file.truncate()

    def holder(self) -> str:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return str(Holder.read(self.path.read_text()) or OTHER)
        return OTHER

    def taken(self) -> bool:
        """Whether a process holds it, or one on another host has been heard of lately."""
        try:
            with open(self.path) as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                holder = Holder.read(file.read())
            silent = time.time() - self.path.stat().st_mtime
            return holder is not None and holder.host != socket.gethostname() and silent < SILENCE
        except (FileNotFoundError, UnicodeDecodeError):
            return False
        except OSError:
            return True


class Lease:
    """An object that its holder renews; one that was not renewed for a minute was left by a crash.

    Every write names the version that it replaces, and the store refuses it if that is no longer there. So a holder
    that slept while another took over finds out, and neither writes nor removes the other's. Before each write its
    content is looked at too: that is all there is on a store that knows no conditions.
    """

    def __init__(self, path: Path):
        self.path = path
        self._stored = on_store(path)
        self.own = uuid.uuid4().hex
        self._lost = ""
        self._renewed = time.monotonic(), time.time()
        self._one_at_a_time = threading.Lock()

    def _look(self) -> tuple[Holder | None, str | None]:
        """Who holds it, and its version, which was asked for first and so is never newer; None if there is no lease."""
        store, name = self._stored.fs, self._stored.path
        try:
            info = store.info(name)
            version = str(info.get("ETag") or info.get("generation") or "")
            content = store.cat_file(name)
        except FileNotFoundError:
            return None, None
        return Holder.read(content), version

    def _put(self, version: str | None) -> None:
        now = time.monotonic(), time.time()
        put_if(self._stored, Holder.me(self.own).to_json().encode(), version)
        self._renewed = now

    def _is_own(self, holder: Holder | None) -> bool:
        return holder is not None and holder.lease == self.own

    def _take(self) -> None:
        """Makes it, or takes over one that has fallen silent, if no other is quicker."""
        for attempt in range(3):
            holder, version = self._look()
            if self._is_own(holder):
                return
            if holder and holder.alive:
                raise RunLockedError(str(holder))
            try:
                self._put(version)
            except OSError:  # refused, or it broke: look who has it now
                if attempt == 2:
                    raise
        if not self._is_own(self._look()[0]):
            raise RunLockedError(OTHER)

    @contextmanager
    def held(self) -> Iterator[None]:
        with storing(self.path):
            self._take()
        try:
            with beating(self.beat):
                yield
        finally:
            with contextlib.suppress(Exception):
                self._leave()

    def beat(self) -> None:
        """Renews it, or finds that it is lost."""
        with self._one_at_a_time:
            for _ in range(2):  # the store may have refused because another has it, so look again
                if self._lost:
                    return
                with contextlib.suppress(Exception):
                    holder, version = self._look()
                    if holder and not self._is_own(holder):
                        self._lost = f"{holder} took the run over"
                    elif version is None and self._silent() > SILENCE:  # another may have come and gone
                        self._lost = f"its lease is gone after {self._silent():.0f} s of silence"
                    else:
                        self._put(version)
                        return
            if not self._lost and self._silent() > SILENCE:
                self._lost = f"its lease could not be renewed for {self._silent():.0f} s"

    def _silent(self) -> float:
        """Seconds since it was renewed. A computer that sleeps stops the one clock, a clock that is set the other."""
        return max(time.monotonic() - self._renewed[0], time.time() - self._renewed[1])

    @property
    def lost(self) -> str:
        """Who has it now, or why it counts as lost; empty while it is held."""
        if self._silent() > SILENCE:  # awake again, or the store is out of reach: what is true now?
            self.beat()
        return self._lost

    def _leave(self) -> None:
        holder, version = self._look()
        if self._is_own(holder) and version is not None:
            try:
                remove_if(self._stored, version)
            except OSError:  # a store that removes only without conditions: an ended lease stays
                ended = replace(Holder.me(self.own), heard=0)
                put_if(self._stored, ended.to_json().encode(), version)

    def holder(self) -> str:
        with contextlib.suppress(OSError):
            return str(self._look()[0] or OTHER)
        return OTHER

    def taken(self) -> bool:
        with contextlib.suppress(OSError):
            holder, _ = self._look()
            return holder is not None and holder.alive
        return False


def put_if(path: StoredPath, content: bytes, version: str | None) -> None:
    """Writes an object if the store has this version of it (None: if it has none), else raises an OSError."""
    store, name = path.fs, path.path
    try:
        if version is None:
            store.pipe_file(name, content, mode="create")
        elif path.protocol in S3:
            store.pipe_file(name, content, IfMatch=version)
        elif path.protocol in GOOGLE:
            bucket, key, _ = store.split_path(name)
            where = f"{store._location}/upload/storage/v1/b/{quote(bucket)}/o"
            store.call("POST", where, uploadType="media", name=key, ifGenerationMatch=version, data=content)
        else:
            store.pipe_file(name, content)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        store.pipe_file(name, content)  # it says that it knows no conditions


def remove_if(path: StoredPath, version: str) -> None:
    """Removes an object if the store still has this version of it, else raises an OSError."""
    if path.protocol in S3:
        bucket, key, _ = path.fs.split_path(path.path)
        path.fs.call_s3("delete_object", Bucket=bucket, Key=key, IfMatch=version)
    elif path.protocol in GOOGLE:
        bucket, key, _ = path.fs.split_path(path.path)
        path.fs.call("DELETE", "b/{}/o/{}", bucket, key, ifGenerationMatch=version)
    else:
        path.fs.rm_file(path.path)


def lock_of(path: Path) -> FileLock | Lease:
    """The lock of a run, of the kind that its place can have."""
    return Lease(path) if is_remote(path) else FileLock(path)
