"""The agent that a path names."""

from taskplane.gateway.agents import Agent
from taskplane.gateway.plane import Plane
from taskplane.runtime.errors import NotFound


async def find(plane: Plane, name: str) -> Agent:
    """Return the agent with this name or, for "namespace/name", with the plain name. Raise NotFound
    `AGENT_NOT_FOUND`."""
    try:
        return await plane.agents.find(name)
    except NotFound:
        namespace, _, plain = name.partition("/")
        if not namespace or not plain:
            raise
        return await plane.agents.find(plain)


def known(plane: Plane, name: str) -> Agent | None:
    """Return the same without asking the executor; None if it is not known."""
    return plane.agents.peek(name) or plane.agents.peek(name.partition("/")[2] or name)
