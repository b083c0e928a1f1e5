"""Connections to PostgreSQL: of several hosts, the one that takes writes."""

from typing import Final

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from taskplane.storage.urls import hosts_of

WRITABLE: Final = SessionAttribute.read_write
"""A server that takes writes."""
PRIMARY: Final = SessionAttribute.primary
"""A server that is no standby, though it may take no writes for a while."""

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
            # Not all hosts in one call: the limit is for all of them together, and a host that is gone says nothing.
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
            # A host that answers says more than one that does not.
            if failure is None or isinstance(error, asyncpg.TargetServerAttributeNotMatched):
                failure = error
    assert failure is not None
    raise failure
