"""The bell on PostgreSQL: NOTIFY after the commit, and LISTEN, on one connection of a process's own.

A NOTIFY inside of a transaction that writes would serialise all commits of the server. So what was committed meanwhile
goes into one notification, which is sent when the one before has returned.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from taskplane.runtime.retry import pause_after
from taskplane.storage.bell import Bell, Heard, Listener, key_of
from taskplane.storage.connecting import PRIMARY, connect
from taskplane.storage.metrics import NOTIFICATIONS

_log = logging.getLogger(__name__)

_CLOSE_TIMEOUT: Final = 2.0
# How long the server may take to answer, and how often it is asked where nothing is to be said: a connection that was
# cut without a word is noticed by that alone. Seconds.
_ANSWER_TIMEOUT: Final = 5.0
_HEARTBEAT: Final = 10.0
# The server takes less than 8000 bytes.
_MAX_PAYLOAD: Final = 7900
_EVERYTHING: Final = "*"
_NOTIFY: Final = "SELECT pg_notify($1, $2)"

# The driver raises an internal error where a call meets a connection that its server has just closed.
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
    """Rings in all processes that listen on the same channel of the same schema; `run` is to be kept running.

    Whenever it has a connection anew, all keys are rung here once: earlier rings were missed.
    """

    def __init__(self, url: str, name: str, heard: Heard) -> None:
        """`name`: of the channel; all its ringers use the same keys."""
        self._url = url
        self._name = name
        self._heard = heard
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
        self._work.hear()

    def reconnect(self) -> None:
        """Listen on a new connection: that of now may lead to a server on which nobody writes any more."""
        self._lost = True
        self._work.hear()

    async def run(self) -> None:
        """Listen and notify until cancelled; a connection that is lost is made anew."""
        failures = 0
        while True:
            try:
                async with self._connected() as (connection, channel):
                    if failures:
                        _log.info("notifications of %s arrive again", self._name)
                    failures = 0
                    self._heard(None)
                    with NOTIFICATIONS.labels(self._name).during():
                        await self._serve(connection, channel)
            except _FAILURES as error:
                failures += 1
                if failures == 1:
                    _log.warning(
                        "notifications of %s are interrupted, polling for changes instead: %s", self._name, error
                    )
                await asyncio.sleep(pause_after(failures, None))

    @asynccontextmanager
    async def _connected(self) -> "AsyncGenerator[tuple[_Connection, str], None]":
        connection = await connect(
            self._url,
            # The server on which writes are committed. If it takes none for a while, there is nothing to hear.
            PRIMARY,
            # A notification that a crash of the server forgets is one that nobody waits for.
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
                rung = await self._work.wait(_HEARTBEAT)
                if not rung:
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
            self._heard(None if keys == _EVERYTHING else frozenset(keys.split(",")))
