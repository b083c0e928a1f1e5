"""Streams of payloads, whatever carries them to the client."""

from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing

from taskplane.gateway.a2a.call import Call
from taskplane.gateway.a2a.follow import Item
from taskplane.gateway.a2a.plain_text import PlainText
from taskplane.gateway.metrics import EVENTS
from taskplane.gateway.translate.dialect import Payload
from taskplane.gateway.web.slots import Slot
from taskplane.runtime.errors import Refused


class PayloadStream:
    """The elements of a stream in batches. Close it with `aclose`, at its end or before."""

    __slots__ = ("_batches", "_first", "_plain", "_whole", "numbered")

    def __init__(
        self,
        batches: AsyncGenerator[list[Item], None],
        *,
        growing_text: bool,
        numbered: bool = False,
        whole: bool = False,
    ) -> None:
        """Take the batches. `growing_text`: the pieces of growing texts stay among them. `numbered`: the elements are
        written with their generations. `whole`: nothing has to be waited for."""
        self._batches = batches
        self._first: list[Item] | None = None
        self._plain = None if growing_text else PlainText()
        self.numbered = numbered
        self._whole = whole

    async def prime(self) -> list[Item]:
        """Wait for the first batch and return it, empty if there is none; the iteration still begins with it."""
        try:
            self._first = await anext(self._batches)
        except StopAsyncIteration:
            return []
        return self._first

    @property
    def waits(self) -> bool:
        """Return whether the next batch may have to be waited for: not the first one of a send, nor the end after a
        direct answer."""
        return self._first is None and not self._whole

    def __aiter__(self) -> "PayloadStream":
        return self

    async def __anext__(self) -> list[Item]:
        while True:
            items, self._first = self._first, None
            if items is None:
                try:
                    items = await self._batches.__anext__()
                except StopAsyncIteration:
                    if not (items := self._rest()):
                        raise
                    EVENTS.inc(len(items))
                    return items
            if self._plain is not None:
                items = self._plain.take(items)
            if items:
                EVENTS.inc(len(items))
                return items

    def _rest(self) -> list[Item]:
        """Return what was held back; once."""
        plain, self._plain = self._plain, None
        return [] if plain is None else plain.rest()

    async def aclose(self) -> None:
        """Close the watch behind the stream."""
        await self._batches.aclose()


def take_slot(call: Call) -> Slot:
    """Return the right to one more stream. Raise Refused `UNSUPPORTED_OPERATION` if the agent does not stream,
    Exhausted `TOO_MANY_STREAMS`."""
    if call.agent is not None and not call.agent.streams:
        raise Refused("this agent does not stream", reason="UNSUPPORTED_OPERATION")
    return call.plane.streams.take(call.caller.principal)


async def begin(serving: Awaitable[PayloadStream], slot: Slot) -> PayloadStream:
    """Return the stream that an operation serves. The slot is released if that fails; otherwise the caller does it at
    the end of the stream."""
    try:
        return await serving
    except BaseException:
        slot.release()
        raise


async def single(*payloads: Payload) -> AsyncGenerator[list[Item], None]:
    """Yield one batch of elements that have no cursors."""
    yield [("", payload) for payload in payloads]


async def prepend(payload: Payload, batches: AsyncGenerator[list[Item], None]) -> AsyncGenerator[list[Item], None]:
    """Yield an element that has no cursor, then the batches."""
    yield [("", payload)]
    async with aclosing(batches):
        async for items in batches:
            yield items
