"""The pages of executors of the A2A SDK and of remote agents: followed to the letter, but for the port."""

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.cli.command import PATIENCE, dev, environment, taskplane
from tests.repo.tree import ROOT
from tests.support.ports import free_port

EXAMPLES = ROOT / "docs" / "examples"


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@contextmanager
def started(command: str, folder: Path, port: int) -> Generator[None]:
    """A program of the page, up."""
    words = [sys.executable if word == "python" else word for word in shlex.split(command)]
    server = subprocess.Popen(
        words, cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                httpx.get(f"http://127.0.0.1:{port}/.well-known/agent-card.json").raise_for_status()
                break
            except httpx.TransportError:
                assert server.poll() is None and time.monotonic() < deadline
                time.sleep(0.02)
        yield
    finally:
        server.terminate()
        server.wait(PATIENCE)


def talk(text: str, url: str) -> None:
    """Types what the page has in its console, and sees what it shows."""
    (console,) = blocks(text, "console")
    session = ""
    for said in console.removeprefix("$ ").split("\n$ "):
        command, _, answer = said.partition("\n")
        done = taskplane(*shlex.split(command.replace("$SESSION", session))[1:], env={"TASKPLANE_URL": url})
        assert done.stdout.strip() == answer.strip(), (command, done.stderr)
        session = re.findall(r"session (\w+)", done.stderr)[-1]


@pytest.mark.parametrize(("name", "example"), [("a2a-sdk", "a2a_greeter.py"), ("remote-agents", "a2a_server.py")])
def test_a_page_prints_its_example(name: str, example: str) -> None:
    assert blocks(page(name), "python")[0] == (EXAMPLES / example).read_text()
    assert f"[examples/{example}](examples/{example})" in page(name)


def test_the_page_of_executors_is_true(tmp_path: Path) -> None:
    """P1, I1: its example is served, asks, and is answered."""
    (tmp_path / "a2a_greeter.py").write_text(blocks(page("a2a-sdk"), "python")[0])
    (command,) = blocks(page("a2a-sdk"), "sh")
    with dev(*shlex.split(command)[2:], cwd=tmp_path, afresh=True) as plane:
        talk(page("a2a-sdk"), plane.url)


def test_the_page_of_remote_agents_is_true(tmp_path: Path) -> None:
    """P1, I1: its server is started, and served by the plane."""
    for file in ("a2a_greeter.py", "a2a_server.py"):
        (tmp_path / file).write_text((EXAMPLES / file).read_text())
    port = free_port()
    server, serve = [command.replace("9001", str(port)) for command in blocks(page("remote-agents"), "sh")]
    with (
        started(server, tmp_path, port),
        dev(*shlex.split(serve)[2:], cwd=tmp_path, afresh=True) as plane,
    ):
        talk(page("remote-agents"), plane.url)
