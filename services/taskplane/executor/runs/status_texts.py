"""Ask the StatusWriter of an agent for texts while a run works.

One call at a time. A text that equals one of the last five texts of the task is dropped.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from taskplane.agents import agent as port
from taskplane.agents.faults import is_ours
from taskplane.agents.hosted import Hosted
from taskplane.agents.sources import described
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.executor.runs.change_buffer import ChangeBuffer
from taskplane.executor.runs.outbox import Outbox
from taskplane.executor.runs.ports import Ports
from taskplane.runtime.retry import retry_until_reachable

log = logging.getLogger(__name__)

MAX_LENGTH: Final = 50
"""The maximum number of characters of a status text."""
REMEMBERED: Final = 5
"""A new text must differ from this number of texts before it."""


class StatusTexts:
    """The status texts of one run."""

    def __init__(self, ports: Ports, hosted: Hosted, task_id: str, outbox: Outbox, buffer: ChangeBuffer) -> None:
        self.agent = hosted.name
        self.task_id = task_id
        self._ports = ports
        self._writer = hosted.status_writer
        self._outbox = outbox
        self._buffer = buffer
        # The newest first; None until they are read.
        self._recent: deque[str] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # A call has raised in this run.
        self._failed = False

    @contextmanager
    def beside(self, turn: Callable[[], port.Turn]) -> Generator[None]:
        """Write texts until the `with` block ends. `turn()` returns the current Turn; it is called before each text."""
        if self._writer is None:
            yield
            return
        ended = asyncio.Event()
        task = asyncio.create_task(self._write(self._writer, turn, ended), name=f"status texts of task {self.task_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            yield
        finally:
            # Do not wait for the call here: if it hangs, the task must still end.
            ended.set()
            task.cancel()

    async def close(self) -> None:
        """Wait until no call is running."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _write(self, writer: port.StatusWriter, turn: Callable[[], port.Turn], ended: asyncio.Event) -> None:
        # A library may suppress CancelledError or replace it by its own exception, so check the event too.
        while not ended.is_set():
            await asyncio.sleep(self._ports.status_interval)
            if not self._buffer.takes_status_texts:
                return
            recent = await self._read_recent()
            try:
                text = await writer.status_text(turn(), tuple(recent))
                if isinstance(text, port.StatusText):
                    self._outbox.count(text.usage)
                    text = text.text
                if text is None or not self._is_news(text, recent):
                    continue
                if not self._outbox.blocked and self._buffer.status_text(text):
                    recent.appendleft(text)
            except BaseException as error:
                if is_ours(error) or (ended.is_set() and isinstance(error, asyncio.CancelledError)):
                    raise
                self._log(error)

    def _log(self, error: BaseException) -> None:
        """Log the exception of a call. Only the first one of a run has a traceback, since every call may fail."""
        text = "status_text of the agent of task %s failed: %s"
        log.error(text, self.task_id, described(error), exc_info=None if self._failed else error)
        self._failed = True

    def _is_news(self, text: object, recent: deque[str]) -> bool:
        if not isinstance(text, str):
            raise TypeError(f"status_text must return a str, a StatusText or None, not {type(text).__name__}")
        return bool(text.strip()) and len(text) <= MAX_LENGTH and text not in recent

    async def _read_recent(self) -> deque[str]:
        if self._recent is None:
            request = pb.ListEventsRequest(
                task_id=self.task_id, kinds=[pb.EVENT_KIND_STATUS_TEXT], newest_first=True, limit=REMEMBERED
            )
            found = await retry_until_reachable(lambda: self._ports.store.ListEvents(request))
            texts = (port.text_of(event.event.status_update.status.message) for event in found.events)
            self._recent = deque(texts, REMEMBERED)
        return self._recent
