"""Commands with the address of another program, such as the sign-in page of a proxy."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.cli.command import Dev, taskplane
from tests.support.http_thread import serving_thread

PAGE = "<!doctype html><title>Sign in</title>"
FILE = '{"type":"header"}\n'
READING = [
    ["ops"],
    ["ops", "tasks"],
    ["ops", "show", "x"],
    ["ops", "cancel", "x" * 32],
    ["ops", "delete", "x" * 32, "-y"],
    ["task", "list"],
    ["task", "get", "x" * 32],
    ["task", "cancel", "x" * 32],
    ["session", "list"],
    ["session", "show", "x" * 32],
    ["session", "rename", "x" * 32, "new"],
    ["session", "undo", "x" * 32],
    ["session", "fork", "x" * 32],
    ["session", "delete", "x" * 32, "-y"],
    ["session", "export", "x" * 32],
    ["session", "import", "-"],
    ["tail", "--session", "x" * 32],
    ["artifact", "list", "x" * 32],
    ["artifact", "get", "x" * 32, "a"],
    ["card", "check"],
    ["tail", "x" * 32],
    ["chat", "-m", "hello"],
    ["chat", "--session", "x" * 32, "-m", "hello"],
]


@contextmanager
def answering(body: str, status: int = 200, content_type: str = "text/html") -> Generator[str]:
    """The address of a server that answers everything with one body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Transfer-Encoding") == "chunked":
                while size := int(self.rfile.readline(), 16):
                    self.rfile.read(size + 2)
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "https://login.example/")
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body.encode())

        do_POST = do_PATCH = do_DELETE = do_GET

        def log_message(self, format: str, *args: object) -> None: ...

    with serving_thread(Handler) as url:
        yield url


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_a_web_page_as_an_answer_is_an_error_with_a_suggestion(arguments: list[str]) -> None:
    with answering(PAGE) as url:
        done = taskplane(*arguments, "--url", url, stdin=FILE)
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    lines = done.stderr.splitlines()
    assert lines[0].startswith(f"✗ {url} answered with ")
    assert (len(lines), lines[-1]) == (4, "  NOT_TASKPLANE")
    assert "--url" in lines[2]


@pytest.mark.parametrize("body", ["{}", "null", '{"error":false,"data":["x"]}'])
@pytest.mark.parametrize("arguments", [one for one in READING if "delete" not in one], ids=" ".join)
def test_json_of_another_kind_is_the_same_error(arguments: list[str], body: str) -> None:
    with answering(body, content_type="application/json") as url:
        done = taskplane(*arguments, "--url", url, stdin=FILE)
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert done.stderr.splitlines()[-1] == "  NOT_TASKPLANE"


@pytest.mark.parametrize("body", ["[]", '{"data":{}}', '{"error":false,"data":{}}', '{"error":"no"}'])
def test_an_incomplete_overview_is_the_same_error(body: str) -> None:
    with answering(body, content_type="application/json") as url:
        done = taskplane("ops", "--url", url)
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert done.stderr.splitlines()[-1] == "  NOT_TASKPLANE"


@pytest.mark.parametrize("arguments", [["ops"], ["session", "export", "x" * 32], ["chat", "-m", "hi"]], ids=" ".join)
def test_the_error_for_a_redirect_names_its_target(arguments: list[str]) -> None:
    with answering("", 302) as url:
        done = taskplane(*arguments, "--url", url)
    assert done.returncode == 3
    assert "https://login.example/" in done.stderr.splitlines()[0]


def test_no_file_is_written_from_a_web_page(tmp_path: Path) -> None:
    with answering(PAGE) as url:
        done = taskplane(
            "session", "export", "x" * 32, "--format", "markdown", "-O", "it.md", "--url", url, cwd=tmp_path
        )
    assert done.returncode == 3
    assert list(tmp_path.iterdir()) == []


def test_as_json_the_error_for_a_web_page_is_not_retryable() -> None:
    with answering(PAGE) as url:
        done = taskplane("task", "list", "-o", "json", "--url", url)
    error = json.loads(done.stderr)["error"]
    assert (error["code"], error["retryable"]) == ("NOT_TASKPLANE", False)


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_the_error_for_a_grpc_port_comes_at_once(arguments: list[str], plane: Dev) -> None:
    """Without the minute of retries that a broken connection gets."""
    done = taskplane(*arguments, "--url", f"http://{plane.grpc}", stdin=FILE)
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert done.stderr.splitlines()[-1] == "  GRPC_PORT"
