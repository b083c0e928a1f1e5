"""The bell on PostgreSQL: LISTEN, and NOTIFY after commits, on one extra connection for each store of the process.

A NOTIFY inside a transaction that writes would serialise all commits of the server. So NOTIFY is a statement of its
own, once for all commits during the previous NOTIFY.
"""

import logging
import secrets
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from taskplane.runtime.backoff import Backoff
from taskplane.storage.bell import Bell, Listener, OnNotified, key_of
from taskplane.storage.connecting import PRIMARY, connect
from taskplane.storage.metrics import NOTIFICATIONS

_log = logging.getLogger(__name__)

_CLOSE_TIMEOUT: Final = 2.0
# Seconds that the server may take to answer.
_ANSWER_TIMEOUT: Final = 5.0
# After so many seconds without a NOTIFY a statement tests the connection. Nothing else notices a silent loss of the
# connection.
_HEARTBEAT: Final = 10.0
# Bytes. The server accepts less than 8,000.
_MAX_PAYLOAD: Final = 7900
_EVERYTHING: Final = "*"
_NOTIFY: Final = "SELECT pg_notify($1, $2)"

# The driver raises an InternalClientError for a call on a connection that the server has just closed.
_FAILURES: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)

if TYPE_CHECKING:
    _Connection = asyncpg.Connection[asyncpg.Record]


class NotifyingBell(Bell):
    """Notifies all processes that listen on the same channel of the same schema, while `run` is running.

    After each new connection `on_notified(None)` is called, since earlier notifications may have been missed.
    """

    def __init__(self, url: str, name: str, on_notified: OnNotified) -> None:
        """`name`: the name of the channel, for one kind of keys."""
        self._url = url
        self._name = name
        self._on_notified = on_notified
        self._sender = secrets.token_urlsafe(6)
        self._keys: set[str] = set()
        self._size = 0
        self._work = Listener()
        self._lost = False

    def ring(self, keys: Iterable[str]) -> None:
        for key in keys:
            if key not in self._keys and self._size <= _MAX_PAYLOAD:
                self._keys.add(key)
                self._size += len(key) + 1
        self._work.notify()

    def reconnect(self) -> None:
        """Listen on a new connection, since the present one may lead to a server that is no longer the primary."""
        self._lost = True
        self._work.notify()

    async def run(self) -> None:
        """Listen and notify until cancelled; replace a lost connection."""
        backoff = Backoff()
        while True:
            try:
                async with self._connected() as (connection, channel):
                    if backoff.failures:
                        _log.info("notifications of %s arrive again", self._name)
                    backoff.reset()
                    self._on_notified(None)
                    with NOTIFICATIONS.labels(self._name).during():
                        await self._serve(connection, channel)
            except _FAILURES as error:
                if not backoff.failures:
                    _log.warning(
                        "notifications of %s are interrupted, polling for changes instead: %s", self._name, error
                    )
                await backoff.wait()

    @asynccontextmanager
    async def _connected(self) -> "AsyncGenerator[tuple[_Connection, str], None]":
        connection = await connect(
            self._url,
            # Only the primary sends notifications.
            PRIMARY,
            # A notification may be lost in a crash of the server, so its commit need not wait for the disk.
            {"application_name": f"taskplane bell {self._name}", "synchronous_commit": "off"},
            answer_timeout=_ANSWER_TIMEOUT,
        )
        try:
            schema: str = await connection.fetchval("SELECT current_schema()")
            channel = f"taskplane_{self._name}_{key_of(schema)}"
            self._lost = False
            connection.add_termination_listener(lambda _: self.reconnect())
            await connection.add_listener(channel, self._notified)
            yield connection, channel
        finally:
            with suppress(*_FAILURES):
                await connection.close(timeout=_CLOSE_TIMEOUT)

    async def _serve(self, connection: "_Connection", channel: str) -> None:
        while not self._lost:
            if not self._keys:
                changed = await self._work.wait(_HEARTBEAT)
                if not changed:
                    await connection.execute("SELECT 1")
                continue
            payload = _EVERYTHING if self._size > _MAX_PAYLOAD else ",".join(self._keys)
            keys, self._keys, self._size = self._keys, set(), 0
            try:
                await connection.execute(_NOTIFY, channel, f"{self._sender} {payload}")
            except BaseException:
                self.ring(keys)
                raise
        raise ConnectionResetError("the connection was closed")

    def _notified(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        sender, _, keys = str(payload).partition(" ")
        if sender != self._sender:
            self._on_notified(None if keys == _EVERYTHING else frozenset(keys.split(",")))
