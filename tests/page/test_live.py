"""The server of a page that moves."""

import http.client
import json
import socket
import struct

import pytest

from tests.support import small_study
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
        tab.wait_for_function("text => document.getElementById('state').textContent !== text", arg=first)
        tab.wait_for_function(
            "document.getElementById('state').textContent.includes('done: 14 of 14')", timeout=1000 * LONG
        )
        assert tab.evaluate("window.before") == 1  # never reloaded
        assert "has the best accuracy" in tab.inner_text("#answer")
        assert process.wait(LONG) == 0
    finally:
        process.kill()
        process.wait()


def test_a_browser_that_leaves_early_is_no_error(run, serve, capfd):
    """It asks, and is gone with a reset before the page is written."""
    serving = serve(run)
    for _ in range(3):
        with socket.create_connection(serving.server_address) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert request(serving, "GET", "/").status == 200
    assert "Traceback" not in capfd.readouterr().err
