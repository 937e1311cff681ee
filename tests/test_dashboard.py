"""The pages: their data without Plotly, and the pages themselves in a real browser."""

import http.client
import json
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from made_run import FINGERPRINT, Maker, content, made

from pilotstudy import spec
from pilotstudy.dashboard import data, page, trials
from pilotstudy.dashboard.live import server
from pilotstudy.director import Director

sys.path.insert(0, str(Path(__file__).parent / "cluster"))
import chaos

CHROMIUM = shutil.which("chromium")
HOSTILE = "</script><script>alert(1)</script> \"quotes\" 'and' <img src=x onerror=alert(2)> & 🦊 {{data}}"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return made(tmp_path_factory.mktemp("pages") / "made", search=content()["search"] | {"trials": 20})


@pytest.fixture(scope="module")
def saved(run) -> Path:
    return page.save(run)


# Data


def test_the_data_need_no_plotly_and_no_torch(run):
    script = (
        "import sys; from pathlib import Path; from pilotstudy.dashboard import data; from pilotstudy.runs import Run\n"
        f"data.page_data(Run(Path({str(run.files.folder)!r})))\n"
        "assert not {'plotly', 'torch', 'ray'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_same_results_give_the_same_bytes(run, saved):
    first = saved.read_bytes()
    assert page.page(data.page_data(run)).encode() == first


def test_a_resumed_run_gives_the_same_page(tmp_path):
    """It takes its trials up in another order."""
    maker = Maker(tmp_path / "again", spec.validate(content(), "made"), points=60)
    before = data.page_data(maker.make())
    resumed = Director(maker.study, maker.run, FINGERPRINT)
    assert resumed.all_done()
    resumed.save()
    after = data.page_data(maker.run)
    for found in before, after:
        found["trials"]["columns"].pop("reused")
    assert after == before


def test_reliability_is_the_mean_over_seeds(run):
    from pilotstudy import evidence, metrics
    from pilotstudy.statements import Row

    found = {row["row"]: row for row in data.calibration(run, run.study(), evidence.read(run))["rows"]}
    loaded = evidence.load(run)
    bins = []
    for log_p in loaded.rows[Row("vanilla")].values():
        import numpy as np

        bins.append(metrics.binned(*metrics.confidences(np.exp(log_p), loaded.labels)))
    last = [one.accuracy[-1] for one in bins]
    shown = found["vanilla"]["width"]
    assert shown["accuracy"][-1] == pytest.approx(sum(last) / 3, rel=1e-3)
    assert (shown["low"][-1], shown["high"][-1]) == pytest.approx((min(last), max(last)), rel=1e-3)
    assert shown["count"][-1] == pytest.approx(sum(one.count[-1] for one in bins) / 3, rel=1e-3)
    assert shown["accuracy"][0] is None  # an empty bin is no bin
    assert sum(found["vanilla"]["entropy"]) == pytest.approx(1, rel=1e-3)
    assert found["vanilla"]["risk"][-1] == pytest.approx(1 - found["vanilla"]["accuracy"], rel=1e-3)


def test_packed_numbers_come_back():
    import base64

    import numpy as np

    several = [np.array([1.0, 2.5, np.nan, 4.0]), np.zeros(0), np.array([1e6, 3.0])]  # one gone wild, one without any
    packed = trials.packed(np.concatenate(several), [len(one) for one in several])
    steps = np.frombuffer(base64.b64decode(packed["data"]), "<u2")
    assert steps[2] == 65535
    back = packed["low"][0] + steps[[0, 1, 3]] / 65534 * (packed["high"][0] - packed["low"][0])
    np.testing.assert_allclose(back, [1, 2.5, 4], atol=1e-4)
    assert len(steps) == 6


def test_where_overfitting_starts():
    import numpy as np

    assert trials.turning_point([np.array([2.0, 1.0, 1.05, 1.2])]) == 2
    assert trials.turning_point([np.array([2.0, 1.0, 1.05, 1.06])]) is None
    assert trials.turning_point([np.zeros(0)]) is None


def test_the_answer_says_what_is_real(run):
    found = data.page_data(run)["answer"]
    assert [card["metric"] for card in found["cards"]] == ["accuracy", "nll", "ece"]
    assert any("Pilot a-aug beside Vanilla" in text for text in found["sentences"])
    assert found["claims"][0]["verdict"] == "holds"


# The server


def request(serving, method: str, path: str, host: str | None = None) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(*serving.server_address, timeout=30)
    connection.request(method, path, headers={"Host": host} if host else {})
    return connection.getresponse()


@pytest.fixture
def serve():
    started = []

    def start(run):
        serving = server(run)
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        started.append(serving)
        return serving

    yield start
    for serving in started:
        serving.shutdown()
        serving.server_close()


def test_the_server_gives_one_run_to_localhost_and_nothing_else(run, serve):
    serving = serve(run)
    assert serving.server_address[0] == "127.0.0.1"
    first = request(serving, "GET", "/data.json")
    found = json.loads(first.read())
    assert found["run"]["run"] == "made"
    assert request(serving, "GET", f"/data.json?since={found['version']}").status == 304
    for path in "/study.json", "/../made/study.json", "/%2e%2e/x", "/trials.parquet", "//etc/passwd":
        assert request(serving, "GET", path).status == 404
    for method in "POST", "PUT", "DELETE", "OPTIONS":
        assert request(serving, method, "/").status == 501
    assert request(serving, "GET", "/", "evil.example").status == 403


# The browser


@pytest.fixture(scope="module")
def chromium():
    if CHROMIUM is None:
        pytest.skip("Debian's chromium is not installed")
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]  # WebGL without a GPU
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium):
    """Opens a file with the network off, or an address; anything on the console fails the test."""
    said, contexts = [], []

    def go(where: Path | str, **options):
        context = chromium.new_context(**({"viewport": {"width": 1200, "height": 900}} | options))
        contexts.append(context)
        if isinstance(where, Path):
            context.set_offline(True)
        tab = context.new_page()
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("dialog", lambda dialog: (said.append(f"dialog {dialog.message}"), dialog.dismiss()))
        tab.goto(where.as_uri() if isinstance(where, Path) else where)
        tab.wait_for_selector("body[data-ready], #runs table", timeout=60_000)
        return tab

    yield go
    for context in contexts:
        context.close()
    assert said == []


