"""A plane that has no agents yet."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import expect
from tests.cli.command import taskplane
from tests.page.app import App
from tests.system.plane import STEADY, Plane, four_processes


@asynccontextmanager
async def without_executor(folder: Path) -> AsyncGenerator[Plane]:
    """The stores and a gateway."""
    plane = four_processes(folder, STEADY)
    try:
        await plane.start("tasks", "sessions", "gateway", wait=False)
        await plane.logged("gateway", "gateway ready", timeout=30)
        yield plane
    finally:
        await plane.stop()


@asynccontextmanager
async def in_a_shell(commands: str, folder: Path, plane: Plane) -> AsyncGenerator[None]:
    """Runs commands unchanged, in a folder, with the settings of the services; ends their processes."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shell = await asyncio.create_subprocess_exec(
        "sh", "-e", "-c", commands, cwd=folder, env={**plane.environment, "PATH": path}, start_new_session=True
    )
    try:
        yield
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        await shell.wait()


async def test_the_shown_commands_serve_an_agent(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, another: Callable[..., Awaitable[App]]
) -> None:
    """Unchanged, in an empty folder beside the other services. The page has the agent after a reload, and the command
    line shows the same commands."""
    async with without_executor(tmp_path) as plane:
        app = await another()
        app.url = plane.url
        for path in ("/ui/agents", "/ui"):
            await app.page.goto(f"{plane.url}{path}")
            await expect(app.page.get_by_role("heading", name="No agent is served yet")).to_be_visible()
        await expect(app.box).to_have_count(0)
        commands = await app.page.locator("main pre").inner_text()
        told = await asyncio.to_thread(taskplane, "agent", "list", "--url", plane.url)
        assert [line for line in told.stderr.splitlines() if line.startswith("  ")] == [
            f"  {line}" for line in commands.splitlines()
        ]
        async with in_a_shell(commands, tmp_path_factory.mktemp("fresh"), plane):
            await plane.ready()
            await app.reload()
            await expect(app.page.get_by_role("heading", name="What should my-agent do?")).to_be_visible()
            await app.run("one two three")
            await app.shows("one two three", "Your message has 3 words.")
            await app.page.close()
