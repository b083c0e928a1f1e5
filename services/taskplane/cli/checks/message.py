"""A check by one real message with a stream that is broken on purpose and resumed."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Final

from taskplane.cli.advice import advice
from taskplane.cli.checks.finding import Finding
from taskplane.cli.connection import Connection
from taskplane.cli.render import time_of
from taskplane.cli.waiting import waiting_lines
from taskplane.client.events import ArtifactUpdate, FullTask, Message, Received, StatusUpdate
from taskplane.client.failures import Declined, Failure
from taskplane.client.messages import user_message
from taskplane.client.task_log import Logged

_DEMO: Final = "demo"
# Eight pieces of an artifact, one every quarter of a second.
_TEXT: Final = "slow 8"
# Events after which the stream is broken.
_BREAK_AFTER: Final = 5
# Minimum seconds between the writes of two events. From these on, a late arrival shows a proxy that holds events back.
_TELLING: Final = 0.5
# Seconds between looks at a task that has not begun.
_LOOK: Final = 1.1


async def one_message(connection: Connection, agent: str, agents: Sequence[str]) -> AsyncGenerator[Finding]:
    """Send a message to an agent, break its stream, resume it, and compare its events with the log of the task.

    Without an agent the demo agent is used, if it is served. The session of the message is deleted afterwards.
    """
    agent = agent or (_DEMO if _DEMO in agents else "")
    if not agent:
        yield Finding("ok", "message", "skipped; --agent NAME sends one message to that agent")
        return
    sent = _Sent()
    try:
        await sent.run_if_served(connection, agent)
        async for finding in sent.findings(connection):
            yield finding
    except Failure as failure:
        yield Finding("failed", "message", f"{agent}: {failure.message}", advice(failure))
    finally:
        if sent.context_id:
            with suppress(Failure):
                await connection.sessions.delete(sent.context_id)


class _Sent:
    """A message and the events of its task, with the times when they arrived."""

    def __init__(self) -> None:
        self.task_id = self.context_id = ""
        self._arrived: dict[str, float] = {}
        self._begins = ""
        self._broken = self._direct = False

    async def run_if_served(self, connection: Connection, agent: str) -> None:
        """Run, as long as something may take the task. Raise Declined `AGENT_UNSERVED` otherwise."""
        running = asyncio.create_task(self.run(connection, agent))
        try:
            while not (await asyncio.wait({running}, timeout=_LOOK))[0]:
                if not self.task_id or len(self._arrived) > 1:
                    continue
                task = await connection.get(self.task_id, history_length=0)
                if lines := waiting_lines(task.metadata):
                    raise Declined(lines[0], reason="AGENT_UNSERVED", suggestion=lines[-1])
            await running
        finally:
            running.cancel()
            await asyncio.wait({running})

    async def run(self, connection: Connection, agent: str) -> None:
        """Send the message, leave its stream after some events, and follow the rest after the last cursor."""
        a2a = connection.agent(agent)
        cursor = ""
        async with aclosing(a2a.stream(user_message(_TEXT))) as stream:
            async for received in stream:
                self._note(received)
                cursor = received.cursor or cursor
                if self.task_id and len(self._arrived) == _BREAK_AFTER:
                    self._broken = True
                    break
        self._direct = not self.task_id
        if not self._broken:
            return
        async with aclosing(a2a.resume(self.task_id, cursor)) as rest:
            async for received in rest:
                self._note(received)

    async def findings(self, connection: Connection) -> AsyncGenerator[Finding]:
        """Compare the events that arrived with the log."""
        if self._direct:
            yield Finding("ok", "message", "the agent answered directly, without a stream to resume")
            return
        logged = [one async for one in connection.log.events(self.task_id)]
        # The task at the beginning of a stream has the events until then.
        until = next((one.generation for one in logged if one.cursor == self._begins), 0)
        shown = [one for one in logged if one.event is not None and one.generation >= until]
        missing = [one.generation for one in shown if one.cursor not in self._arrived]
        yield Finding("ok", "message", f"the message began a task with {len(logged)} events")
        if missing:
            numbers = ", ".join(map(str, missing))
            yield Finding("failed", "resume", f"events {numbers} of task {self.task_id} did not arrive")
        elif self._broken:
            yield Finding("ok", "resume", f"the stream was broken after {_BREAK_AFTER} events and resumed, 0 lost")
        else:
            yield Finding("ok", "resume", "the task was too short for a test of resuming")
        yield self._buffering(shown[:_BREAK_AFTER])

    def _buffering(self, shown: Sequence[Logged]) -> Finding:
        """Compare the times between events with the times between their arrivals."""
        times = [(time_of(one).timestamp(), self._arrived[one.cursor]) for one in shown if one.cursor in self._arrived]
        written = times[-1][0] - times[0][0] if times else 0.0
        if written >= _TELLING and times[-1][1] - times[0][1] < written / 2:
            return Finding(
                "failed",
                "buffering",
                "events arrive together, long after they were written",
                "A proxy buffers responses: turn buffering off for this server, for example with proxy_buffering off.",
            )
        return Finding("ok", "buffering", "events arrive as they are written")

    def _note(self, received: Received) -> None:
        match received.event:
            case FullTask() as task:
                self.task_id, self.context_id = task.id, task.context_id
                self._begins = self._begins or received.cursor
            case Message():
                self.context_id = str(received.data["message"].get("contextId") or "")
            case StatusUpdate() | ArtifactUpdate() as update:
                self.task_id = update.task_id
            case _:
                pass
        if received.cursor:
            self._arrived.setdefault(received.cursor, time.time())
