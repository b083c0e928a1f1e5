"""A tool server (MCP) over HTTP."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mcp.server.mcpserver import MCPServer
from tests.support.sdk_server import Serving, serving


async def wait() -> str:
    """Wait for ever."""
    await asyncio.Event().wait()
    return "never"


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@asynccontextmanager
async def open_tool_server() -> AsyncGenerator[Serving]:
    """Serve these tools at the path /mcp."""
    tools = MCPServer("tools")
    for tool in (wait, add):
        tools.tool()(tool)
    async with serving(tools.streamable_http_app(), lifespan="on") as up:
        yield up
