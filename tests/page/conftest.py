import json
import shutil
import threading
from pathlib import Path

import pytest

from pilotstudy.page import render
from pilotstudy.page.server import LivePage, server
from tests.support.made_run import content, made

CHROMIUM = shutil.which("chromium")
MOST = 300_000  # milliseconds for anything in the browser; reached only if it hangs


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    return made(tmp_path_factory.mktemp("pages") / "made", search=content()["search"] | {"trials": 20})


@pytest.fixture(scope="session")
def saved(run) -> Path:
    return render.save(run)


@pytest.fixture
def serve():
    started = []

    def start(run):
        serving = server(LivePage(run))
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        started.append(serving)
        return serving

    yield start
    for serving in started:
        serving.shutdown()
        serving.server_close()


def see(tab, plot: str):
    """Scrolls to a plot and waits until it is drawn, as it is to be now."""
    place = f"document.getElementById({json.dumps(plot)})"
    tab.evaluate(f"{place}.scrollIntoView({{behavior: 'instant', block: 'center'}})")
    tab.wait_for_function(f"{place}.dataset.drawn")
    return tab.locator(f"id={plot}")


def look_at_all(tab) -> None:
    """Scrolls to each plot until it is drawn, as a reader would."""
    for plot in tab.eval_on_selector_all(".plot", "all => all.map(e => e.id)"):
        see(tab, plot)


@pytest.fixture(scope="module")
def chromium():
    if CHROMIUM is None:
        pytest.skip("Debian's chromium is not installed")
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags, timeout=MOST)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium, serve):
    """Opens a file with the network off, or an address; anything on the console fails the test.

    What is served is so until its pages are closed, which would else tell of a server that is gone.

    Conditions that tests wait for are evaluated, which the page itself may not do: hence bypass_csp. Nothing scrolls
    smoothly, which on a loaded machine is still under way when the next step of a test looks or clicks.
    """
    said, contexts = [], []

    def go(where: Path | str, ready: str = "body[data-ready], #runs table", **options):
        usual = {"viewport": {"width": 1200, "height": 900}, "bypass_csp": True, "reduced_motion": "reduce"}
        context = chromium.new_context(**(usual | options))
        contexts.append(context)
        context.set_default_timeout(MOST)
        if isinstance(where, Path):
            context.set_offline(True)
        tab = context.new_page()
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("dialog", lambda dialog: (said.append(f"dialog {dialog.message}"), dialog.dismiss()))
        tab.goto(where.as_uri() if isinstance(where, Path) else where)
        tab.wait_for_selector(ready)
        return tab

    yield go
    for context in contexts:
        context.close()
    assert said == []
