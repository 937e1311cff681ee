"""Serves a run's page on localhost and its data as they change. It only reads, and only that run."""

import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from pilotstudy.page import render
from pilotstudy.page.content import PageData, Problem, page_data_or_problem
from pilotstudy.runs.folder import Run

WATCHED_SECONDS = 5.0  # a page that is open asks more often than that
LOCAL = ("127.0.0.1", "localhost", "[::1]")


class LivePage:
    """The run's data, made anew when its files have changed, and never more than a quarter of the time."""

    def __init__(self, run: Run):
        self.run = run
        self._lock = threading.Lock()
        self._version = ""
        self._content: dict[str, object] = {}
        self._not_before = 0.0
        self._asking = 0  # how many wait for it
        self._asked = float("-inf")  # when somebody last got it

    def version(self) -> str:
        """Changes whenever a file that the page shows does."""
        files = self.run.files
        marks = []
        for path in files.trials, files.study:
            try:
                state = path.stat()
                marks.append(f"{state.st_mtime:.6f}-{state.st_size}")
            except FileNotFoundError:
                marks.append("none")
        return ".".join([*marks, str(self.run.at_work())])

    def wait_until_seen(self, most: float) -> None:
        """Waits, for so many seconds, until those who look at it have got what the files say now."""
        deadline = time.monotonic() + most
        while time.monotonic() < deadline and self.version() != self._version:
            self._not_before = 0.0
            if not self._asking and time.monotonic() - self._asked > WATCHED_SECONDS:
                return
            time.sleep(0.1)

    def get(self) -> dict[str, object]:
        """What is to be shown now."""
        self._asking += 1
        try:
            return self._renewed()
        finally:
            self._asking -= 1
            self._asked = time.monotonic()

    def _renewed(self) -> dict[str, object]:
        with self._lock:
            version = self.version()
            if version != self._version and time.monotonic() >= self._not_before:
                since = time.monotonic()
                self._content = {**self._read(), "live": True, "version": version}
                self._version = version
                self._not_before = time.monotonic() + 3 * (time.monotonic() - since)
            return self._content

    def _read(self) -> PageData | Problem:
        if not self.run.files.study.exists():
            return {"problem": f"{self.run.name} is about to begin: its data are read and its models tried out."}
        return page_data_or_problem(self.run)


def server(source: LivePage, port: int = 0, listening: socket.socket | None = None) -> ThreadingHTTPServer:
    """A server on 127.0.0.1; port 0 takes a free one. `listening`: a socket that is bound already."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
            if host not in LOCAL:  # another name that leads here: a page elsewhere must not read it
                self.answer(403, "text/plain", b"only localhost\n")
                return
            asked = urlsplit(self.path)
            if asked.path == "/":
                self.answer(200, "text/html; charset=utf-8", render.page(source.get()).encode())
            elif asked.path == "/data.json":
                content = source.get()
                if parse_qs(asked.query).get("since") == [content["version"]]:
                    self.answer(304, "application/json", b"")
                else:
                    self.answer(200, "application/json", render.block(content).encode())
            else:
                self.answer(404, "text/plain", b"nothing here\n")

        def answer(self, code: int, kind: str, body: bytes) -> None:
            self.send_response(code)
            for name, value in {
                "Content-Type": kind,
                "Content-Length": str(len(body)),
                "Cache-Control": "no-store",
                "X-Content-Type-Options": "nosniff",
                "X-Frame-Options": "DENY",
                "Referrer-Policy": "no-referrer",
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the terminal is the user's."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A browser that has left is no error."""
            if not isinstance(sys.exception(), ConnectionError):
                super().handle_error(request, client_address)  # type: ignore[arg-type]

    if listening is None:
        return Server(("127.0.0.1", port), Handler)
    serving = Server(listening.getsockname(), Handler, bind_and_activate=False)
    serving.socket.close()
    serving.socket = listening
    return serving