def test_it_opens_from_disk_and_draws_everything(saved, visit):
    tab = visit(saved)
    assert tab.title() == "made: Made up"
    assert tab.eval_on_selector_all("h2", "all => all.map(e => e.textContent)") == [
        "The answer",
        "Table",
        "Calibration",
        "Search",
        "Training",
        "Trials",
        "How it was made",
    ]
    undrawn = tab.eval_on_selector_all(".plot", "all => all.filter(e => !e.dataset.drawn).map(e => e.id)")
    assert undrawn == []
    empty = "all => all.filter(e => !e.querySelector('.main-svg')).map(e => e.id)"
    assert tab.eval_on_selector_all(".plot", empty) == []
    captions = tab.eval_on_selector_all(
        "figure", "all => all.map(e => [e.querySelector('h3'), e.querySelector('.reading')])"
    )
    assert len(captions) >= 11
    assert all(
        tab.eval_on_selector_all(
            "figure", "all => all.map(e => !!e.querySelector('h3') && !!e.querySelector('.reading'))"
        )
    )
    assert tab.eval_on_selector_all(".gl-canvas, .gl-container canvas", "all => all.length") <= 8 * 3
    assert "pilotstudy" in tab.inner_text("#command")


def test_a_selection_carries_over(saved, visit):
    tab = visit(saved)
    plot = tab.locator("#plot-history")
    plot.scroll_into_view_if_needed()
    box = plot.locator(".nsewdrag").first.bounding_box()
    tab.mouse.move(box["x"] + 3, box["y"] + 3)
    tab.mouse.down()
    tab.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] - 3, steps=8)
    tab.mouse.up()
    tab.wait_for_selector("#selection:not([hidden])")
    number = int(re.match(r"\d+", tab.inner_text("#selection span"))[0])
    assert 2 <= number < 20
    tab.wait_for_function(
        "document.getElementById('plot-pareto').data.some(t => t.selectedpoints && t.selectedpoints.length)"
    )
    count = "document.getElementById('plot-pareto').data.reduce((n, t) => n + (t.selectedpoints || []).length, 0)"
    assert tab.evaluate(count) == number
    tab.check("#only-selected")
    assert tab.inner_text("#trials-count").startswith(f"{number} trials")
    assert tab.locator("#trials-table tr.selected").count() == number
    tab.uncheck("#only-selected")
    # From the table, with the keyboard, to the figures.
    tab.locator("#trials-table tbody tr").nth(2).focus()
    tab.keyboard.press("Enter")
    assert tab.inner_text("#selection span") == "1 trial selected"
    tab.wait_for_selector("#detail-curves .main-svg")
    tab.wait_for_selector("#detail-bins .main-svg")
    tab.click("#selection button")
    assert tab.is_hidden("#selection")


def test_sorting_filtering_switching_and_the_large_view(saved, visit):
    tab = visit(saved)
    tab.fill("#filter", "dropout search")
    assert tab.inner_text("#trials-count").startswith("10 trials")
    tab.click("#trials-table th button:text-is('NLL')")
    values = [
        float(v)
        for v in tab.eval_on_selector_all("#trials-table tbody tr", "all => all.map(e => e.cells[5].textContent)")
    ]
    assert values == sorted(values)
    assert tab.get_attribute("#trials-table th:nth-child(6)", "aria-sort") == "ascending"
    first = "#table tbody tr:first-child td:nth-child(5)"
    before = tab.inner_text(first)
    tab.click("text=last, temperature-scaled")
    assert tab.inner_text(first) != before
    tab.click("#table button:text-is('Monte Carlo')")
    assert all(
        "MC" in text for text in tab.eval_on_selector_all("#table tbody th", "all => all.map(e => e.textContent)")
    )
    tab.click(".multiples > button:first-child")
    tab.wait_for_selector("dialog[open] .main-svg")
    tab.keyboard.press("Escape")
    tab.click("#history summary")
    tab.wait_for_selector("#history details table tbody tr")
    assert tab.locator("#history details table tbody tr").count() == 20
    with tab.expect_download() as downloaded:
        tab.click("#history button:text-is('CSV')")
    assert Path(downloaded.value.path()).read_text().startswith("arm,trial,NLL,accuracy,ECE\n")


