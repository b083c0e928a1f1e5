"""MCP servers with tools for a model during one run."""

import logging
import shlex
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from fastmcp.client.transports import StdioTransport
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.toolsets import AbstractToolset

from taskplane.agents.agent import AgentError

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_servers(servers: Sequence[str], timeout: float) -> AsyncGenerator[list[AbstractToolset[Any]], None]:
    """Open servers by URL or command line. When the body ends, close them and end their processes.

    `timeout`: seconds for each server. AgentError: a server cannot be started or reached in time.
    """
    async with AsyncExitStack() as stack:
        opened: list[AbstractToolset[Any]] = []
        for server in servers:
            toolset = _toolset(server, timeout)
            try:
                await stack.enter_async_context(_opened(toolset))
            except Exception as error:
                log.exception("the MCP server %r could not be opened", server)
                raise AgentError("A tool server (MCP) of the agent could not be reached.") from error
            opened.append(toolset)
        yield opened


@asynccontextmanager
async def _opened(toolset: MCPToolset[Any]) -> AsyncGenerator[None, None]:
    async with toolset:
        try:
            yield
        finally:
            # A run that is cancelled while it asks for the tools does not leave the toolset, which then stays open.
            try:
                await toolset.client.close()  # type: ignore[no-untyped-call]
            except Exception:
                log.warning("an MCP server was not closed in order", exc_info=True)


def _toolset(server: str, timeout: float) -> MCPToolset[Any]:
    if server.startswith(("http://", "https://")):
        return MCPToolset(server, init_timeout=timeout)
    command, *arguments = shlex.split(server)
    # By default its process would outlive the run.
    return MCPToolset(StdioTransport(command, arguments, keep_alive=False), init_timeout=timeout)
