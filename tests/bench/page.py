"""The page of a large run: how long it takes to write and to open, and how large it is.

    python tests/bench/page.py [--trials 3000] [--epochs 30]

Wanted: written within 5 s (the whole command), at most 2 MB beside plotly.js, usable within 3 s of opening, at most 8
WebGL figures.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from pilotstudy.page.render import plotly
from tests.support.made_run import large

FLAGS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
WEBGL = (
    "new Set([...document.querySelectorAll('.gl-container canvas, .gl-canvas')].map(e => e.closest('.plot').id)).size"
)


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
                tab = browser.new_page()
                since = time.perf_counter()
                tab.goto(run.files.dashboard.as_uri(), wait_until="commit")
                tab.wait_for_selector("#trials-table tbody tr", state="attached")
                tab.fill("#filter", "dropout")  # it answers
                usable = time.perf_counter() - since
                tab.wait_for_selector("body[data-ready]")
                drawn = time.perf_counter() - since
                print(
                    f"usable after {usable:.1f} s, all drawn after {drawn:.1f} s, {tab.evaluate(WEBGL)} WebGL figures"
                )
                tab.close()
            browser.close()


if __name__ == "__main__":
    main()
