"""The calls over gRPC that are open. A call is open until its client has the whole reply, or has gone: gRPC keeps a
reply that a client does not take."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

from taskplane.gateway.plane import Plane
from taskplane.gateway.web.disconnect import Wait
from taskplane.gateway.web.slots import Slots
from taskplane.runtime.errors import Exhausted
from taskplane.runtime.interceptors import Context, at_end
from taskplane.runtime.principal import Principal

# Seconds for the statuses of calls that are cut off.
_LAST_WRITE: Final = 1.0


class OpenCalls:
    """The open calls to one gateway. At its end they have as much time as its requests over HTTP."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        settings = plane.settings
        self._slots = Slots(settings.max_grpc_calls, settings.max_grpc_calls_per_principal, _too_many)
        self._running: set[Wait] = set()
        self._none = asyncio.Event()
        self._none.set()
        self._loop = asyncio.get_running_loop()
        self._deadline = 0.0

    def take(self, context: Context, principal: Principal) -> None:
        """Count a call until its end. Raise Exhausted `TOO_MANY_CALLS` if the principal, or all together, have too many
        open calls."""
        slot = self._slots.take(principal)
        self._none.clear()

        def ended() -> None:
            slot.release()
            if not self._slots.total:
                self._none.set()

        at_end(context, ended)

    @contextmanager
    def running(self) -> Generator[None]:
        """Run the handler of a call in the body, which is cut off with Unavailable `SHUTTING_DOWN` if it takes too long
        at the end of the gateway."""
        task = asyncio.current_task()
        assert task is not None
        wait = Wait(task)
        self._running.add(wait)
        try:
            yield
        except (asyncio.CancelledError, GeneratorExit):
            # A generator is closed if its last message is being written.
            if wait.end is None:
                raise
            task.uncancel()
            raise wait.end from None
        finally:
            self._running.discard(wait)

    def drain(self) -> None:
        """Note the time until which open calls may end."""
        self._deadline = self._loop.time() + self.plane.settings.shutdown_timeout

    async def end(self) -> None:
        """Wait until all calls have ended, and cut off those that are open at the deadline."""
        if await self._ended(self._deadline):
            return
        for wait in list(self._running):
            wait.drain()
        await self._ended(self._loop.time() + _LAST_WRITE)

    async def _ended(self, until: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._none.wait()
        return self._none.is_set()


def _too_many(limit: str) -> Exhausted:
    return Exhausted(
        f"too many open calls; {limit}",
        reason="TOO_MANY_CALLS",
        suggestion="wait for the answers to other calls",
        retry_after=1.0,
    )
