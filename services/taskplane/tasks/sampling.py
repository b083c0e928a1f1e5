"""Counts tasks in the database for the metrics, every few seconds."""

import asyncio
import logging
from typing import Final

from taskplane.runtime.errors import PlaneError
from taskplane.tasks import metrics
from taskplane.tasks.lifecycle import state_name
from taskplane.tasks.store import CountLog, OpenTasks

_log = logging.getLogger(__name__)
EVERY: Final = 10.0
"""Seconds between two counts."""


class Sampler:
    """Keeps the gauges of tasks up to date; each store process shows the counts of the whole database."""

    def __init__(self, log: CountLog) -> None:
        self._log = log
        self._agents: set[str] = set()

    async def run(self) -> None:
        """Count until cancelled."""
        while True:
            try:
                self.show(await self._log.open_tasks())
            except PlaneError as error:
                _log.warning("tasks could not be counted, will retry: %s", error)
            await asyncio.sleep(EVERY)

    def show(self, found: OpenTasks) -> None:
        """Set the gauges."""
        queued = sum(waiting.tasks for waiting in found.queued)
        for state, tasks in (("queued", queued), ("running", found.leased)):
            metrics.TASKS.labels(state).set(tasks)
        for paused, tasks in found.paused.items():
            metrics.TASKS.labels(state_name(paused)).set(tasks)
        for agent in self._agents - {waiting.agent for waiting in found.queued}:
            metrics.QUEUED.labels(agent).set(0)
            metrics.OLDEST.labels(agent).set(0)
        for waiting in found.queued:
            self._agents.add(waiting.agent)
            metrics.QUEUED.labels(waiting.agent).set(waiting.tasks)
            metrics.OLDEST.labels(waiting.agent).set(waiting.oldest)
        metrics.UNCOPIED.set(found.uncopied)
        metrics.EXECUTORS.set(found.executors)
