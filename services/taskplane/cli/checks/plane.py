"""Checks of a plane through its HTTP gateway."""

import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Final

from taskplane.api import __version__
from taskplane.cli.advice import advice
from taskplane.cli.checks.finding import Finding
from taskplane.cli.connection import Connection
from taskplane.client.answers import members
from taskplane.client.failures import Failure

# Seconds; the header Date has whole seconds.
_SKEW: Final = 3.0


@dataclass(slots=True)
class CheckResults:
    """Results that later checks need."""

    reached: bool = False
    agents: list[str] = field(default_factory=list[str])


async def plane(connection: Connection, found: CheckResults) -> AsyncGenerator[Finding]:
    """Check the gateway: answer, readiness, version, clock, caller, and the card of its default agent."""
    http = connection.http
    began = time.perf_counter()
    try:
        headers = await http.headers("/healthz")
    except Failure as failure:
        yield _failed("gateway", failure)
        return
    seconds = time.perf_counter() - began
    found.reached = True
    yield Finding("ok", "gateway", f"{http.url} answers ({seconds * 1000:.1f} ms)")
    yield _clock(headers.get("date", ""))
    try:
        yield await _readiness(connection)
        described = await http.data("GET", "/api/ui-config", "version", "caller", "agents")
        yield _version(str(described["version"]))
        found.agents = [str(one["name"]) for one in described["agents"]]
        yield _caller(described["caller"])
        if described["caller"]:
            async for finding in _card(connection):
                yield finding
    except Failure as failure:
        yield _failed("gateway", failure)


async def _readiness(connection: Connection) -> Finding:
    remedy = f"{connection.http.url}/readyz names the service with the problem."
    try:
        found = await connection.http.json("GET", "/readyz")
    except Failure as failure:
        return Finding("failed", "readiness", f"the plane is not ready: {failure.message}", remedy)
    if found.get("degraded"):
        return Finding("failed", "readiness", "no executor is ready, so no turn runs", remedy)
    return Finding("ok", "readiness", "every service behind the gateway is ready")


def _version(theirs: str) -> Finding:
    ours = __version__
    if theirs == ours:
        return Finding("ok", "version", f"the server and this command have version {theirs}")
    return Finding(
        "warning",
        "version",
        f"the server has version {theirs}, this command {ours}",
        "Use the same version of the command.",
    )


def _clock(date: str) -> Finding:
    try:
        skew = abs(time.time() - parsedate_to_datetime(date).timestamp())
    except ValueError:
        return Finding("warning", "clock", "the server does not send its time")
    if skew < _SKEW:
        return Finding("ok", "clock", "the clocks of the server and of this machine agree")
    return Finding(
        "warning",
        "clock",
        f"the clocks of the server and of this machine differ by {skew:.0f} s",
        "Check NTP on both machines.",
    )


def _caller(caller: Any) -> Finding:
    if not caller:
        return Finding("failed", "caller", "the server requires an API key", "export TASKPLANE_TOKEN=<id>.<secret>")
    return Finding("ok", "caller", f"you are {caller.get('user')} of tenant {caller.get('tenant')}")


async def _card(connection: Connection) -> AsyncGenerator[Finding]:
    described = await connection.described()
    name = str(described.get("name") or "the agent")
    for one in described["warnings"]:
        warning = members(connection.http.url, one, "message")
        yield Finding("warning", "card", f"{name}: {warning['message']}")
    if not described["warnings"]:
        yield Finding("ok", "card", f"the card of {name} has no warnings")


def _failed(check: str, failure: Failure) -> Finding:
    return Finding("failed", check, failure.message, advice(failure))
