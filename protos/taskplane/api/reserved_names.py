"""The names that begin paths of the gateway. No agent and no tenant may have one (A2A 1.0 section 3.1, a2a H14)."""

from typing import Final

RESERVED: Final = frozenset(
    {
        ".well-known",
        "agents",
        "api",
        "extendedAgentCard",
        "healthz",
        "jsonrpc",
        "message:send",
        "message:stream",
        "metrics",
        "readyz",
        "tasks",
        "ui",
        "v1",
    }
)
"""A path below the name of a tenant would read like another path of the gateway."""
