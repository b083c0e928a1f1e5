"""Connections to PostgreSQL: to the one of several hosts that accepts writes."""

from typing import Final

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from taskplane.storage.urls import hosts_of

WRITABLE: Final = SessionAttribute.read_write
"""A server that takes writes."""
PRIMARY: Final = SessionAttribute.primary
"""A server that is not a standby. It may refuse writes for a while."""

_CONNECT_TIMEOUT: Final = 2.0


async def connect(
    url: str, wanted: SessionAttribute, settings: dict[str, str], *, answer_timeout: float | None = None
) -> "asyncpg.Connection[asyncpg.Record]":
    """Return a connection to the first host of `url` that is as `wanted`. Each has 2 s.

    asyncpg reads the URL itself, so sslmode and a password file work as users of libpq expect. Raise as asyncpg does;
    TargetServerAttributeNotMatched: a host answered, and none is as wanted.
    """
    failure: Exception | None = None
    hosts: list[tuple[str | None, int | None]] = [*hosts_of(url)] or [(None, None)]
    for host, port in hosts:
        try:
            # One call for each host: the time limit of a call is for all its hosts together, and a lost host does not
            # answer.
            return await asyncpg.connect(
                url,
                host=host,
                port=port,
                timeout=_CONNECT_TIMEOUT,
                command_timeout=answer_timeout,
                target_session_attrs=wanted,
                server_settings=settings,
            )
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InternalClientError) as error:
            # The error of a host that answers is more useful than the error of a silent host.
            if failure is None or isinstance(error, asyncpg.TargetServerAttributeNotMatched):
                failure = error
    assert failure is not None
    raise failure
