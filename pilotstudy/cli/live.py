"""The page that is served while a study trains."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pilotstudy.runs.folder import Run


@contextmanager
def live_page(run: "Run", live: bool, port: int | None) -> Iterator[None]:
    """With `live`, serves the page of a run on this machine until the block ends, and opens it where there is a screen.

    stdout is for data, so the address is told on stderr.
    """
    from pilotstudy.errors import InputError

    if not live:
        if port is not None:
            raise InputError("--port is for the page of --live: give both")
        yield
        return
    from pilotstudy.console import message
    from pilotstudy.page.beside import served_beside

    with served_beside(run, port) as address:
        message(f"the page while it trains: {address} (it ends with the run)")
        if sys.stdout.isatty() and has_screen():
            import webbrowser

            webbrowser.open(address)
        yield


def has_screen() -> bool:
    """Whether a browser could show something."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
