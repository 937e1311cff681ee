"""An object store in memory, as slow://.., that counts its requests and takes its time for each."""

import io
import threading
import time
from collections import Counter
from typing import Any, ClassVar

import fsspec
from fsspec.spec import AbstractFileSystem
from upath.implementations.memory import MemoryPath
from upath.registry import register_implementation

PAGE = 1000  # names in one answer to a listing


class SlowStore(AbstractFileSystem):
    protocol = "slow"
    objects: ClassVar[dict[str, bytes]] = {}  # by name; of all stores, as a cluster's nodes all see the same
    latency = 0.05
    requests: ClassVar[Counter[str]] = Counter()
    waited: ClassVar[Counter[str]] = Counter()  # those for which the main thread waited

    @classmethod
    def reset(cls, latency: float) -> None:
        cls.latency = latency
        cls.objects.clear()
        cls.forget()

    @classmethod
    def forget(cls) -> None:
        cls.requests.clear()
        cls.waited.clear()

    def _request(self, kind: str, times: int = 1) -> None:
        self.requests[kind] += times
        if threading.current_thread() is threading.main_thread():
            self.waited[kind] += times
        time.sleep(times * self.latency)

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        below = self._strip_protocol(path).rstrip("/") + "/"
        found = {}
        for name, content in list(self.objects.items()):
            if name.startswith(below):
                child, inside = (name.removeprefix(below) + "/").split("/", 1)
                kind = "directory" if inside else "file"
                found[below + child] = {"name": below + child, "size": len(content), "type": kind}
        self._request("LIST", 1 + len(found) // PAGE)
        if not found:
            raise FileNotFoundError(path)
        return list(found.values()) if detail else list(found)

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        name = self._strip_protocol(path)
        self._request("HEAD")
        if name in self.objects:
            return {"name": name, "size": len(self.objects[name]), "type": "file"}
        if any(other.startswith(name + "/") for other in list(self.objects)):
            return {"name": name, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        self._request("GET")
        try:
            return self.objects[self._strip_protocol(path)][start:end]
        except KeyError:
            raise FileNotFoundError(path) from None

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        self._request("PUT")
        if mode == "create" and self._strip_protocol(path) in self.objects:
            raise FileExistsError(path)
        self.objects[self._strip_protocol(path)] = bytes(value)

    def rm_file(self, path: str) -> None:
        self._request("DELETE")
        if self.objects.pop(self._strip_protocol(path), None) is None:
            raise FileNotFoundError(path)

    def mkdir(self, path: str, create_parents: bool = True, **options: Any) -> None:
        """There are no folders."""

    makedirs = mkdir

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if "r" in mode:
            self.info(path)
            return io.BytesIO(self.cat_file(path))
        store = self

        class Upload(io.BytesIO):
            def close(self) -> None:
                if not self.closed:
                    store.pipe_file(path, self.getvalue())
                super().close()

        return Upload()


class SlowPath(MemoryPath):
    """What `files.place` makes of slow://.."""


fsspec.register_implementation("slow", SlowStore, clobber=True)
register_implementation("slow", SlowPath, clobber=True)
