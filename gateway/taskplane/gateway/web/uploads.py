"""Reads request bodies with limits: total time, minimum rate, and number of slow bodies of one caller at once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Generator
from contextlib import ExitStack, contextmanager
from typing import Final, TypeVar

from taskplane.gateway.settings import GatewaySettings
from taskplane.gateway.web.http import BodyTooLarge, BodyTooSlow, ClientGone, Request
from taskplane.runtime.errors import Exhausted
from taskplane.runtime.principal import Principal, caller

# Seconds after which a body that has not arrived counts as slow.
AT_ONCE: Final = 1.0
# Seconds of waiting before the minimum rate applies to a body.
GRACE: Final = 5.0
# Seconds to wait before another import, told to the refused caller.
_IMPORT_RETRY: Final = 5.0

T = TypeVar("T")


class Uploads:
    """The bodies that are being read, and the imports, by their callers."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._slow: Counter[tuple[str, str]] = Counter()
        self._importers: set[tuple[str, str]] = set()
        self._imports = 0

    async def whole(self, request: Request) -> bytes:
        """Return the body of a request, and set its size.

        Raise BodyTooLarge; BodyTooSlow; ClientGone; Exhausted `TOO_MANY_UPLOADS` if the caller already has the maximum
        number of slow bodies.
        """
        settings = self._settings
        length = request.header(b"content-length")
        if length and (not length.isdigit() or int(length) > settings.max_body):
            raise BodyTooLarge(settings.max_body)
        body = Body(request, settings.max_body, settings.body_timeout, settings)
        chunks: list[bytes] = []
        try:
            async with asyncio.timeout(min(AT_ONCE, settings.body_timeout)):
                async for chunk in body.unpaced():
                    chunks.append(chunk)
        except TimeoutError:
            with self._slowly(caller()):
                async for chunk in body.parts():
                    chunks.append(chunk)
        request.size = body.size
        return b"".join(chunks)

    async def message(self, arriving: Awaitable[T]) -> T:
        """Return a request that arrives in one piece. Raise BodyTooSlow, and Exhausted `TOO_MANY_UPLOADS` as `whole`
        does."""
        settings, principal, loop = self._settings, caller(), asyncio.get_running_loop()
        error: Exhausted | BodyTooSlow = BodyTooSlow("the request took too long to arrive", "BODY_TIMEOUT")

        def late() -> None:
            nonlocal error
            try:
                slow.enter_context(self._slowly(principal))
            except Exhausted as too_many:
                error = too_many
                bound.reschedule(loop.time())

        timer = loop.call_later(min(AT_ONCE, settings.body_timeout), late)
        try:
            with ExitStack() as slow:
                async with asyncio.timeout(settings.body_timeout) as bound:
                    return await arriving
        except TimeoutError:
            raise error from None
        finally:
            timer.cancel()

    @contextmanager
    def importing(self, principal: Principal) -> Generator[None]:
        """Hold the one import of a caller. Raise Exhausted `TOO_MANY_IMPORTS` if the caller has a running import."""
        owner = _owner(principal)
        if owner in self._importers:
            raise _too_many_imports("another import of yours is running; at most 1 per caller")
        self._importers.add(owner)
        try:
            yield
        finally:
            self._importers.discard(owner)

    @contextmanager
    def import_slot(self) -> Generator[None]:
        """Hold one of the import slots of all callers. Raise Exhausted `TOO_MANY_IMPORTS` without a free slot."""
        if self._imports >= self._settings.max_imports:
            raise _too_many_imports(f"too many imports at once; at most {self._settings.max_imports:,} per process")
        self._imports += 1
        try:
            yield
        finally:
            self._imports -= 1

    @contextmanager
    def _slowly(self, principal: Principal) -> Generator[None]:
        owner, most = _owner(principal), self._settings.max_uploads_per_principal
        if self._slow[owner] >= most:
            raise Exhausted(
                f"too many slow request bodies at once; at most {most:,} per caller",
                reason="TOO_MANY_UPLOADS",
                suggestion="send large requests one after another",
                retry_after=1.0,
            )
        self._slow[owner] += 1
        try:
            yield
        finally:
            self._slow[owner] -= 1
            if not self._slow[owner]:
                del self._slow[owner]


class Body:
    """A body that arrives in parts. Only the time of waiting for the client counts for the time limits."""

    def __init__(self, request: Request, limit: int, total: float, settings: GatewaySettings, hint: str = "") -> None:
        """Accept at most `limit` bytes in `total` seconds. The settings limit each pause and give the minimum rate."""
        self.size = 0
        self._request = request
        self._limit = limit
        self._total = total
        self._pause = settings.body_timeout
        self._rate = settings.min_body_rate
        self._grace = min(GRACE, settings.body_timeout)
        self._hint = hint
        self._loop = asyncio.get_running_loop()
        self._waited = 0.0
        self._ended = False

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the rest of the body. Raise BodyTooLarge; BodyTooSlow; ClientGone."""
        while not self._ended:
            seconds, late = self._patience()
            try:
                async with asyncio.timeout(seconds):
                    part = await self._receive()
            except TimeoutError:
                raise late from None
            yield part

    async def unpaced(self) -> AsyncIterator[bytes]:
        """Yield the rest of the body without time limits. A caller with its own time limit may continue with
        `parts`."""
        while not self._ended:
            yield await self._receive()

    async def _receive(self) -> bytes:
        begun = self._loop.time()
        try:
            message = await self._request.receive()
        finally:
            self._waited += self._loop.time() - begun
        if message["type"] == "http.disconnect":
            raise ClientGone
        part: bytes = message.get("body", b"")
        self.size += len(part)
        if self.size > self._limit:
            raise BodyTooLarge(self._limit, self._hint)
        self._ended = not message.get("more_body", False)
        return part

    def _patience(self) -> tuple[float, BodyTooSlow]:
        """Return the seconds to wait for the next part, and the error to raise after them."""
        timeout = BodyTooSlow("the request body took too long to arrive", "BODY_TIMEOUT")
        left = min(self._total - self._waited, self._pause)
        if self._rate:
            on_time = max(self._grace, self.size / self._rate) - self._waited
            if on_time < left:
                slow = f"the request body arrives too slowly: at least {self._rate:,} bytes per second are required"
                return on_time, BodyTooSlow(slow, "BODY_TOO_SLOW")
        return left, timeout


def _owner(principal: Principal) -> tuple[str, str]:
    return principal.tenant, principal.owner


def _too_many_imports(what: str) -> Exhausted:
    return Exhausted(
        what,
        reason="TOO_MANY_IMPORTS",
        suggestion="import sessions one after another",
        retry_after=_IMPORT_RETRY,
    )
