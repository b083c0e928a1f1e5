"""gRPC calls of the operator, made as a service with the internal secret."""

import asyncio
from collections.abc import Awaitable, Callable

import grpc

from taskplane.cli import exits
from taskplane.cli.options import Output
from taskplane.cli.report import report_error
from taskplane.cli.stdout import run_and_flush
from taskplane.client.failures import Failure, Unauthorized, Unreachable
from taskplane.runtime.channel import client, connect
from taskplane.runtime.errors import PermissionDenied, PlaneError, Unauthenticated, Unavailable
from taskplane.runtime.principal import Principal
from taskplane.runtime.settings import load

# Seconds; a call that reads everything that is stored may take long.
_DEADLINE = 600.0


def run(
    address: str, owner: tuple[str, str], output: Output, command: Callable[[grpc.aio.Channel], Awaitable[int]]
) -> int:
    """Run `command` on a channel to `address` that acts for `owner`, a tenant and an owner. Return the exit code."""

    async def main() -> int:
        identity = Principal(*owner, "operator", service=True)
        secret = _secret().encode()
        async with connect(address) as channel:
            return await command(client(channel, identity=identity, secret=secret, deadline=_DEADLINE))

    try:
        return run_and_flush(lambda: asyncio.run(main()), output)
    except (Failure, PlaneError) as error:
        return report_error(_as_failure(error, address), output)
    except KeyboardInterrupt:
        return exits.INTERRUPTED


def _secret() -> str:
    """Return the internal secret of the first service that has one, as `taskplane dev` does, or ""."""
    from taskplane.cli.settings import KNOWN

    services = (load(settings, prefix) for settings, prefix in KNOWN)
    return next(filter(None, (getattr(service, "internal_secret", "") for service in services)), "")


def _as_failure(error: Failure | PlaneError, address: str) -> Failure | PlaneError:
    if isinstance(error, Unavailable):
        return Unreachable(
            f"{address} is unreachable or unable to work at the moment.",
            reason=error.reason,
            suggestion="Give the gRPC address of the plane:  --grpc HOST:PORT",
        )
    if isinstance(error, (Unauthenticated, PermissionDenied)):
        return Unauthorized(error.message, reason=error.reason, suggestion=error.suggestion)
    return error
