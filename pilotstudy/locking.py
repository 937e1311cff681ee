"""One process at a time on a run folder: a lock of the system on a disk, a lease on an object store."""

import contextlib
import fcntl
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pilotstudy.errors import RunLockedError
from pilotstudy.files import is_remote, storing, write

BEAT_SECONDS = 10.0
SILENCE = 6 * BEAT_SECONDS  # after which a process on another host counts as gone


@contextmanager
def beating(beat: Any) -> Iterator[None]:
    """Calls `beat` every few seconds, in a thread of its own, until the block ends."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(BEAT_SECONDS):
            with contextlib.suppress(Exception):
                beat()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def me() -> dict[str, Any]:
    return {"pid": os.getpid(), "host": socket.gethostname(), "heard": time.time()}


class FileLock:
    """The system's lock on a file. It ends with its process, so one that was left by a crash is free."""

    def __init__(self, path: Path):
        self.path = path

    @contextmanager
    def held(self) -> Iterator[None]:
        with storing(self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()
        with open(self.path, "r+") as file:
            for patience in range(5, -1, -1):  # one that only looks holds it for a moment
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError as error:
                    if not patience:
                        raise RunLockedError(self.holder()) from error
                    time.sleep(0.05)
            file.seek(0)
            file.truncate()
            json.dump(me(), file)
            file.flush()
            try:
                with beating(lambda: os.utime(self.path)):  # other hosts may not see the lock itself
                    yield
            finally:
                file.seek(0)
                file.truncate()

    def holder(self) -> str:
        with contextlib.suppress(OSError, ValueError, KeyError):
            known = json.loads(self.path.read_text())
            return f"process {known['pid']} on {known['host']}"
        return "another process"

    def taken(self) -> bool:
        """Whether a process holds it, or one on another host has been heard of lately."""
        try:
            with open(self.path) as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                known = json.load(file)
            silent = time.time() - self.path.stat().st_mtime
            return bool(known["host"] != socket.gethostname() and silent < SILENCE)
        except (FileNotFoundError, ValueError, KeyError):
            return False
        except OSError:
            return True


class Lease:
    """An object that its holder renews; one that was not renewed for a minute was left by a crash."""

    def __init__(self, path: Any):
        self.path = path
        self.own = uuid.uuid4().hex

    def _content(self) -> bytes:
        return json.dumps(me() | {"lease": self.own}).encode()

    def _known(self) -> dict[str, Any] | None:
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads(self.path.read_text())
            return found
        return None

    @contextmanager
    def held(self) -> Iterator[None]:
        if self.taken():
            raise RunLockedError(self.holder())
        with storing(self.path):
            try:  # refused by the store itself if another was quicker
                self.path.fs.pipe_file(self.path.path, self._content(), mode="create")
            except FileExistsError:
                if self.taken():
                    raise RunLockedError(self.holder()) from None
                write(self.path, self._content())
                time.sleep(1)  # another may be taking it over too: the last one has it
        if (self._known() or {}).get("lease") != self.own:
            raise RunLockedError(self.holder())
        try:
            with beating(lambda: write(self.path, self._content())):
                yield
        finally:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)

    def holder(self) -> str:
        known = self._known() or {}
        return f"process {known['pid']} on {known['host']}" if known else "another process"

    def taken(self) -> bool:
        known = self._known()
        return known is not None and time.time() - known["heard"] < SILENCE


def lock_of(path: Path) -> FileLock | Lease:
    return Lease(path) if is_remote(path) else FileLock(path)
