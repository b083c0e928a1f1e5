"""A server of tools: its first argument is a file for its process id."""

import asyncio
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("tools")


@server.tool()
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def wait() -> str:
    """Wait for ever."""
    await asyncio.Event().wait()
    return "never"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(str(os.getpid()))
    server.run("stdio")
