"""`taskplane doctor`: checks of an installation and of a plane, a line each."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import asdict
from typing import Final

from taskplane.cli import exits
from taskplane.cli.checks.finding import Finding, Status
from taskplane.cli.checks.installation import installation
from taskplane.cli.checks.message import one_message
from taskplane.cli.checks.plane import CheckResults, plane
from taskplane.cli.checks.services import ports, services
from taskplane.cli.connection import connected
from taskplane.cli.options import Options
from taskplane.cli.render import dump
from taskplane.cli.report import report_error
from taskplane.cli.stdout import run_and_flush
from taskplane.client.failures import Failure

_MARKS: Final[dict[Status, str]] = {"ok": "✓", "warning": "!", "failed": "✗"}


def doctor(options: Options, grpc: str) -> int:
    """Check this installation, the plane at the URL of the options and its gRPC services. Print each finding as it
    comes. Return 1 if a check failed, else 0."""

    async def main() -> int:
        found: list[Finding] = []
        async for finding in _findings(options, grpc):
            found.append(finding)
            if options.output != "json":
                print(_line(finding) if options.output == "text" else dump(asdict(finding), indent=False), flush=True)
        if options.output == "json":
            print(dump([asdict(finding) for finding in found], indent=True))
        return exits.FAILED if any(finding.status == "failed" for finding in found) else exits.OK

    try:
        return run_and_flush(lambda: asyncio.run(main()), options.output)
    except Failure as failure:
        return report_error(failure, options.output)
    except KeyboardInterrupt:
        return exits.INTERRUPTED


async def _findings(options: Options, grpc: str) -> AsyncGenerator[Finding]:
    for finding in installation():
        yield finding
    async with connected(options) as connection:
        found = CheckResults()
        async for finding in plane(connection, found):
            yield finding
        if not found.reached:
            for finding in ports(options.url, grpc):
                yield finding
            return
        async for finding in services(grpc):
            yield finding
        async for finding in one_message(connection, options.agent, found.agents):
            yield finding


def _line(finding: Finding) -> str:
    """Return a finding as text: its mark, its name and its result, then the advice on lines of its own."""
    lines = [f"{_MARKS[finding.status]} {finding.check:14} {finding.message}"]
    return "\n".join([*lines, *(f"  {line}" for line in finding.suggestion.splitlines())])
