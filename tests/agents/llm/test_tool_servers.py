"""MCP servers of a run."""

import asyncio
import sys
from pathlib import Path

import pytest
from tests.agents.llm.processes import command, is_gone, plain_command
from tests.agents.llm.turns import all_of, open_agent, text_of, turn
from tests.executor.plane import until
from tests.support.scripted_model import Answer, Request, calls, hang, text
from tests.support.thorough import THOROUGH

from taskplane.agents.agent import AgentError, ToolCall, ToolResult


async def test_a_tool_server_is_called_and_its_process_ends_with_the_run(tmp_path: Path) -> None:
    """P11: no process stays."""
    async with open_agent(mcp=[command(tmp_path / "pid")]) as (agent, server):
        server.add(calls(("add", {"a": 2, "b": 3})), text("Five."))
        found = await all_of(agent.run(turn("add")))
        assert ToolCall("call-0", "add", {"a": 2, "b": 3}) in found
        (result,) = [change.response for change in found if isinstance(change, ToolResult)]
        assert "5" in str(result)
        assert text_of(found) == "Five."
        await until(is_gone(tmp_path / "pid"))


@pytest.mark.parametrize("at", ["model", "tool"])
async def test_the_process_of_a_tool_server_ends_after_a_cancel(tmp_path: Path, at: str) -> None:
    """P8, P11: during the model's stream and during a call of its tool."""

    def script(request: Request) -> Answer:
        return hang() if at == "model" else calls(("wait", {}))

    async with open_agent(script, mcp=[command(tmp_path / "pid")]) as (agent, server):
        changes = agent.run(turn("wait"))
        running = asyncio.create_task(all_of(changes))
        await until(lambda: bool(server.requests) and server.requests[0].begun.is_set())
        if at == "tool":
            await until(lambda: server.requests[0].answered)
        running.cancel()
        await asyncio.wait((running,))
        await changes.aclose()  # type: ignore[attr-defined]
        await until(is_gone(tmp_path / "pid"))
        if at == "model":
            async with asyncio.timeout(10):
                await server.requests[0].closed.wait()


async def test_the_process_of_a_tool_server_ends_after_a_cancel_while_its_tools_are_listed(tmp_path: Path) -> None:
    """P8, P11: the library itself would leave the process."""
    notes = tmp_path / "notes"
    async with open_agent(mcp=[plain_command(notes, "mute")]) as (agent, _):
        changes = agent.run(turn("wait"))
        running = asyncio.create_task(all_of(changes))
        await until(lambda: notes.exists() and "listed" in notes.read_text())
        running.cancel()
        await asyncio.wait((running,))
        await changes.aclose()  # type: ignore[attr-defined]
        await until(is_gone(notes))


async def test_an_unreachable_tool_server_fails_before_any_model_request() -> None:
    """P9: also a command that ends at once or does not exist."""
    for missing in ("http://127.0.0.1:9/mcp", f"{sys.executable} -c pass", "no-such-command-here"):
        async with open_agent(mcp=[missing]) as (agent, server):
            with pytest.raises(AgentError, match="tool server"):
                await all_of(agent.run(turn("add")))
            assert not server.requests


async def test_a_tool_server_that_starts_too_slowly_fails_the_run(tmp_path: Path) -> None:
    """P9, P11: after the set time; its process ends."""
    notes = tmp_path / "notes"
    async with open_agent(mcp=[plain_command(notes, "late", "60")], mcp_timeout=0.5) as (agent, server):
        with pytest.raises(AgentError, match="tool server"):
            await all_of(agent.run(turn("go")))
        assert not server.requests
        await until(is_gone(notes))


@pytest.mark.skipif(not THOROUGH, reason="takes longer than the limit of the library")
async def test_a_tool_server_may_start_slowly(tmp_path: Path) -> None:
    """P11: longer than the default of the library."""
    async with open_agent(mcp=[plain_command(tmp_path / "late", "late", "6")]) as (agent, server):
        server.add(text("Here."))
        assert text_of(await all_of(agent.run(turn("go")))) == "Here."
