"""Retention: deletes events of tasks that ended long ago."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Final

from taskplane.runtime.errors import PlaneError
from taskplane.tasks.domain.commands import Trim, Trimmed
from taskplane.tasks.domain.task import Row
from taskplane.tasks.domain.trimming import trimmable_to
from taskplane.tasks.queue.leases import settled
from taskplane.tasks.store import RetentionLog

_log = logging.getLogger(__name__)
# Generations that one transaction deletes, and tasks that are read together.
_AT_ONCE: Final = 500
_PAGE: Final = 200


@dataclass(slots=True)
class Garbage:
    """The number of trimmed tasks, of deleted events, and of the bytes of their payloads.

    `more`: the time was up before all tasks were looked at.
    """

    tasks: int = 0
    events: int = 0
    bytes: int = 0
    more: bool = False


class Trimmer:
    """Trims the logs of managed tasks that ended more than `ttl` seconds ago, and those of document tasks.

    `ttl` 0: nothing is trimmed. Any number of stores may trim at the same time. Every `every` seconds, give or take a
    quarter, it searches for such logs, and commits one short transaction after the other, so that no caller waits long.
    """

    def __init__(self, log: RetentionLog, *, ttl: float, every: float) -> None:
        self._log = log
        self._ttl = ttl
        self._every = every

    async def run(self) -> None:
        """Trim until cancelled."""
        while self._ttl:
            await asyncio.sleep(self._every * random.uniform(0.75, 1.25))
            try:
                gone = await self.trim()
            except PlaneError as error:
                _log.warning("trimming of old logs failed, will retry: %s", error)
            else:
                if gone.events:
                    _log.info("trimmed %d events of %d tasks", gone.events, gone.tasks)

    async def trim(self, seconds: float | None = None) -> Garbage:
        """Trim for about this number of seconds (None: until everything is trimmed). Return the numbers of deleted
        rows. Raise Unavailable."""
        gone = Garbage()
        if not self._ttl:
            return gone
        began, before = time.monotonic(), await self._ended_before()
        async for page in self._pages(before):
            for rows in _together(page, before):
                if seconds is not None and time.monotonic() - began > seconds:
                    gone.more = True
                    return gone
                await self._trim(rows, before, gone)
        return gone

    async def survey(self) -> Garbage:
        """Return the counts that `trim` would delete now."""
        found = Garbage()
        if not self._ttl:
            return found
        before = await self._ended_before()
        async for page in self._pages(before):
            trims = [(row.uid, row.trimmed_generation, trimmable_to(row, before)) for row in page]
            for trim in trims:
                events, size = await self._log.removable([trim])
                found.tasks += bool(events)
                found.events += events
                found.bytes += size
        return found

    async def _trim(self, rows: Sequence[Row], before: int, gone: Garbage) -> None:
        touched: set[str] = set()
        wanted = [row.uid for row in rows]
        while wanted:
            ops = [Trim(task_uid=uid, ended_before=before, at_most=_AT_ONCE) for uid in wanted]
            answers = settled(await self._log.submit_all(ops))
            left: list[str] = []
            for uid, answer in zip(wanted, answers, strict=True):
                if not isinstance(answer, Trimmed):
                    _log.error("the log of task %s could not be trimmed: %s", uid, answer)
                    continue
                gone.events += answer.events
                gone.bytes += answer.bytes
                if answer.events:
                    touched.add(uid)
                if answer.more:
                    left.append(uid)
            wanted = left
        gone.tasks += len(touched)

    async def _ended_before(self) -> int:
        return await self._log.now() - int(self._ttl * 1_000_000)

    async def _pages(self, before: int) -> AsyncGenerator[Sequence[Row], None]:
        place = (0, "")
        while rows := await self._log.trimmable(before, place, _PAGE):
            yield rows
            place = rows[-1].status_at, rows[-1].uid
        uid = ""
        while rows := await self._log.untrimmed_documents(uid, _PAGE):
            yield rows
            uid = rows[-1].uid


def _together(rows: Sequence[Row], before: int) -> list[list[Row]]:
    """Split rows into parts for one transaction each. A task that is too large is a part of its own."""
    parts: list[list[Row]] = []
    weight = _AT_ONCE
    for row in rows:
        own = trimmable_to(row, before) - row.trimmed_generation
        if weight + own > _AT_ONCE:
            parts.append([])
            weight = 0
        parts[-1].append(row)
        weight += own
    return parts
