"""The web page in a browser: the commands that open it, and the address."""

import os
import pty
import signal
import subprocess
import webbrowser
from pathlib import Path

import httpx
import pytest
from tests.cli.command import PATIENCE, PROGRAM, Dev, dev, environment, session_of, taskplane

from taskplane.cli.browser import open_page, page_address


@pytest.fixture
def opened(tmp_path: Path) -> Path:
    """A pipe to which the browser of this user writes each address. The browser waits until the pipe is read."""
    pipe = tmp_path / "opened"
    os.mkfifo(pipe)
    return pipe


def browser(pipe: Path) -> dict[str, str]:
    """The environment of a user with a browser."""
    program = pipe.with_name("browser")
    program.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {pipe}\n')
    program.chmod(0o755)
    return {"BROWSER": f"{program} %s &"}


def on_a_terminal(folder: Path, env: dict[str, str], *options: str) -> "tuple[subprocess.Popen[bytes], int]":
    terminal, inner = pty.openpty()
    command = [*PROGRAM, "dev", "--port", "0", "--grpc-port", "0", *options]
    process = subprocess.Popen(
        command, cwd=folder, env=environment(env), stdin=inner, stdout=inner, stderr=subprocess.DEVNULL
    )
    os.close(inner)
    return process, terminal


def test_the_address_of_the_page_is_printed_first_and_works(plane: Dev) -> None:
    addresses = [line for line in plane.said.splitlines() if "http://" in line and not line.startswith("{")]
    first = addresses[0]
    assert first.split("  ")[0] == "Web page"
    address = first.removeprefix("Web page").split()[0]
    reply = httpx.get(address, headers={"Accept": "text/html"})
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")


def test_on_a_terminal_the_page_is_opened(tmp_path: Path, opened: Path) -> None:
    process, terminal = on_a_terminal(tmp_path, browser(opened))
    try:
        address = opened.read_text()
        assert httpx.get(address, headers={"Accept": "text/html"}).status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


@pytest.mark.more
def test_the_page_is_not_opened_for_a_script_or_with_no_browser(tmp_path: Path, opened: Path) -> None:
    """The pipe is not read meanwhile, so an opened browser would still wait there."""
    env = browser(opened)
    with dev(cwd=tmp_path, env=env, afresh=True) as plane:
        plane.signal(signal.SIGINT)
        assert plane.end()[0] == 0
    process, terminal = on_a_terminal(tmp_path, env, "--no-browser")
    try:
        said = b""
        while b"ready in" not in said:
            said += os.read(terminal, 65536)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    reader = os.open(opened, os.O_RDONLY | os.O_NONBLOCK)
    try:
        # Without a waiting browser the read ends at once; else it gives an address, or "none yet".
        assert os.read(reader, 100) == b""
    finally:
        os.close(reader)


def test_a_chat_opens_its_session_in_the_page(url: str, opened: Path) -> None:
    session = session_of(url, "one")
    command = [*PROGRAM, "chat", "--url", url, "--session", session]
    with subprocess.Popen(
        command,
        env=environment(browser(opened)),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as chat:
        assert chat.stdin is not None
        chat.stdin.write("/open\n")
        chat.stdin.flush()
        address = opened.read_text()
        chat.stdin.close()
        assert chat.stderr is not None
        said = chat.stderr.read().splitlines()
    assert address == f"{url}/ui/sessions/{session}"
    assert f"  {address}" in said
    assert httpx.get(address).status_code == 200


def test_without_a_browser_the_address_is_printed(url: str) -> None:
    """A browser in the terminal would take the terminal over, so it does not count as a browser."""
    told = taskplane("chat", "--url", url, env={"BROWSER": "cat %s", "DISPLAY": ""}, stdin="/open\n", afresh=True)
    lines = told.stderr.splitlines()
    assert lines[:2] == [f"  {url}/", "  there is no browser here; open this address in another one"]


def test_the_address_of_a_session_escapes_its_id() -> None:
    assert page_address("http://127.0.0.1:8080/", "a/b c?") == "http://127.0.0.1:8080/ui/sessions/a%2Fb%20c%3F"
    assert page_address("http://plane.example/base") == "http://plane.example/base/"


def test_no_browser_at_all_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "get", missing)
    assert not open_page("http://127.0.0.1:8080/")
