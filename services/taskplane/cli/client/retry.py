"""How long to go on trying a server that cannot be reached."""

import asyncio
from typing import Final

from taskplane.cli.client.failures import NobodyThere, Unreachable

# A broken stream is taken up again after these pauses in seconds, the last one over and over.
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
GIVE_UP_AFTER: Final = 60.0


class Patience:
    """Pauses between tries, longer each time, until `give_up_after` seconds have passed without any success.

    A server that was never there is not waited for: the first try that finds nobody is the last one.
    """

    def __init__(self, give_up_after: float = GIVE_UP_AFTER) -> None:
        """Nothing has failed yet."""
        self._give_up_after = give_up_after
        self._tries = 0
        self._since: float | None = None
        self._reached = False

    def reset(self) -> None:
        """Something came through: the next failure is a first one."""
        self._tries, self._since, self._reached = 0, None, True

    async def wait(self, error: Unreachable) -> None:
        """Waits before the next try, as long as the server asked for or longer each time; gives up with `error`."""
        if not self._reached and isinstance(error, NobodyThere):
            raise error
        self._reached = True
        now = asyncio.get_running_loop().time()
        self._since = self._since if self._since is not None else now
        pause = error.retry_after or _PAUSES[min(self._tries, len(_PAUSES) - 1)]
        if now + pause - self._since > self._give_up_after:
            raise error
        self._tries += 1
        await asyncio.sleep(pause)
