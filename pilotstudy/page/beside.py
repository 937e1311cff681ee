"""The live page beside a run that trains, in a process of its own: making it must not slow the training down.

It ends with the run, however that ends: the process serves until the pipe from the run is closed.
"""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pilotstudy.errors import InputError
from pilotstudy.page.server import LivePage, server
from pilotstudy.runs.folder import Run
from pilotstudy.storage import PACKAGE, absolute, place

PORT = 8266
MOST_SECONDS = 60.0  # that pages which are open get, to show how the run ended


@contextmanager
def served_beside(run: Run, port: int | None = None) -> Iterator[str]:
    """Serves the page of a run while the block lasts; its address. Without a port: the usual one, or a free one."""
    listening = socket_at(port)
    with listening:
        words = [absolute(run.files.folder), str(listening.fileno())]
        paths = [str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        process = subprocess.Popen(
            [sys.executable, "-m", "pilotstudy.page.beside", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[listening.fileno()],
            start_new_session=True,  # Ctrl-C is for the run
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        )
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    try:
        yield address
    finally:
        assert process.stdin
        process.stdin.close()


def socket_at(port: int | None) -> socket.socket:
    """Bound here, so that a browser may ask before the other process has started."""
    for tried in [port] if port is not None else [PORT, 0]:
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(("127.0.0.1", tried))
        except OSError:
            bound.close()
            continue
        bound.listen(16)
        return bound
    raise InputError(f"port {port} is taken: give another with --port")


def main(folder: str, descriptor: str) -> None:
    source = LivePage(Run(place(folder)))
    serving = server(source, listening=socket.socket(fileno=int(descriptor)))
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    with contextlib.suppress(OSError):
        sys.stdin.buffer.read()  # until the run has ended, or its process is gone
    source.wait_until_seen(MOST_SECONDS)
    time.sleep(0.5)  # for what is being sent
    serving.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
