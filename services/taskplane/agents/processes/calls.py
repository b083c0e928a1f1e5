"""The calls of a turn from the process of its agent, as frames to the executor."""

import asyncio
from typing import Any

from taskplane.agents import agent as port
from taskplane.agents.asked_calls import AskedCalls
from taskplane.agents.processes.frames import Answer
from taskplane.agents.processes.reports import Call, framed


class CallsByFrames(AskedCalls):
    """The calls of one turn. Belongs to one event loop."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        super().__init__(self._send)
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._over = False
        self._messages: asyncio.Task[list[port.Message]] | None = None

    async def incoming(self) -> list[port.Message]:
        """Ask the executor, where the messages count as read then; a caller that gives up leaves them to the next
        caller."""
        asked = self._messages
        if asked is None:
            asked = self._messages = asyncio.create_task(super().incoming())
            # If nobody waits for it any more.
            asked.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            messages = await asyncio.shield(asked)
        finally:
            mine = self._messages is asked
            if mine and asked.done():
                self._messages = None
        return messages if mine else []

    def close(self) -> None:
        """Make no further call: the turn is over, and the next one may be another user's."""
        self._over = True

    def take(self, answer: Answer) -> None:
        """Take an answer."""
        waiting = self._waiting.pop(answer.number, None)
        if waiting is None or waiting.done():
            return
        if answer.fault is not None:
            waiting.set_exception(answer.fault)
        else:
            waiting.set_result(answer.value)

    async def _send(self, method: str, *arguments: Any) -> Any:
        if self._over:
            raise RuntimeError(f"{method} was called after the end of the turn")
        self._number += 1
        frame = framed(Call(self._number, method, arguments))
        waiting = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        self._writer.write(frame)
        return await waiting
