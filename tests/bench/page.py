"""The page of a large run: how long it takes to write and to open, and how large it is.

    python tests/bench/page.py [--trials 3000] [--epochs 30]

Wanted: written within 5 s (the whole command), at most 2 MB beside plotly.js, usable within 3 s of opening, no figure
slower than a second.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from pilotstudy.page.render import plotly
from tests.support.made_run import large

FLAGS = ["--no-sandbox", "--disable-gpu"]


def draw(tab: Page, plot: str) -> float:
    """The seconds until a plot that is scrolled to is drawn."""
    place = f"document.getElementById('{plot}')"
    since = time.perf_counter()
    tab.evaluate(f"{place}.scrollIntoView({{behavior: 'instant', block: 'center'}})")
    tab.wait_for_function(f"{place}.dataset.drawn")
    return time.perf_counter() - since


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=3000)
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = large(Path(folder) / "large", options.trials, options.epochs)
        command = [sys.executable, "-m", "pilotstudy", "dashboard", "large", "--runs-dir", folder]
        for _ in range(3):
            since = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            print(f"written in {time.perf_counter() - since:.1f} s")
        size = run.files.dashboard.stat().st_size - len(plotly().encode())
        print(f"{size / 1e6:.2f} MB beside plotly.js")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            for _ in range(3):
                tab = browser.new_page(bypass_csp=True)  # a condition that is waited for is evaluated
                since = time.perf_counter()
                tab.goto(run.files.dashboard.as_uri(), wait_until="commit")
                tab.wait_for_selector("#trials-table tbody tr", state="attached")
                tab.fill("#filter", "dropout")  # it answers
                usable = time.perf_counter() - since
                tab.wait_for_selector("body[data-ready]")
                shown = time.perf_counter() - since
                print(f"usable after {usable:.1f} s, what is in sight drawn after {shown:.1f} s")
                took = {
                    plot: draw(tab, plot) for plot in tab.eval_on_selector_all(".plot", "all => all.map(e => e.id)")
                }
                slowest = max(took, key=took.__getitem__)
                print(
                    f"all drawn when scrolled to, in {sum(took.values()):.1f} s; {slowest} took {took[slowest]:.1f} s"
                )
                tab.close()
            browser.close()


if __name__ == "__main__":
    main()
