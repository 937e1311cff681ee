"""The server of a page that moves."""

import http.client
import json
import re
import socket
import struct
import subprocess
import time
import urllib.request

import pytest

from pilotstudy.study import reading
from tests.support import small_study
from tests.support.command_line import refused
from tests.support.made_run import Maker, content
from tests.support.waiting import LONG, wait_for


def request(serving, method: str, path: str, host: str | None = None) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(*serving.server_address, timeout=120)
    connection.request(method, path, headers={"Host": host} if host else {})
    return connection.getresponse()


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


@pytest.mark.long
def test_the_live_page_moves_while_a_real_study_runs(tmp_path, serve, visit, monkeypatch):
    from pilotstudy.runs.folder import Run

    small_study.prepare(tmp_path)
    process = small_study.start(tmp_path, "moving")
    folder = tmp_path / "runs" / "moving"
    try:
        wait_for((folder / "study.json").exists, "the run's folder", LONG, process=process)
        tab = visit(f"http://127.0.0.1:{serve(Run(folder)).server_address[1]}/")
        tab.evaluate("window.before = 1")
        first = tab.inner_text("#state")
        tab.wait_for_function(
            "text => document.getElementById('state').textContent !== text", arg=first, timeout=1000 * LONG
        )
        tab.wait_for_function(
            "document.getElementById('state').textContent.includes('done: 14 of 14')", timeout=1000 * LONG
        )
        assert tab.evaluate("window.before") == 1  # never reloaded
        assert "Best accuracy" in tab.inner_text("#answer")
        assert process.wait(LONG) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.long
def test_new_data_take_nothing_out_of_the_reader_s_hands(tmp_path, serve, visit):
    """Where the focus is and what is open stays so; and what is pressed is there until it is released."""
    arms = {arm: {} for arm in ("vanilla", "dropout", "l2", "mixup", "focal", "sam", "batchnorm", "data-aug", "isda")}
    study = reading.validate_study(content(arms=arms, search=None, seeds=[0, 1], claims=[]), "made")
    maker = Maker(tmp_path / "growing", study, points=60)
    tab = visit(f"http://127.0.0.1:{serve(maker.make(16)).server_address[1]}/")
    tab.click("#rows .chooser summary")
    trial = tab.get_attribute("#trials-table tbody tr >> nth=2", "data-trial")
    opener = f"#trials-table tr[data-trial='{trial}'] .opener"
    tab.hover(opener)
    tab.mouse.down()
    with tab.expect_response(lambda response: "data.json" in response.url and response.status == 200):
        maker.make()
    with tab.expect_response("**/data.json*"):  # it has gone on since
        pass
    assert tab.get_attribute("body", "data-version") is None
    tab.mouse.up()
    tab.wait_for_function("document.getElementById('state').textContent.includes('18 of 18')")
    assert tab.get_attribute(opener, "aria-expanded") == "true"
    assert tab.evaluate("document.activeElement.closest('tr')?.dataset.trial") == trial
    assert tab.locator("#rows .chooser[open]").count() == tab.locator("details[open]").count() == 1


def test_a_browser_that_leaves_early_is_no_error(run, serve, capfd):
    """It asks, and is gone with a reset before the page is written."""
    serving = serve(run)
    for _ in range(3):
        with socket.create_connection(serving.server_address) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert request(serving, "GET", "/").status == 200
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("engine", ["--inline", "--concurrency=1"])
def test_a_run_serves_its_page_while_it_trains_and_no_longer(tmp_path, engine):
    """Its address is told on stderr, a browser that leaves is no error, and pages that are open see the end."""
    small_study.prepare(tmp_path, epochs=3)
    words = ("run", str(tmp_path / "chaos.toml"), "--name", "mine", engine, "--live", "--port", "0", "--json")
    command, log = small_study.command(tmp_path, *words), tmp_path / "log"
    with open(log, "wb") as messages:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=messages)

    def data() -> dict:
        with urllib.request.urlopen(f"{address}data.json", timeout=120) as answer:
            return json.loads(answer.read())

    try:
        with small_study.slowed(tmp_path):
            told = wait_for(
                lambda: re.search(r"http://127.0.0.1:(\d+)/", log.read_text()), log.read_text, process=process
            )
            address, port = told[0], int(told[1])
            found = wait_for(lambda: (seen := data()).get("run") and seen, log.read_text, LONG, process=process)
            assert (found["run"]["trials"], found["live"]) == (14, True)
            assert found["run"]["state"] in ("running", "done")  # on a machine that was busy elsewhere
            with urllib.request.urlopen(address, timeout=120) as answer:
                assert answer.read().startswith(b"<!doctype html>")
            with socket.create_connection(("127.0.0.1", port)) as leaving:
                leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                leaving.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        seen = []
        try:
            while not seen or seen[-1] != "done":
                seen.append(data()["run"]["state"])
                time.sleep(0.2)
        except OSError:
            raise AssertionError(f"it ended before it told so: {seen}") from None
        out, _ = process.communicate(timeout=LONG)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, log.read_text()
    assert "answer" in json.loads(out)  # stdout is data
    assert "Traceback" not in log.read_text()

    def gone() -> bool:
        with socket.socket() as asking:
            return asking.connect_ex(("127.0.0.1", port)) != 0

    wait_for(gone, "the end of the server")


def test_a_port_that_is_taken_and_one_for_nothing(pilotstudy, tmp_path):
    words = ("run", "quickstart", "--inline", "--runs-dir", tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        refused(pilotstudy(*words, "--live", "--port", taken), 2, f"port {taken} is taken")
    refused(pilotstudy(*words, "--port", 8000), 2, "--port is for the page of --live")
    assert not list(tmp_path.iterdir())