def test_dark_narrow_and_printed(saved, visit, tmp_path):
    background = "getComputedStyle(document.body).backgroundColor"
    dark = visit(saved, color_scheme="dark")
    assert dark.evaluate(background) == "rgb(20, 22, 26)"
    dark.click("#theme")
    assert dark.evaluate(background) == "rgb(251, 250, 247)"
    narrow = visit(saved, viewport={"width": 390, "height": 800})
    assert narrow.evaluate("document.documentElement.scrollWidth") <= 390
    narrow.pdf(path=tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").stat().st_size > 50_000


def test_what_users_wrote_is_text(tmp_path, visit):
    names = tuple(f"{HOSTILE} {k}" for k in range(10))
    study = spec.validate(
        content(
            title=HOSTILE, name=HOSTILE, claims=[{"says": HOSTILE, "holds": "nll: l2 < vanilla", "section": HOSTILE}]
        ),
        "made",
    )
    tab = visit(page.save(Maker(tmp_path / "hostile", study, points=60, classes=names).make()))
    assert tab.inner_text("#title") == HOSTILE
    assert HOSTILE in tab.inner_text(".claims")
    assert HOSTILE.split("\n")[0][:20] in tab.inner_text("#study")


@pytest.mark.parametrize(
    ("name", "changes", "most", "status", "expected"),
    [
        ("nothing", {}, 0, "finished", "No trial has finished yet"),
        ("half", {}, 7, "finished", "has the best accuracy"),
        ("one", {"arms": {"vanilla": {}}, "seeds": [0], "search": None}, 1, "finished", "the only row"),
        ("failures", {}, 1000, "failed", "No trial has finished yet"),
        ("seed", {"seeds": [0]}, 1000, "finished", "one seed"),
    ],
)
def test_odd_runs_make_sense(tmp_path, visit, name, changes, most, status, expected):
    maker = Maker(tmp_path / name, spec.validate(content(**changes), "made"), points=100)
    tab = visit(page.save(maker.make(most, status)))
    assert expected in tab.inner_text("#answer")
    assert tab.eval_on_selector_all(".plot", "all => all.filter(e => !e.dataset.drawn).length") == 0
    if name == "seed":
        assert "✓" not in tab.inner_text(".cards")
    if status == "failed":
        tab.locator("#trials-table tbody tr").first.click()
        assert "no <luck> today" in tab.inner_text("#detail")
        assert tab.inner_text("#traceback") == "Traceback: <b>line 1</b>"


def test_a_hundred_classes(tmp_path, visit):
    study = spec.validate(content(search=None, seeds=[0, 1]), "made")
    tab = visit(page.save(Maker(tmp_path / "c", study, points=400, classes=tuple(f"c{k}" for k in range(100))).make()))
    assert tab.locator(".multiples > button").count() == 4


def test_the_index_lays_runs_side_by_side(tmp_path, visit):
    runs = [made(tmp_path / name, network={"name": network}) for name, network in (("a", "mlp-512"), ("b", "cnn"))]
    made(tmp_path / "empty", most=0)
    made(tmp_path / "torn", most=0).files.study.write_text("{")
    from pilotstudy.runs import Run

    tab = visit(page.save_index(Run.all(tmp_path), tmp_path))
    assert tab.locator("#runs tbody tr").count() == 4
    assert "torn: " in tab.inner_text("#runs")
    for run in runs:
        tab.check(f"input[value={run.name}]")
    assert tab.locator("#beside table").count() == 3
    assert "pilotstudy compare a b" in tab.inner_text("#beside")
    tab.click("a:text-is('a')")
    tab.wait_for_selector("body[data-ready]")
    assert tab.title() == "a: Made up"


@pytest.mark.long
def test_the_live_page_moves_while_a_real_study_runs(tmp_path, serve, visit, monkeypatch):
    from pilotstudy.runs import Run

    chaos.prepare(tmp_path)
    process = chaos.start(tmp_path, "moving")
    folder = tmp_path / "runs" / "moving"
    try:
        deadline = time.monotonic() + 90
        while not (folder / "study.json").exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        tab = visit(f"http://127.0.0.1:{serve(Run(folder)).server_address[1]}/")
        tab.evaluate("window.before = 1")
        first = tab.inner_text("#state")
        tab.wait_for_function(
            "text => document.getElementById('state').textContent !== text", arg=first, timeout=90_000
        )
        tab.wait_for_function(
            "document.getElementById('state').textContent.includes('done: 14 of 14')", timeout=120_000
        )
        assert tab.evaluate("window.before") == 1  # never reloaded
        assert "has the best accuracy" in tab.inner_text("#answer")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
