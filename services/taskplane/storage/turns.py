"""A few places (such as connections) shared fairly by owners: nobody waits for all requests of another owner."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from taskplane.runtime.errors import Unavailable
from taskplane.runtime.principal import current
from taskplane.runtime.sharing import Owner

# Seconds.
_LONGEST: Final = 5.0


class Turns:
    """A number of places. A free place goes to the waiting owner with the fewest places, in the order of arrival."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._held: Counter[Owner] = Counter()
        self._waiting: dict[Owner, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[None, None]:
        """Hold a place during the body, for the owner of the call being served.

        Unavailable `DATABASE_BUSY`: no place was free for some seconds.
        """
        owner = here()
        if self._free:
            self._free -= 1
            self._held[owner] += 1
        else:
            await self._turn(owner)
        try:
            yield
        finally:
            self._pass_on(owner)

    async def _turn(self, owner: Owner) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            async with asyncio.timeout(_LONGEST):
                await turn
        except TimeoutError:
            raise Unavailable("all database connections are in use", reason="DATABASE_BUSY", retry_after=1.0) from None
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._pass_on(owner)
            raise

    def _pass_on(self, owner: Owner) -> None:
        """Give a place of the owner to the next waiting owner."""
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        while self._waiting:
            following = min(self._waiting, key=self._held.__getitem__)
            line = self._waiting.pop(following)
            turn = line.popleft()
            if line:
                # Behind the other owners with as few places.
                self._waiting[following] = line
            if not turn.done():
                self._held[following] += 1
                turn.set_result(None)
                return
        self._free += 1


def here() -> Owner:
    """Return the owner of the call being served; ("", "") for work without an owner."""
    principal = current()
    return ("", "") if principal is None else (principal.tenant, principal.owner)
